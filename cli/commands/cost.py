"""`foldb cost`: the cost of tables by the user's prices, provisioned and on demand."""

import math
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer

from ...materializer.fold.state import PartitionState
from ...model.backups import Backup
from ...model.capacity import storage_bytes
from ...model.lazy_dataclass import dataclass
from ...model.tables import TableDefinition
from ..lib.completion import complete_tables
from ..lib.errors import CommandError, ExitCode
from ..lib.item_writes import LogWrites, Request, read_period, survey
from ..lib.log_location import open_log
from ..lib.options import PeriodOptions
from ..lib.output import Row
from ..lib.prices import GB, HOURS_A_MONTH, Prices, read_prices
from ..lib.progress import progress
from ..lib.read_series import Reads, read_source, reads_text
from ..lib.session import Session

_COLUMNS: Final = ("table", "charge")
_HOUR_MS: Final = 3_600_000
_HOUR_S: Final = 3_600
_MINUTE_MS: Final = 60_000
_MINUTE_S: Final = 60
_MILLION: Final = 1_000_000
_HOURS_DIGITS: Final = Decimal("0.001")
_HOUR_DIGITS: Final = Decimal("0.000001")
_MONTH_DIGITS: Final = Decimal("0.0001")
_TENTH: Final = Decimal("0.1")


@dataclass(slots=True)
class WriteMeter:
    """The write units of a table or a global index, and its busiest minute."""

    units: int = 0
    busiest: int = 0
    _minute: int = -1
    _of_minute: int = 0

    def count(self, units: int, time_ms: int) -> None:
        minute = time_ms // _MINUTE_MS
        if minute > self._minute:
            self._minute, self._of_minute = minute, 0
        self.units += units
        self._of_minute += units
        self.busiest = max(self.busiest, self._of_minute)


class Charge(NamedTuple):
    """One kind of cost of a table, and the amounts of a month in both billing modes; None if it is not known."""

    name: str
    provisioned: Decimal | None
    on_demand: Decimal | None
    units: Decimal | None = None
    provisioned_units: int = 0
    utilisation: Decimal | None = None
    size: int | None = None

    def row(self, table: str | None) -> Row:
        """Return the row of the output."""
        row: dict[str, Any] = {} if table is None else {"table": table}
        row["charge"] = self.name
        if self.size is not None:
            row["bytes"] = self.size
        if self.units is not None:
            row["units"] = self.units
        if self.provisioned_units:
            row["provisioned_units"] = self.provisioned_units
        if self.utilisation is not None:
            row["utilisation_percent"] = self.utilisation.quantize(_TENTH)
        for name, month in (("provisioned", self.provisioned), ("on_demand", self.on_demand)):
            if month is not None:
                row[f"{name}_hour"] = (month / HOURS_A_MONTH).quantize(_HOUR_DIGITS) + 0  # not -0
                row[f"{name}_month"] = month.quantize(_MONTH_DIGITS) + 0
        if self.provisioned is not None and self.on_demand is not None and self.units is not None:
            row["cheaper"] = "provisioned" if self.provisioned < self.on_demand else "on demand"
        return row


@dataclass(frozen=True, slots=True)
class Bill:
    """The charges of a table.

    Attributes:
        definition: The table.
        prices: The prices.
        hours: The length of the period of the writes; 0 if it is not known.
    """

    definition: TableDefinition
    prices: Prices
    hours: Decimal

    def writes(self, meters: Mapping[str, WriteMeter]) -> Charge:
        """Return the charge of the write units in the log."""
        busiest = [-(-each.busiest // _MINUTE_S) for each in meters.values()]
        units = Decimal(sum(each.units for each in meters.values()))
        return self._throughput("write", units, self.hours, sum(busiest))

    def reads(self, reads: Reads | None) -> Charge:
        """Return the charge of the estimated read units."""
        if reads is None:
            return self._throughput("read", None, Decimal(), 0)
        own = [each for (table, _), each in reads.items() if table == self.definition.name]
        units = sum((sum(each.units.values(), Decimal()) for each in own), Decimal())
        hours = max(
            (Decimal(len(each.units) * each.bucket_ms) / _HOUR_MS for each in own), default=self.hours
        )
        busiest = [max(each.units.values(), default=Decimal()) * 1000 / each.bucket_ms for each in own]
        return self._throughput("read", units, hours, sum(map(math.ceil, busiest)))

    def storage(self, states: Sequence[PartitionState], backups: Sequence[Backup]) -> Iterator[Charge]:
        """Yield the charges of the items and entries, of point-in-time recovery, and of the backups."""
        prices, size = self.prices, sum(_size(state, self.definition.id) for state in states)
        yield _stored("storage", size, prices.storage_gb_month)
        if self.definition.recovery is not None:
            yield _stored("pitr", size, prices.pitr_gb_month)
        saved = sum(each.size for each in backups if each.definition.id == self.definition.id)
        if saved:
            yield _stored("backups", saved, prices.backup_gb_month)

    def _throughput(self, access: str, units: Decimal | None, hours: Decimal, busiest: int) -> Charge:
        """Return the charge of one direction. A table on demand is compared with the units of its busiest time."""
        provisioned = busiest
        if self.definition.billing_mode == "PROVISIONED":
            throughputs = [self.definition.throughput, *(each.throughput for each in self.definition.gsis)]
            provisioned = sum(getattr(each, access) for each in throughputs)
        on_demand = utilisation = None
        if units is not None and hours:
            million: Decimal = getattr(self.prices, f"million_{access}_requests")
            on_demand = units * million / _MILLION * HOURS_A_MONTH / hours
            if provisioned:
                utilisation = units / (provisioned * _HOUR_S * hours) * 100
        month: Decimal = provisioned * getattr(self.prices, f"{access}_unit_hour") * HOURS_A_MONTH
        is_known = units is not None or self.definition.billing_mode == "PROVISIONED"
        return Charge(f"{access}s", month if is_known else None, on_demand, units, provisioned, utilisation)


def _stored(name: str, size: int, price: Decimal) -> Charge:
    month = size * price / GB
    return Charge(name, month, month, size=size)


def _size(state: PartitionState, table_id: int) -> int:
    """Return the bytes of a table and its indexes in a partition, with 100 bytes an item."""
    table = state.tables.get(table_id)
    if table is None:
        return 0
    stores = (table.items, *(index.store for index in table.indexes.values()))
    return sum(storage_bytes(store.count, store.size) for store in stores)


def cost(
    session: Session,
    prices: Annotated[
        Path,
        typer.Option("--prices", metavar="FILE", help="The prices, in TOML or JSON: see docs/whatif.md."),
    ],
    period: PeriodOptions,
    table: Annotated[
        str | None,
        typer.Argument(
            metavar="[TABLE]",
            show_default="all tables",
            help="The name of the table.",
            autocompletion=complete_tables,
        ),
    ] = None,
    hours: Annotated[
        str | None,
        typer.Option(
            "--hours", metavar="N", show_default="from the log", help="The writes are those of N hours."
        ),
    ] = None,
    stream_reads: Annotated[
        int, typer.Option("--stream-reads", min=0, help="Add N GetRecords of streams in a month.")
    ] = 0,
) -> None:
    """Print the cost of tables by the hour and the month, as provisioned and on demand, by prices from a file.

    The writes are those of the log. Reads are not in the log: they cost nothing without --reads. The provisioned units
    of a table on demand are those of its busiest minute. Free amounts are subtracted from the total.

    Example: foldb cost Music --prices prices.toml
    """
    known = read_prices(prices)
    source = None if period.reads is None else read_source(session, period.reads, table)
    log = open_log(session, period.log)
    span = read_period(log, period.start, period.end)
    surveyed = survey(log, span)
    only = None if table is None else surveyed.definition(table, log)
    writes = LogWrites(log, span, surveyed, only)
    meters: dict[int, dict[str, WriteMeter]] = {}
    with progress(session.settings, session.output.stderr, "cost", writes.records) as advance:
        for request in writes.requests(advance):
            _count(request, meters)
    reads = None if source is None else source(*writes.span_ms())
    lasted = _hours(hours, writes)
    definitions = [*surveyed.definitions.values()] if only is None else [only]
    charges: list[tuple[str | None, Charge]] = []
    for definition in sorted(definitions, key=lambda each: each.name):
        bill, own = Bill(definition, known, lasted), meters.get(definition.id, {})
        stored = bill.storage([*writes.states.values()], surveyed.backups)
        read = [bill.reads(reads)] if reads is not None or definition.billing_mode == "PROVISIONED" else []
        charges += [(definition.name, each) for each in (bill.writes(own), *read, *stored)]
    if stream_reads:
        month = known.million_stream_reads * stream_reads / _MILLION
        charges.append((None, Charge("stream_reads", month, month)))
    charges.append((None, _free([each for _, each in charges], known, stream_reads)))
    charges.append((None, _total([each for _, each in charges])))
    session.output.rows((charge.row(name) for name, charge in charges), first=_COLUMNS)
    session.output.say(_summary(known, lasted, period.reads))


def _hours(text: str | None, writes: LogWrites) -> Decimal:
    """Return the length of the period: `text`, or the log time between its first and last record.

    Raises:
        CommandError: `text` is not a number above 0.
    """
    if text is None:
        return Decimal(writes.last_ms - (writes.first_ms or writes.last_ms)) / _HOUR_MS
    try:
        hours = Decimal(text)
    except InvalidOperation:
        hours = Decimal()
    if not hours.is_finite() or hours <= 0:
        raise CommandError(f"--hours {text}: write a number above 0, such as 24", ExitCode.USAGE)
    return hours


def _free(charges: Sequence[Charge], prices: Prices, stream_reads: int) -> Charge:
    """Return the free amounts, as a negative charge. Free units are provisioned."""
    stored = sum(each.size or 0 for each in charges if each.name == "storage")
    both = min(prices.free_storage_gb, Decimal(stored) / GB) * prices.storage_gb_month
    both += min(prices.free_stream_reads, Decimal(stream_reads)) * prices.million_stream_reads / _MILLION
    units = Decimal()
    for access in ("write", "read"):
        used = sum(each.provisioned_units for each in charges if each.name == f"{access}s")
        free = min(getattr(prices, f"free_{access}_units"), Decimal(used))
        units += free * getattr(prices, f"{access}_unit_hour") * HOURS_A_MONTH
    return Charge("free", -both - units, -both)


def _total(charges: Sequence[Charge]) -> Charge:
    """Return the sum; a billing mode in which a charge is not known has none."""
    return Charge(
        "total", _sum([each.provisioned for each in charges]), _sum([each.on_demand for each in charges])
    )


def _sum(amounts: Sequence[Decimal | None]) -> Decimal | None:
    known = [each for each in amounts if each is not None]
    return sum(known, Decimal()) if len(known) == len(amounts) else None


def _summary(prices: Prices, hours: Decimal, reads: str | None) -> str:
    """Return the footer: the period, the currency, and the utilisation at which both modes cost the same."""
    parts = [f"{hours.quantize(_HOURS_DIGITS):,} hours of writes" if hours else "no period: give --hours"]
    parts += [f"amounts in {prices.currency}"] if prices.currency else []
    for access in ("write", "read"):
        percent = prices.break_even(access)
        if percent is not None:
            parts.append(f"provisioned {access}s are cheaper above {percent.quantize(_TENTH)} % utilisation")
    return " · ".join([*parts, reads_text(reads)])


def _count(request: Request, meters: dict[int, dict[str, WriteMeter]]) -> None:
    """Count the units of a request. Those of local indexes are of their table, whose name is empty."""
    if not request.is_counted:
        return
    for write in request.writes:
        if write.units is not None:
            own = write.units.table + sum((write.units.local or {}).values())
            of_table = meters.setdefault(write.table, {})
            for name, units in {"": own, **(write.units.glob or {})}.items():
                of_table.setdefault(name, WriteMeter()).count(units, request.time_ms)
