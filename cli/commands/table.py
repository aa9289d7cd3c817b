"""`foldb table`: tables and their settings."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ...model.lazy_dataclass import dataclass
from ..lib.batch_writer import BatchWriter, PlacedKey
from ..lib.command_group import CommandGroup
from ..lib.completion import complete_global_indexes
from ..lib.data_model import read_model
from ..lib.definitions import billing, index_request, index_units, table_request, units_of, units_request
from ..lib.durations import read_duration
from ..lib.errors import CommandError, ExitCode, RequestFailedError
from ..lib.key_arguments import KeyArguments
from ..lib.options import AsOf, DryRun, TableArgument, Texts, name_as_of
from ..lib.output import counted, units_text
from ..lib.progress import progress
from ..lib.read_requests import Reading
from ..lib.session import Session
from ..lib.table_series import (
    Every,
    PastUnits,
    Period,
    lower_request,
    missing_tables,
    no_series_error,
    table_like,
    tables_of,
)
from ..lib.table_status import names, until_gone, until_settled

app = CommandGroup()

Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until the change is complete.")]
Ttl = Annotated[
    str | None,
    typer.Option(
        "--ttl", metavar="NAME", help="Expire items at the time in this attribute, in seconds since 1970."
    ),
]

View = Annotated[
    Literal["both", "new", "old", "keys"],
    typer.Option("--view", help="The images of an item in a new stream: both, new, old, or its keys alone."),
]

_ROLLED = ("table", "change", "read", "write")
_VIEWS = {"both": "NEW_AND_OLD_IMAGES", "new": "NEW_IMAGE", "old": "OLD_IMAGE", "keys": "KEYS_ONLY"}


@dataclass(frozen=True, slots=True)
class ThroughputOptions:
    """The provisioned throughput of a table."""

    read: Annotated[int | None, typer.Option(min=1, help="Provision N read units. It needs --write.")] = None
    write: Annotated[int | None, typer.Option(min=1, help="Provision N write units. It needs --read.")] = None

    def units(self) -> tuple[int, int] | None:
        """Return the read and write units. None: none are given.

        Raises:
            CommandError: --read is given without --write, or --write without --read.
        """
        if self.read is None and self.write is None:
            return None
        if self.read is None or self.write is None:
            raise CommandError("provisioned throughput needs both --read and --write", ExitCode.USAGE)
        return self.read, self.write


@dataclass(frozen=True, slots=True)
class CapacityChanges(ThroughputOptions):
    """The change of a table's throughput."""

    on_demand: Annotated[
        bool, typer.Option("--on-demand", help="Change the table to on-demand capacity.")
    ] = False


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """The data model of new tables."""

    file: Annotated[
        Path | None,
        typer.Option(
            "--from-model",
            metavar="FILE",
            help="Create the tables of this data model of NoSQL Workbench (JSON).",
        ),
    ] = None
    data: Annotated[bool, typer.Option("--data", help="Put the sample data of the data model.")] = False


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """The indexes of a new table, in the short notation."""

    gsi: Annotated[
        Texts, typer.Option(metavar="NAME=A:S,B:N", help="Add a global index. Repeat the flag for more.")
    ] = None
    lsi: Annotated[
        Texts, typer.Option(metavar="NAME=B:N", help="Add a local index. Repeat the flag for more.")
    ] = None


@dataclass(frozen=True, slots=True)
class FeatureOptions:
    """The features of a new table, and whether to wait for it."""

    ttl: Ttl = None
    stream: Annotated[bool, typer.Option("--stream", help="Enable a stream of the table's changes.")] = False
    view: View = "both"
    wait: Wait = True


@dataclass(frozen=True, slots=True)
class IndexChanges:
    """The changes of a table's global indexes, in the short notation."""

    gsi: Annotated[str | None, typer.Option(metavar="NAME=A:S,B:N", help="Add a global index.")] = None
    drop_gsi: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Remove a global index.", autocompletion=complete_global_indexes),
    ] = None
    index: Annotated[
        Texts,
        typer.Option(
            metavar="NAME=READ/WRITE", help="Set the units of a global index. Repeat the flag for more."
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class FeatureChanges:
    """The changes of a table's other features."""

    ttl: Ttl = None
    no_ttl: Annotated[bool, typer.Option("--no-ttl", help="Disable the expiry of items.")] = False
    stream: Annotated[
        bool | None, typer.Option("--stream/--no-stream", help="Enable or disable the stream.")
    ] = None
    view: View = "both"
    protect: Annotated[
        bool | None, typer.Option("--protect/--no-protect", help="Enable or disable deletion protection.")
    ] = None

    def requests(self) -> Iterator[dict[str, Any]]:
        """Yield the members of each UpdateTable. The expiry has an operation of its own."""
        if self.stream is not None:
            yield {"StreamSpecification": _stream(self.view) if self.stream else {"StreamEnabled": False}}
        if self.protect is not None:
            yield {"DeletionProtectionEnabled": self.protect}


@app.command()
def create(
    session: Session,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="TABLE", show_default=False, help="The name of the table. Optional for a model."
        ),
    ] = None,
    keys: Annotated[
        Texts,
        typer.Argument(metavar="PK:TYPE [SK:TYPE]", show_default=False, help="The key; a TYPE is S, N or B."),
    ] = None,
    *,
    model: ModelOptions,
    indexes: IndexOptions,
    features: FeatureOptions,
    throughput: ThroughputOptions,
) -> None:
    """Create a table, or the tables of a data model. It is on-demand without --read and --write.

    An index can have a projection: 'NAME=A:S,B:N keys_only' or 'NAME=A:S include x,y'. A global index can have up to
    four attributes in each part of its key: 'NAME=A:S+B:S,C:N'. It has the units of the table, or its own at the end:
    'NAME=A:S keys_only 10/5'.

    --from-model creates the tables that a data model of NoSQL Workbench has, with their keys, global indexes and
    throughput, or the one that TABLE names.

    Example: foldb table create Music Artist:S Song:S --gsi 'Genres=Genre:S,Album:S' --lsi 'Years=Year:N'
    """
    if model.file is not None:
        if keys or indexes != IndexOptions() or throughput.units() is not None:
            raise CommandError("--from-model has the keys, indexes and units: remove yours", ExitCode.USAGE)
        _create_from_model(session, model, name, features)
        return
    if name is None or not keys or model.data:
        raise CommandError(
            "write TABLE and its key, as in `foldb table create Music Artist:S Song:S`, or --from-model FILE",
            ExitCode.USAGE,
        )
    request = table_request(name, keys, indexes.gsi or [], indexes.lsi or [], throughput.units())
    _create(session, request, features)


@app.command("list")
def list_(session: Session) -> None:
    """Print the names of all tables.

    Example: foldb table list -o raw
    """
    session.output.rows([{"table": name} for name in names(session)], first=("table",))


@app.command()
def describe(session: Session, name: TableArgument, as_of: AsOf = None) -> None:
    """Print a table's definition and size: the results of DescribeTable and, of the present, DescribeTimeToLive.

    Example: foldb table describe Music -o json
    """
    if as_of is not None:
        session.output.row(session.shape(name_as_of(name, as_of)).description)
        return
    description = dict(session.shape(name).description)
    answer = session.client.call("DescribeTimeToLive", {"TableName": name})
    session.output.row(description | {"TimeToLive": answer["TimeToLiveDescription"]})


@app.command()
def update(
    session: Session,
    name: TableArgument,
    indexes: IndexChanges,
    features: FeatureChanges,
    throughput: CapacityChanges,
    wait: Wait = True,
    dry_run: DryRun = False,
) -> None:
    """Change a table's throughput, indexes, expiry, stream or protection.

    --read and --write set the units of the table, --index those of an index. A new index, and each index of a table
    that was on-demand, has the units of the table or its own: --gsi 'NAME=A:S 10/5', --index NAME=10/5. Several changes
    are several requests, one after the other, because DynamoDB takes one kind of change in a request.

    Example: foldb table update Music --gsi 'Years=Year:N,Album:S'
    """
    units, on_demand = throughput.units(), throughput.on_demand
    if on_demand and (units is not None or indexes.index):
        raise CommandError("--on-demand has no units: remove --read, --write and --index", ExitCode.USAGE)
    capacity = billing(units) if on_demand or units is not None else {}
    requests = [
        capacity | _index_units(session, name, indexes, units),
        *_index_changes(session, name, indexes, units, on_demand=on_demand),
        *features.requests(),
    ]
    requests = [request for request in requests if request]
    changes_ttl = features.ttl or features.no_ttl
    if not requests and not changes_ttl:
        raise CommandError("nothing to change: see `foldb table update --help`", ExitCode.USAGE)
    if dry_run:
        session.output.plan(_plan(session, name, requests, features))
        return
    for nth, request in enumerate(requests, start=1):
        session.client.call("UpdateTable", {"TableName": name, **request})
        if wait or changes_ttl or nth < len(requests):
            until_settled(session, name)
    if features.ttl:
        _set_ttl(session, name, features.ttl)
    if features.no_ttl:
        _unset_ttl(session, name)
    _say_status(session, name)


@app.command()
def delete(session: Session, name: TableArgument, wait: Wait = True, dry_run: DryRun = False) -> None:
    """Delete a table and its items, after a confirmation. Its history stays in the log.

    `foldb restore TABLE --as-of CUT --into NEW` restores it.

    Example: foldb table delete Music --yes
    """
    description = session.shape(name).description
    items = description["ItemCount"]
    if dry_run:
        session.output.plan(
            {"change": "delete the table", "table": name, "items": items}
            | {
                "indexes": _index_names(description),
                "protected": description.get("DeletionProtectionEnabled", False),
            }
        )
        return
    session.confirm(f"Delete the table {name} and its {counted(items, 'item')}?")
    session.client.call("DeleteTable", {"TableName": name})
    if wait:
        until_gone(session, name)
    session.output.say(f"{name}: deleted")


@app.command()
def purge(session: Session, name: TableArgument, dry_run: DryRun = False) -> None:
    """Delete all items of a table, after a confirmation. The table, its indexes, stream and triggers stay.

    Each item is deleted by a write of its own, with the reason `purge of TABLE`: streams, triggers and the history see
    it, and the units are those of deletes. Others may read and write the table at the same time; an item that they
    put during the purge may stay. If the purge ends early, run it again. `foldb restore TABLE --as-of CUT --in-place`
    brings the items back.

    Example: foldb table purge Music --yes
    """
    shape = session.shape(name)
    items = shape.description["ItemCount"]
    if dry_run:
        session.output.plan({"change": "purge the table", "table": name, "items": items})
        return
    session.confirm(f"Delete {counted(items, 'item')} of the table {name}?")
    why = f"purge of {name}" + ("" if session.settings.why is None else f": {session.settings.why}")
    keys = {f"#k{nth}": key for nth, key in enumerate(shape.key_names())}
    body = {
        "TableName": name,
        "ProjectionExpression": ",".join(keys),
        "ExpressionAttributeNames": keys,
        "ConsistentRead": True,
        "ReturnConsumedCapacity": "TOTAL",
    }
    with (
        closing(session.client.copy(reason=why)) as client,
        progress(session.settings, session.output.stderr, name, items) as advance,
    ):
        found = Reading(client, "Scan", body, everything=True)
        deleter = BatchWriter(client, shape, words=("deleted", "run it again"))
        try:
            deleter.load((PlacedKey(f"{name}: an item", key) for key in found.items()), advance)
        except KeyboardInterrupt as error:
            raise CommandError(
                f"interrupted after {counted(deleter.written, 'item')}; run it again to continue",
                ExitCode.INTERRUPTED,
            ) from error
    session.output.row({"table": name, "deleted": deleter.written})
    session.output.say(
        f"{name}: deleted {counted(deleter.written, 'item')} · {units_text(deleter.units)} WCU"
    )


@dataclass(frozen=True, slots=True)
class PastOptions:
    """The units of the tables of past periods."""

    past_read: Annotated[
        int | None,
        typer.Option(
            "--past-read", min=1, show_default="unchanged", help="Lower the reads of past tables to N units."
        ),
    ] = None
    past_write: Annotated[
        int, typer.Option("--past-write", min=1, help="Lower the writes of past tables to N units.")
    ] = 1


@app.command()
def roll(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="SERIES", help="The names of the tables before the period.")],
    past: PastOptions,
    every: Annotated[Every, typer.Option("--every", help="The period of a table.")] = "month",
    ttl: Ttl = None,
    day: Annotated[
        datetime | None,
        typer.Option(
            "--on",
            metavar="DATE",
            formats=["%Y-%m-%d"],
            show_default="today in UTC",
            help="Act as on this day.",
        ),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Keep one table for each month, week or day: create the tables of this period and the next, and lower past ones.

    The tables are named after their period: Events_2026_11, Events_2026_W47 or Events_2026_11_23. A new table has the
    keys, indexes, throughput, stream, expiry and other settings of the current one, or of the newest before it. A
    second run changes nothing, so that a timer can run the command often.

    Example: foldb table roll Readings --every month --past-read 5
    """
    period = Period(every, (day or datetime.now(UTC)).date())
    known = names(session)
    tables = tables_of(name, every, known)
    if not tables:
        raise no_series_error(period, name, known)
    source, missing = missing_tables(period, name, tables)
    units = PastUnits(past.past_read, past.past_write)
    lowered = {
        table: request
        for table in tables
        if table < period.table(name) and (request := lower_request(session.shape(table).description, units))
    }
    if dry_run:
        session.output.plan(
            {"change": "roll", "series": name, "like": source, "create": missing, "lower": [*lowered]}
        )
        return
    for table in missing:
        _create_like(session, source, table, ttl)
    for table, request in lowered.items():
        until_settled(session, table)
        session.client.call("UpdateTable", {"TableName": table} | request)
        until_settled(session, table)
    changes = dict.fromkeys(missing, "created") | dict.fromkeys(lowered, "lowered")
    session.output.rows((_rolled(session, table, changes[table]) for table in sorted(changes)), first=_ROLLED)
    session.output.say(f"{name}: the current table is {period.table(name)}")


@app.command()
def wait(
    session: Session,
    name: TableArgument,
    gone: Annotated[bool, typer.Option("--gone", help="Wait until the table is deleted.")] = False,
    timeout: Annotated[
        int,
        typer.Option(
            "--timeout",
            metavar="DURATION",
            parser=read_duration,
            show_default="60s",
            help="Fail after this time, like 200ms, 10s or 5m. 0 checks once.",
        ),
    ] = 60_000,
) -> None:
    """Wait until a table and its indexes are ACTIVE, or until the table is deleted.

    Example: foldb table wait Music --timeout 10s
    """
    if gone:
        until_gone(session, name, timeout)
    else:
        until_settled(session, name, timeout)
        _say_status(session, name)


def _create(
    session: Session, request: dict[str, Any], features: FeatureOptions, *, always_wait: bool = False
) -> None:
    """Create a table with its features, and wait until it is ACTIVE if that is wanted or if a feature needs it."""
    name = request["TableName"]
    if features.stream:
        request["StreamSpecification"] = _stream(features.view)
    created = session.client.call("CreateTable", request)["TableDescription"]
    if not (features.wait or features.ttl or always_wait):
        session.output.say(f"{name}: {created['TableStatus']}")
        return
    until_settled(session, name)
    if features.ttl:
        _set_ttl(session, name, features.ttl)
    _say_status(session, name)


def _create_from_model(
    session: Session, model: ModelOptions, name: str | None, features: FeatureOptions
) -> None:
    """Create the tables of a data model, or the one with `name`, and put their sample data if that is wanted.

    Raises:
        CommandError: The file is no data model, or has no such table.
    """
    assert model.file is not None
    tables = read_model(model.file)
    wanted = [each for each in tables if name in (None, each.name)]
    if not wanted:
        known = ", ".join(each.name for each in tables)
        raise CommandError(f"{model.file} has no table {name}; its tables: {known}", ExitCode.NOT_FOUND)
    for table in wanted:
        _create(session, table.request, features, always_wait=model.data)
        if model.data:
            writer = BatchWriter(session.client, session.shape(table.name))
            writer.load((f"{table.name}: item {nth}", item) for nth, item in enumerate(table.items, start=1))
            session.output.say(f"{table.name}: {counted(writer.written, 'item')}")


def _create_like(session: Session, source: str, name: str, ttl: str | None) -> None:
    """Create a table like another one. It may exist since, because another run has created it."""
    description = session.shape(source).description
    expiry = session.client.call("DescribeTimeToLive", {"TableName": source})["TimeToLiveDescription"]
    tags = session.client.call("ListTagsOfResource", {"ResourceArn": description["TableArn"]})["Tags"]
    request = table_like(description, name) | ({"Tags": tags} if tags else {})
    try:
        session.client.call("CreateTable", request)
    except RequestFailedError as failure:
        if failure.name != "ResourceInUseException":
            raise
    until_settled(session, name)
    attribute = ttl or expiry.get("AttributeName")
    if attribute is None:
        return
    try:
        _set_ttl(session, name, attribute)
    except RequestFailedError:
        known = session.client.call("DescribeTimeToLive", {"TableName": name})["TimeToLiveDescription"]
        if known.get("AttributeName") != attribute:
            raise


def _rolled(session: Session, name: str, change: str) -> dict[str, Any]:
    description = session.client.call("DescribeTable", {"TableName": name})["Table"]
    read, write = units_of(description)
    return {"table": name, "change": change, "read": read, "write": write}


def _index_names(description: dict[str, Any]) -> list[str]:
    kinds = ("GlobalSecondaryIndexes", "LocalSecondaryIndexes")
    return [index["IndexName"] for kind in kinds for index in description.get(kind, ())]


def _plan(
    session: Session, name: str, requests: list[dict[str, Any]], features: FeatureChanges
) -> dict[str, Any]:
    """Return the requests of an update, and the entries of the indexes that it drops.

    Raises:
        CommandError: The table has no index with the name of one to drop.
    """
    described = session.shape(name).description.get("GlobalSecondaryIndexes", ())
    entries = {index["IndexName"]: index["ItemCount"] for index in described}
    changes = (each for request in requests for each in request.get("GlobalSecondaryIndexUpdates", ()))
    dropped = [each["Delete"]["IndexName"] for each in changes if "Delete" in each]
    for index in dropped:
        if index not in entries:
            raise CommandError(
                f"{name} has no index {index}: `foldb table describe {name}` prints them", ExitCode.NOT_FOUND
            )
    ttl = {"ttl": features.ttl} if features.ttl else {"ttl": None} if features.no_ttl else {}
    return (
        {"change": "update the table", "table": name, "requests": requests}
        | ttl
        | {"dropped": [{"index": index, "entries": entries[index]} for index in dropped]}
    )


def _stream(view: str) -> dict[str, Any]:
    return {"StreamEnabled": True, "StreamViewType": _VIEWS[view]}


def _index_units(
    session: Session, name: str, indexes: IndexChanges, throughput: tuple[int, int] | None
) -> dict[str, Any]:
    """Return the member of UpdateTable that sets units of indexes. `throughput` has the new units of the table."""
    changes = [units_request(text) for text in indexes.index or ()]
    if throughput is not None:
        changes += _units_of_other_indexes(session.shape(name), changes, throughput)
    return {"GlobalSecondaryIndexUpdates": changes} if changes else {}


def _index_changes(
    session: Session,
    name: str,
    indexes: IndexChanges,
    throughput: tuple[int, int] | None,
    *,
    on_demand: bool,
) -> Iterator[dict[str, Any]]:
    """Yield the members of each UpdateTable that removes or creates an index."""
    if indexes.drop_gsi is not None:
        yield {"GlobalSecondaryIndexUpdates": [{"Delete": {"IndexName": indexes.drop_gsi}}]}
    if indexes.gsi is not None:
        description = session.shape(name).description
        index, definitions = index_request(
            indexes.gsi, None if on_demand else throughput or _provisioned(description)
        )
        known = description["AttributeDefinitions"]
        yield {
            "AttributeDefinitions": known + [part for part in definitions if part not in known],
            "GlobalSecondaryIndexUpdates": [{"Create": index}],
        }


def _provisioned(description: dict[str, Any]) -> tuple[int, int] | None:
    """Return the units of a described table. None: it is on-demand."""
    units = units_of(description)
    return units if any(units) else None


def _units_of_other_indexes(
    shape: KeyArguments, changes: list[dict[str, Any]], throughput: tuple[int, int]
) -> list[dict[str, Any]]:
    """Return the units of the indexes that `changes` do not name: those of a table that was on-demand."""
    if _provisioned(shape.description) is not None:
        return []
    named = {each["IndexName"] for change in changes for each in change.values()}
    indexes = [index["IndexName"] for index in shape.description.get("GlobalSecondaryIndexes", ())]
    return [index_units(each, throughput) for each in indexes if each not in named]


def _set_ttl(session: Session, name: str, attribute: str) -> None:
    specification = {"Enabled": True, "AttributeName": attribute}
    session.client.call("UpdateTimeToLive", {"TableName": name, "TimeToLiveSpecification": specification})


def _unset_ttl(session: Session, name: str) -> None:
    answer = session.client.call("DescribeTimeToLive", {"TableName": name})["TimeToLiveDescription"]
    if "AttributeName" in answer:
        specification = {"Enabled": False, "AttributeName": answer["AttributeName"]}
        session.client.call("UpdateTimeToLive", {"TableName": name, "TimeToLiveSpecification": specification})


def _say_status(session: Session, name: str) -> None:
    status = session.client.call("DescribeTable", {"TableName": name})["Table"]["TableStatus"]
    session.output.say(f"{name}: {status}")
