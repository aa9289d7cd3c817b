"""`foldb rebuild`: a table, or one index of it, made anew from the log, in its place or as another table."""

from collections.abc import Iterator
from hashlib import blake2b
from typing import Annotated, NamedTuple

import typer

from ...log.commands import Cut, Position, Record
from ...materializer.fold.state import Table
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
from ..lib.log_location import Readable, open_log
from ..lib.log_times import last_places
from ..lib.options import TableName
from ..lib.output import counted
from ..lib.progress import progress
from ..lib.read_requests import Reading
from ..lib.session import Session
from .table import until_settled

# While a table is being filled from history it carries this tag. A second run knows by it where the first one died.
TAG = "foldb:rebuilt-from"


def rebuild(
    ctx: typer.Context,
    table: TableName,
    index: Annotated[
        str | None, typer.Option("--index", metavar="NAME", help="Only this index, not the table.")
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="POSITION|TIME",
            help="The state there instead of at the end: 10482, -1h, an ISO 8601 time.",
        ),
    ] = None,
    into: Annotated[
        str | None, typer.Option("--into", metavar="NEW", help="Write it as a new table.")
    ] = None,
) -> None:
    """Make a table anew from the log, compare it with the live one, and put it in its place.

    The server goes on serving meanwhile. With --index one index is compared and put in its place, and the rest of
    the table is not looked at. With --into the live table is left alone: the table as it was at --to
    (a deleted one too) is written as a new table, with its keys, indexes and throughput; time to live, stream,
    tags and protection are not taken over. Interrupted, it goes on when it is run again.

    Example: foldb rebuild Orders --to 10482 --into OrdersRestored
    """
    session: Session = ctx.obj
    if index is not None and (into is not None or to is not None):
        raise CommandError("--index rebuilds in place: it goes with neither --into nor --to", ExitCode.USAGE)
    if into is not None:
        try:
            _into(session, table, to, into)
        except KeyboardInterrupt as error:
            raise CommandError(
                "interrupted; the same command goes on where this one was", ExitCode.INTERRUPTED
            ) from error
    elif to is not None:
        raise CommandError("--to needs --into: a past state does not replace a live table", ExitCode.USAGE)
    else:
        _in_place(session, table, index)


def _in_place(session: Session, table: str, index: str | None) -> None:
    """Have the server do it, and ask how far it is."""
    what = table if index is None else f"{table}.{index}"
    request = {"TableName": table} | ({} if index is None else {"IndexName": index})
    answer = session.client.admin("Rebuild", request)
    with progress(session.settings, session.output.stderr, what, answer["End"]) as advance:
        folded = 0
        while answer["Status"] == "RUNNING":
            advance(answer["Folded"] - folded)
            folded = answer["Folded"]
            answer = session.client.admin("Rebuild", {"TableName": table, "Id": answer["Id"]})
    named = {"table": table} | ({} if index is None else {"index": index})
    position, items, same = answer["Position"], answer["Items"], answer["Same"]
    session.output.row(named | {"position": position, "items": items, "same": same})
    if not same:
        session.output.warn(f"{what} was not what its log says; it is now, as of @{position}")
        raise typer.Exit(ExitCode.DIFFERENT)
    session.output.say(f"{what}: rebuilt to @{position} · {counted(items, 'item')} · no difference")


def _into(session: Session, name: str, to: str | None, new: str) -> None:
    past = _refold(session, name, to)
    _create(session, past.definition, new, f"{name}@{past.place}")
    loader = BatchWriter(session.client, session.shape(new))
    with progress(session.settings, session.output.stderr, new, past.items) as advance:
        items = (load(stored[0]) for part in past.parts for _, _, _, stored in part.items.scan())
        placed = ((f"{new} item {number}", item) for number, item in enumerate(items, start=1))
        loader.load(placed, advance)
    _compare(session, past, session.shape(new))
    arn = session.shape(new).description["TableArn"]
    session.client.call("UntagResource", {"ResourceArn": arn, "TagKeys": [TAG]})
    session.output.row({"table": new, "from": name, "position": past.place, "items": past.items})
    session.output.say(f"{new}: {counted(past.items, 'item')} as of @{past.place}")


class _Past(NamedTuple):
    """A table as it was, in each partition that has a part of it; `place` is the cut."""

    place: str
    parts: list[Table]

    @property
    def definition(self) -> TableDefinition:
        return self.parts[0].definition

    @property
    def items(self) -> int:
        return sum(part.items.count for part in self.parts)


def _refold(session: Session, name: str, to: str | None) -> _Past:
    log = open_log(session.folder)
    cut = _cut(log, to)
    parts = []
    with progress(
        session.settings, session.output.stderr, "refold", sum(position.offset + 1 for position in cut)
    ) as advance:

        def counted_records(partition: int) -> Iterator[Record]:
            for record in log.read(partition):
                yield record
                advance(1)

        for position in cut:
            work = Rebuild(void_in(log, position.partition))
            work.fold_to(counted_records(position.partition), position)
            table = work.state.table_named(name)
            if table is None:
                dropped = work.dropped.get(name)
                place = position.text(log.partitions)
                last = None if dropped is None else Position(position.partition, dropped).text(log.partitions)
                hint = "" if last is None else f"; it was there until @{last}: say --to {last}"
                raise CommandError(f"there is no table {name} at @{place}{hint}", ExitCode.NOT_FOUND)
            parts.append(table)
    return _Past(Cut(tuple(cut)).text(log.partitions), parts)


def _cut(log: Readable, to: str | None) -> list[Position]:
    """One position for each partition that has items: those that were named, else where the partition ends."""
    asked = data_partitions(log.partitions)
    named = {} if to is None else last_places(log, to, asked)
    for position in named.values():
        end = log.end(position.partition)
        if position.offset >= end:
            last = Position(position.partition, end - 1).text(log.partitions)
            place = position.text(log.partitions)
            raise CommandError(f"the log ends at @{last}, before @{place}", ExitCode.USAGE)
    return [named.get(each) or Position(each, log.end(each) - 1) for each in asked]


def _create(session: Session, definition: TableDefinition, new: str, origin: str) -> None:
    """Create the table, or go on with the one that an interrupted run of the same kind began."""
    origin = origin.replace(",", " ")  # a tag takes no commas
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
                f"there is a table {new} already; name another with --into", ExitCode.INVALID
            ) from failure
    until_settled(session, new)


def _compare(session: Session, past: _Past, shape: KeyArguments) -> None:
    """Read the new table back: it must hold the same items, to the byte."""
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
            f"{shape.name} does not hold what was written: did somebody else write to it meanwhile?",
            ExitCode.DIFFERENT,
        )


def _digest(item: Item) -> bytes:
    return blake2b(dump(item), digest_size=16).digest()
