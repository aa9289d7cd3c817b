"""`foldb whatif`: the units and sizes of a table with another definition."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Annotated, Any

import typer

from ...model.lazy_dataclass import dataclass
from ...model.limits import Limits
from ...model.tables import TableDefinition
from ..lib.completion import complete_indexes
from ..lib.definition_changes import DefinitionChanges, changed, present
from ..lib.errors import CommandError, ExitCode
from ..lib.item_writes import LogWrites, read_period, survey
from ..lib.log_location import open_log
from ..lib.options import PeriodOptions, TableArgument, Texts
from ..lib.output import counted, whole_or_half
from ..lib.planned_table import Part, Plan, PlannedTable, kept_attributes, moved_attributes
from ..lib.progress import progress
from ..lib.read_series import estimated_from, read_source, reads_text
from ..lib.session import Session
from ..lib.values import plain

_READ_FIGURES = ("read_units", "throttled_read_units", "largest_read_key", "largest_read_key_percent")


@dataclass(frozen=True, slots=True)
class KeyOptions:
    """Another key and other indexes."""

    key: Annotated[
        str | None,
        typer.Option("--key", metavar="A:S,B:N", help="Try this key of the table."),
    ] = None
    add_index: Annotated[
        Texts,
        typer.Option(
            "--add-index",
            metavar="NAME=A:S,B:N",
            help="Try another global index, as in `foldb table create --gsi`. Repeat the flag for more.",
        ),
    ] = None
    add_local: Annotated[
        Texts,
        typer.Option(
            "--add-local-index",
            metavar="NAME=B:N",
            help="Try another local index, as in `foldb table create --lsi`. Repeat the flag for more.",
        ),
    ] = None
    drop_index: Annotated[
        Texts,
        typer.Option(
            "--drop-index",
            metavar="NAME",
            help="Try the table without this index. Repeat the flag for more.",
            autocompletion=complete_indexes,
        ),
    ] = None
    move: Annotated[
        str | None,
        typer.Option(
            "--move",
            metavar="ATTRIBUTE,...",
            help="Try the table with these attributes in a second table with the same key.",
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class CapacityOptions:
    """Another capacity."""

    read: Annotated[
        int | None, typer.Option("--read-units", min=1, help="Try N provisioned read units of the table.")
    ] = None
    write: Annotated[
        int | None, typer.Option("--write-units", min=1, help="Try N provisioned write units of the table.")
    ] = None
    index: Annotated[
        Texts,
        typer.Option(
            "--index",
            metavar="NAME=READ/WRITE",
            help="Try these provisioned units of a global index. Repeat the flag for more.",
        ),
    ] = None
    on_demand: Annotated[bool, typer.Option("--on-demand", help="Try on-demand capacity.")] = False


def whatif(
    session: Session, table: TableArgument, keys: KeyOptions, capacity: CapacityOptions, period: PeriodOptions
) -> None:
    """Refold the log with the present definition and with a changed one, and print the figures of both.

    The figures are the consumed write units, the requests that the throughput would have refused, the items and bytes
    at the end, the item collections above 10 GB, and the partition key with the largest share of the write units. Reads
    are not in the log, so they are counted with --reads alone. The command changes nothing.

    Example: foldb whatif Music --add-index 'Years=Year:N keys_only'
    """
    changes = DefinitionChanges(
        keys.key,
        keys.add_index or (),
        keys.add_local or (),
        keys.drop_index or (),
        (capacity.read, capacity.write),
        capacity.index or (),
        capacity.on_demand,
    )
    moved = [] if keys.move is None else [name.strip() for name in keys.move.split(",") if name.strip()]
    if changes == DefinitionChanges() and not moved:
        raise CommandError(
            "name a change: --add-index, --add-local-index, --drop-index, --key, --move, --write-units, --read-units, "
            "--index or --on-demand",
            ExitCode.USAGE,
        )
    source = None if period.reads is None else read_source(session, period.reads, table)
    log = open_log(session, period.log)
    span = read_period(log, period.start, period.end)
    surveyed = survey(log, span)
    assert surveyed.limits is not None, "a log begins with its limits"
    limits = surveyed.limits
    definition = present(surveyed.definition(table, log))
    before = Plan([PlannedTable(definition, limits)])
    after = _changed_plan(definition, changes, moved, limits)
    writes = LogWrites(log, span, surveyed, definition)
    requests = 0
    with progress(session.settings, session.output.stderr, table, writes.records) as advance:
        for request in writes.requests(advance):
            requests += request.is_counted
            before.follow(request)
            after.follow(request)
    reads = None if source is None else source(*writes.span_ms())
    for each in (*before.tables, *after.tables):
        each.count_invalid(before.tables[0].items())
        if reads is not None:
            each.read(reads)
    rows = _rows(before, after, None if period.reads is None else estimated_from(period.reads))
    session.output.rows(rows, first=("part", "figure", "as_it_is", "changed"))
    session.output.say(
        f"{table}: {counted(requests, 'write')} · {before.units:,} write units as it is, {after.units:,} changed"
        f"{_difference(before.units, after.units)} · {reads_text(period.reads)}"
    )


def _changed_plan(
    definition: TableDefinition, changes: DefinitionChanges, moved: Sequence[str], limits: Limits
) -> Plan:
    """Return the plan with the changed definition.

    Raises:
        CommandError: The changes contradict each other or the definition.
    """
    made = changed(definition, changes, limits)
    if not moved:
        return Plan([PlannedTable(made, limits, is_rekeyed=made.key != definition.key)])
    if changes.key is not None:
        raise CommandError("--move keeps the key of the table: try --key in a run of its own", ExitCode.USAGE)
    keys = {name: f"the index {index.name}" for index in made.indexes for name in index.key.names}
    keys |= dict.fromkeys(made.key.names, "the table")
    for name in moved:
        if name in keys:
            raise CommandError(f"{name} is a key of {keys[name]}, and cannot be moved", ExitCode.USAGE)
    second = replace(made, id=made.id + len(made.indexes) + 1, name=f"{made.name} (moved)", indexes=())
    return Plan(
        [
            PlannedTable(made, limits, split=kept_attributes(moved, limits)),
            PlannedTable(second, limits, split=moved_attributes(moved, made.key, limits), has_rest=False),
        ]
    )


def _rows(before: Plan, after: Plan, reads_from: str | None) -> Iterator[dict[str, Any]]:
    """Yield a row for each figure of each table and index. Figures of reads have the source of the estimate."""
    parts = {_name(part): part for plan in (before, after) for part in plan.parts()}
    for name in parts:
        sides = {}
        for side, plan in (("as_it_is", before), ("changed", after)):
            part = next((each for each in plan.parts() if _name(each) == name), None)
            sides[side] = {} if part is None else _figures(part)
        for figure in dict.fromkeys(name for figures in sides.values() for name in figures):
            values = {side: figures[figure] for side, figures in sides.items() if figure in figures}
            mark = {"estimated_from": reads_from} if figure in _READ_FIGURES else {}
            yield {"part": name, "figure": figure} | values | mark


def _name(part: Part) -> str:
    name = part.definition.name
    return name if part.table is None else f"{part.table}.{name}"


def _figures(part: Part) -> dict[str, Any]:
    figures: dict[str, Any] = {"write_units": part.units, "throttled": part.throttled}
    if part.read_half_units is not None:
        read, throttled = (Decimal(each) / 2 for each in (part.read_half_units, part.throttled_half_units))
        figures |= {"read_units": whole_or_half(read), "throttled_read_units": whole_or_half(throttled)}
        if part.largest_read is not None:
            key, share = part.largest_read
            figures |= {"largest_read_key": key, "largest_read_key_percent": share * 100}
    figures |= {"items": part.store.count, "bytes": part.size}
    figures |= {"invalid_items": part.invalid} if part.invalid else {}
    figures |= {"collisions": part.collisions} if part.collisions else {}
    figures["collections_over_10gb"] = len(part.large)
    found = part.largest_key()
    if found is None or not part.units:
        return figures
    item, units = found
    values = [plain(value) for value in item.values()]
    percent = (Decimal(100 * units) / part.units).quantize(Decimal("0.1"))
    return figures | {
        "largest_key": values[0] if len(values) == 1 else values,
        "largest_key_percent": percent,
    }


def _difference(before: int, after: int) -> str:
    """Return the change in percent.

    >>> _difference(200, 150), _difference(0, 3)
    (' (-25.0 %)', '')
    """
    if not before:
        return ""
    return f" ({(Decimal(100 * (after - before)) / before).quantize(Decimal('0.1')):+} %)"
