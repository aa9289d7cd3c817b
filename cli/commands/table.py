"""`foldb table`: tables and their settings."""

import time
from collections.abc import Callable
from typing import Annotated, Any, Literal

import typer

from ...model.durations import duration
from ..lib.definitions import billing, index_request, index_units, table_request, units_of, units_request
from ..lib.durations import read_duration
from ..lib.errors import CommandError, ExitCode, RequestFailedError
from ..lib.key_arguments import KeyArguments
from ..lib.options import TableArgument
from ..lib.output import counted
from ..lib.session import Session

app = typer.Typer(no_args_is_help=True)

Read = Annotated[int | None, typer.Option("--read", min=1, help="Provision N read units. It needs --write.")]
Write = Annotated[
    int | None, typer.Option("--write", min=1, help="Provision N write units. It needs --read.")
]
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


@app.command()
def create(
    ctx: typer.Context,
    name: TableArgument,
    keys: Annotated[
        list[str], typer.Argument(metavar="PK:TYPE [SK:TYPE]", help="The key; a TYPE is S, N or B.")
    ],
    gsi: Annotated[
        list[str] | None,
        typer.Option("--gsi", metavar="NAME=A:S,B:N", help="Add a global index. Repeat the flag for more."),
    ] = None,
    lsi: Annotated[
        list[str] | None,
        typer.Option("--lsi", metavar="NAME=B:N", help="Add a local index. Repeat the flag for more."),
    ] = None,
    ttl: Ttl = None,
    stream: Annotated[bool, typer.Option("--stream", help="Enable a stream of the table's changes.")] = False,
    view: View = "both",
    read: Read = None,
    write: Write = None,
    wait: Wait = True,
) -> None:
    """Create a table. It is on-demand without --read and --write.

    An index can have a projection: 'NAME=A:S,B:N keys_only' or 'NAME=A:S include x,y'. A global index can have up to
    four attributes in each part of its key: 'NAME=A:S+B:S,C:N'. It has the units of the table, or its own at the end:
    'NAME=A:S keys_only 10/5'.

    Example: foldb table create Music Artist:S Song:S --gsi 'Genres=Genre:S,Album:S' --lsi 'Years=Year:N'
    """
    session: Session = ctx.obj
    request = table_request(name, keys, gsi or [], lsi or [], _throughput(read, write))
    if stream:
        request["StreamSpecification"] = _stream(view)
    created = session.client.call("CreateTable", request)["TableDescription"]
    if not wait and not ttl:
        session.output.say(f"{name}: {created['TableStatus']}")
        return
    until_settled(session, name)
    if ttl:
        _set_ttl(session, name, ttl)
    _say_status(session, name)


@app.command("list")
def list_(ctx: typer.Context) -> None:
    """Print the names of all tables.

    Example: foldb table list -o raw
    """
    session: Session = ctx.obj
    session.output.rows([{"table": name} for name in names(session)], first=("table",))


@app.command()
def describe(ctx: typer.Context, name: TableArgument) -> None:
    """Print a table's definition and size: the results of DescribeTable and DescribeTimeToLive.

    Example: foldb table describe Music -o json
    """
    session: Session = ctx.obj
    description = dict(session.shape(name).description)
    answer = session.client.call("DescribeTimeToLive", {"TableName": name})
    session.output.row(description | {"TimeToLive": answer["TimeToLiveDescription"]})


@app.command()
def update(
    ctx: typer.Context,
    name: TableArgument,
    gsi: Annotated[
        str | None, typer.Option("--gsi", metavar="NAME=A:S,B:N", help="Add a global index.")
    ] = None,
    drop_gsi: Annotated[
        str | None, typer.Option("--drop-gsi", metavar="NAME", help="Remove a global index.")
    ] = None,
    index: Annotated[
        list[str] | None,
        typer.Option(
            "--index",
            metavar="NAME=READ/WRITE",
            help="Set the units of a global index. Repeat the flag for more.",
        ),
    ] = None,
    ttl: Ttl = None,
    no_ttl: Annotated[bool, typer.Option("--no-ttl", help="Disable the expiry of items.")] = False,
    stream: Annotated[
        bool | None, typer.Option("--stream/--no-stream", help="Enable or disable the stream.")
    ] = None,
    view: View = "both",
    read: Read = None,
    write: Write = None,
    on_demand: Annotated[
        bool, typer.Option("--on-demand", help="Change the table to on-demand capacity.")
    ] = False,
    protect: Annotated[
        bool | None, typer.Option("--protect/--no-protect", help="Enable or disable deletion protection.")
    ] = None,
    wait: Wait = True,
) -> None:
    """Change a table's throughput, indexes, expiry, stream or protection.

    --read and --write set the units of the table, --index those of an index. A new index, and each index of a table
    that was on-demand, has the units of the table or its own: --gsi 'NAME=A:S 10/5', --index NAME=10/5.

    Example: foldb table update Music --gsi 'Years=Year:N,Album:S'
    """
    session: Session = ctx.obj
    throughput = _throughput(read, write)
    if on_demand and (throughput is not None or index):
        raise CommandError("--on-demand has no units: remove --read, --write and --index", ExitCode.USAGE)
    request = billing(throughput) if on_demand or throughput is not None else {}
    if protect is not None:
        request["DeletionProtectionEnabled"] = protect
    request |= _index_updates(session, name, gsi, drop_gsi, index or [], throughput, on_demand=on_demand)
    if stream is not None:
        request["StreamSpecification"] = _stream(view) if stream else {"StreamEnabled": False}
    if not request and not ttl and not no_ttl:
        raise CommandError("nothing to change: see `foldb table update --help`", ExitCode.USAGE)
    if request:
        session.client.call("UpdateTable", {"TableName": name, **request})
        if wait or ttl or no_ttl:
            until_settled(session, name)
    if ttl:
        _set_ttl(session, name, ttl)
    if no_ttl:
        _unset_ttl(session, name)
    _say_status(session, name)


@app.command()
def delete(ctx: typer.Context, name: TableArgument, wait: Wait = True) -> None:
    """Delete a table and its items, after a confirmation. Its history stays in the log.

    `foldb rebuild TABLE --to POSITION --into NEW` restores it.

    Example: foldb table delete Music --yes
    """
    session: Session = ctx.obj
    items = session.shape(name).description["ItemCount"]
    session.confirm(f"Delete the table {name} and its {counted(items, 'item')}?")
    session.client.call("DeleteTable", {"TableName": name})
    if wait:
        until_gone(session, name)
    session.output.say(f"{name}: deleted")


@app.command()
def wait(
    ctx: typer.Context,
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
    session: Session = ctx.obj
    if gone:
        until_gone(session, name, timeout)
    else:
        until_settled(session, name, timeout)
        _say_status(session, name)


def names(session: Session) -> list[str]:
    """Return the names of all tables, from all pages."""
    found: list[str] = []
    body: dict[str, Any] = {}
    while True:
        answer = session.client.call("ListTables", body)
        found += answer["TableNames"]
        if "LastEvaluatedTableName" not in answer:
            return found
        body = {"ExclusiveStartTableName": answer["LastEvaluatedTableName"]}


def until_settled(session: Session, name: str, timeout_ms: int = 60_000) -> None:
    """Wait until the table and its global indexes are ACTIVE.

    ListTables lists a new table before DescribeTable finds it, if the control plane has a delay.
    """

    def settled() -> bool:
        try:
            table = session.client.call("DescribeTable", {"TableName": name})["Table"]
        except RequestFailedError as failure:
            if failure.code is ExitCode.NOT_FOUND and name in names(session):
                return False
            raise
        indexes = table.get("GlobalSecondaryIndexes", ())
        return table["TableStatus"] == "ACTIVE" and all(index["IndexStatus"] == "ACTIVE" for index in indexes)

    _until(settled, f"{name} is not ACTIVE yet", timeout_ms)


def until_gone(session: Session, name: str, timeout_ms: int = 60_000) -> None:
    """Wait until the table is deleted."""

    def gone() -> bool:
        try:
            session.client.call("DescribeTable", {"TableName": name})
        except RequestFailedError as failure:
            if failure.code is ExitCode.NOT_FOUND:
                return True
            raise
        return False

    _until(gone, f"{name} is still there", timeout_ms)


def _until(condition: Callable[[], bool], otherwise: str, timeout_ms: int) -> None:
    deadline = time.monotonic() + timeout_ms / 1000
    pause = 0.02
    while not condition():
        if time.monotonic() > deadline:
            raise CommandError(f"{otherwise}, after {duration(timeout_ms)}", ExitCode.PARTLY)
        time.sleep(pause)
        pause = min(pause * 2, 0.5)


def _throughput(read: int | None, write: int | None) -> tuple[int, int] | None:
    if read is None and write is None:
        return None
    if read is None or write is None:
        raise CommandError("provisioned throughput needs both --read and --write", ExitCode.USAGE)
    return read, write


def _stream(view: str) -> dict[str, Any]:
    return {"StreamEnabled": True, "StreamViewType": _VIEWS[view]}


def _index_updates(
    session: Session,
    name: str,
    gsi: str | None,
    drop_gsi: str | None,
    units: list[str],
    throughput: tuple[int, int] | None,
    *,
    on_demand: bool,
) -> dict[str, Any]:
    """Return the members of UpdateTable that change global indexes.

    Args:
        session: The session of the command.
        name: The table.
        gsi: An index to add, in the short notation.
        drop_gsi: An index to remove.
        units: `NAME=READ/WRITE` for each index.
        throughput: The new units of the table.
        on_demand: Whether the table becomes on-demand.
    """
    request: dict[str, Any] = {}
    changes = [units_request(text) for text in units]
    if gsi is not None:
        description = session.shape(name).description
        index, definitions = index_request(
            gsi, None if on_demand else throughput or _provisioned(description)
        )
        known = description["AttributeDefinitions"]
        request["AttributeDefinitions"] = known + [part for part in definitions if part not in known]
        changes.append({"Create": index})
    if drop_gsi is not None:
        changes.append({"Delete": {"IndexName": drop_gsi}})
    if throughput is not None:
        changes += _units_of_other_indexes(session.shape(name), changes, throughput)
    if changes:
        request["GlobalSecondaryIndexUpdates"] = changes
    return request


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
