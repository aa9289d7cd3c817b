"""`foldb table`: tables and their settings."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer

from ..lib.command_group import CommandGroup
from ..lib.definitions import billing, index_request, index_units, table_request, units_of, units_request
from ..lib.durations import read_duration
from ..lib.errors import CommandError, ExitCode
from ..lib.key_arguments import KeyArguments
from ..lib.options import AsOf, TableArgument, Texts, name_as_of
from ..lib.output import counted
from ..lib.session import Session
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
    """The features of a new table."""

    ttl: Ttl = None
    stream: Annotated[bool, typer.Option("--stream", help="Enable a stream of the table's changes.")] = False
    view: View = "both"


@dataclass(frozen=True, slots=True)
class IndexChanges:
    """The changes of a table's global indexes, in the short notation."""

    gsi: Annotated[str | None, typer.Option(metavar="NAME=A:S,B:N", help="Add a global index.")] = None
    drop_gsi: Annotated[str | None, typer.Option(metavar="NAME", help="Remove a global index.")] = None
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
    name: TableArgument,
    keys: Annotated[
        list[str], typer.Argument(metavar="PK:TYPE [SK:TYPE]", help="The key; a TYPE is S, N or B.")
    ],
    indexes: IndexOptions,
    features: FeatureOptions,
    throughput: ThroughputOptions,
    wait: Wait = True,
) -> None:
    """Create a table. It is on-demand without --read and --write.

    An index can have a projection: 'NAME=A:S,B:N keys_only' or 'NAME=A:S include x,y'. A global index can have up to
    four attributes in each part of its key: 'NAME=A:S+B:S,C:N'. It has the units of the table, or its own at the end:
    'NAME=A:S keys_only 10/5'.

    Example: foldb table create Music Artist:S Song:S --gsi 'Genres=Genre:S,Album:S' --lsi 'Years=Year:N'
    """
    request = table_request(name, keys, indexes.gsi or [], indexes.lsi or [], throughput.units())
    if features.stream:
        request["StreamSpecification"] = _stream(features.view)
    created = session.client.call("CreateTable", request)["TableDescription"]
    if not wait and not features.ttl:
        session.output.say(f"{name}: {created['TableStatus']}")
        return
    until_settled(session, name)
    if features.ttl:
        _set_ttl(session, name, features.ttl)
    _say_status(session, name)


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
    throughput: ThroughputOptions,
    on_demand: Annotated[
        bool, typer.Option("--on-demand", help="Change the table to on-demand capacity.")
    ] = False,
    wait: Wait = True,
) -> None:
    """Change a table's throughput, indexes, expiry, stream or protection.

    --read and --write set the units of the table, --index those of an index. A new index, and each index of a table
    that was on-demand, has the units of the table or its own: --gsi 'NAME=A:S 10/5', --index NAME=10/5. Several changes
    are several requests, one after the other, because DynamoDB takes one kind of change in a request.

    Example: foldb table update Music --gsi 'Years=Year:N,Album:S'
    """
    units = throughput.units()
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
def delete(session: Session, name: TableArgument, wait: Wait = True) -> None:
    """Delete a table and its items, after a confirmation. Its history stays in the log.

    `foldb restore TABLE --as-of CUT --into NEW` restores it.

    Example: foldb table delete Music --yes
    """
    items = session.shape(name).description["ItemCount"]
    session.confirm(f"Delete the table {name} and its {counted(items, 'item')}?")
    session.client.call("DeleteTable", {"TableName": name})
    if wait:
        until_gone(session, name)
    session.output.say(f"{name}: deleted")


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
