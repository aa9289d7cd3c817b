"""`foldb rebuild`: make a table or an index from the log again, in place or as a new table."""

from collections.abc import Iterator
from hashlib import blake2b
from typing import Annotated, NamedTuple

import typer

from ...log.commands import Cut, Position, Record
from ...materializer.fold.state import Table
from ...materializer.foundation import initial_state
from ...materializer.rebuild import Rebuild
from ...model.descriptions import describe
from ...model.slots import data_partitions
from ...model.tables import TableDefinition
from ...model.values import Item, dump, load
from ..lib.batch_writer import BatchWriter
from ..lib.definitions import request_like
from ..lib.errors import CommandError, ExitCode, RequestFailedError
from ..lib.key_arguments import KeyArguments
from ..lib.log_history import void_in
from ..lib.log_location import SOURCE, ReadableLog, open_log
from ..lib.log_times import last_places
from ..lib.options import TableArgument
from ..lib.output import counted
from ..lib.progress import progress
from ..lib.read_requests import Reading
from ..lib.session import Session
from .table import until_settled

# A table that is being filled from history has this tag, by which a second run recognizes an interrupted one.
TAG = "foldb:rebuilt-from"


def rebuild(
    session: Session,
    table: TableArgument,
    index: Annotated[
        str | None, typer.Option("--index", metavar="NAME", help="Rebuild this index, not the table.")
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="POSITION|TIME",
            show_default="the end of the log",
            help="Take the state at this position or time: 10482, -1h, an ISO 8601 time. It needs --into.",
        ),
    ] = None,
    into: Annotated[
        str | None, typer.Option("--into", metavar="NEW", help="Write the result to a new table.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--log",
            metavar="SOURCE",
            show_default="the log of --db",
            help=f"Read this log. {SOURCE}. It needs --into.",
        ),
    ] = None,
) -> None:
    """The server continues to serve requests. With --index only the index is compared and replaced.

    With --into the live table does not change: the table as of --to, which may be deleted since, is written to a new
    table with its keys, indexes and throughput, but without time to live, stream, tags and deletion protection. Run
    an interrupted command again to continue it.

    Example: foldb rebuild Orders --to 10482 --into OrdersRestored
    """
    if index is not None and (into, to, source) != (None, None, None):
        raise CommandError(
            "--index rebuilds in place: it goes with none of --into, --to and --log", ExitCode.USAGE
        )
    if into is not None:
        try:
            _into(session, table, to, into, source)
        except KeyboardInterrupt as error:
            raise CommandError(
                "interrupted; run the same command again to continue", ExitCode.INTERRUPTED
            ) from error
    elif to is not None or source is not None:
        raise CommandError(
            "--to and --log need --into: a past state, or that of another log, does not replace a live table",
            ExitCode.USAGE,
        )
    else:
        _in_place(session, table, index)


def _in_place(session: Session, table: str, index: str | None) -> None:
    """Start the rebuild in the server, and poll until it ends."""
    name = table if index is None else f"{table}.{index}"
    request = {"TableName": table} | ({} if index is None else {"IndexName": index})
    answer = session.client.admin("Rebuild", request)
    with progress(session.settings, session.output.stderr, name, answer["End"]) as advance:
        folded = 0
        while answer["Status"] == "RUNNING":
            advance(answer["Folded"] - folded)
            folded = answer["Folded"]
            answer = session.client.admin("Rebuild", {"TableName": table, "Id": answer["Id"]})
    named = {"table": table} | ({} if index is None else {"index": index})
    position, items, same = answer["Position"], answer["Items"], answer["Same"]
    session.output.row(named | {"position": position, "items": items, "same": same})
    if not same:
        nodes = sorted({f" on node {each['Node']}" for each in answer.get("Differing", ()) if "Node" in each})
        where = " and".join(nodes)
        session.output.warn(f"{name} differed from its log{where} and was replaced, as of @{position}")
        raise typer.Exit(ExitCode.DIFFERENT)
    session.output.say(f"{name}: rebuilt to @{position} · {counted(items, 'item')} · no difference")


def _into(session: Session, name: str, to: str | None, new: str, source: str | None) -> None:
    past = _refold(session, name, to, source)
    _create(session, past.definition, new, f"{name}@{past.cut}")
    loader = BatchWriter(session.client, session.shape(new))
    with progress(session.settings, session.output.stderr, new, past.items) as advance:
        items = (load(stored[0]) for part in past.parts for _, _, _, stored in part.items.scan())
        placed = ((f"{new} item {count}", item) for count, item in enumerate(items, start=1))
        loader.load(placed, advance)
    _compare(session, past, session.shape(new))
    arn = session.shape(new).description["TableArn"]
    session.client.call("UntagResource", {"ResourceArn": arn, "TagKeys": [TAG]})
    session.output.row({"table": new, "from": name, "position": past.cut, "items": past.items})
    session.output.say(f"{new}: {counted(past.items, 'item')} as of @{past.cut}")


class _Past(NamedTuple):
    """A table in the past.

    Attributes:
        cut: The positions of the state.
        parts: The part of the table in each partition.
    """

    cut: str
    parts: list[Table]

    @property
    def definition(self) -> TableDefinition:
        return self.parts[0].definition

    @property
    def items(self) -> int:
        return sum(part.items.count for part in self.parts)


def _refold(session: Session, name: str, to: str | None, source: str | None) -> _Past:
    log = open_log(session, source)
    cut = _cut(log, to)
    parts = []
    records = sum(position.offset + 1 - log.begin(position.partition) for position in cut)
    with progress(session.settings, session.output.stderr, "refold", records) as advance:

        def counted_records(partition: int) -> Iterator[Record]:
            for record in log.read(partition, log.begin(partition)):
                yield record
                advance(1)

        for position in cut:
            state = initial_state(log, position.partition)
            work = Rebuild(void_in(log, position.partition, state.next_offset), state=state)
            work.fold_to(counted_records(position.partition), position)
            table = work.state.table_named(name)
            if table is None:
                dropped = work.dropped.get(name)
                place = position.text(log.partitions)
                last = None if dropped is None else Position(position.partition, dropped).text(log.partitions)
                hint = "" if last is None else f"; it existed until @{last}: give --to {last}"
                raise CommandError(f"there is no table {name} at @{place}{hint}", ExitCode.NOT_FOUND)
            parts.append(table)
    return _Past(Cut(tuple(cut)).text(log.partitions), parts)


def _cut(log: ReadableLog, to: str | None) -> list[Position]:
    """Return one position for each partition with items: the one that `to` names, else the partition's end."""
    wanted = data_partitions(log.partitions)
    named = {} if to is None else last_places(log, to, wanted)
    for position in named.values():
        end = log.end(position.partition)
        if position.offset >= end:
            last = Position(position.partition, end - 1).text(log.partitions)
            place = position.text(log.partitions)
            raise CommandError(f"the log ends at @{last}, before @{place}", ExitCode.USAGE)
    return [named.get(each) or Position(each, log.end(each) - 1) for each in wanted]


def _create(session: Session, definition: TableDefinition, new: str, origin: str) -> None:
    """Create the table, or continue with the table that an interrupted run of the same command created.

    Raises:
        CommandError: A table with this name exists.
    """
    origin = origin.replace(",", " ")  # a tag cannot hold commas
    request = request_like(describe(definition), new) | {"Tags": [{"Key": TAG, "Value": origin}]}
    try:
        session.client.call("CreateTable", request)
    except RequestFailedError as failure:
        if failure.name != "ResourceInUseException":
            raise
        until_settled(session, new)
        arn = session.shape(new).description["TableArn"]
        tags = session.client.call("ListTagsOfResource", {"ResourceArn": arn})["Tags"]
        if {"Key": TAG, "Value": origin} not in tags:
            raise CommandError(
                f"the table {new} exists; give another name with --into", ExitCode.INVALID
            ) from failure
    until_settled(session, new)


def _compare(session: Session, past: _Past, shape: KeyArguments) -> None:
    """Read the new table and compare its items byte for byte.

    Raises:
        CommandError: The items differ.
    """
    reading = Reading(
        session.client,
        "Scan",
        {"TableName": shape.name, "ConsistentRead": True, "ReturnConsumedCapacity": "TOTAL"},
        everything=True,
    )
    written = {_digest(item) for item in reading.items()}
    stored = (stored[0] for part in past.parts for _, _, _, stored in part.items.scan())
    if written != {blake2b(item, digest_size=16).digest() for item in stored}:
        raise CommandError(
            f"{shape.name} does not hold the items that were written: did another client write to it?",
            ExitCode.DIFFERENT,
        )


def _digest(item: Item) -> bytes:
    return blake2b(dump(item), digest_size=16).digest()
