"""Copy a table from the log of another database, such as a backup, which no server serves.

    log of SOURCE ──► refold up to the cut, decided transactions ──► CreateTable, BatchWriteItem ──► compare every item

A copy from the server's own log is made by the server. This one is made by the command, with the table in memory. The
states of all partitions at the cut are those of an instant. So a transaction that its coordinator has decided there is
shown as a live read at an instant shows it, also in a partition that applied it after the cut.
"""

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import NamedTuple

from ...log.commands import Cut, Delete, Position, Put, Record
from ...materializer.fold.state import PartitionState, Table
from ...materializer.fold.transactions.decided import decided_effects
from ...materializer.foundation import initial_state
from ...materializer.rebuild import Rebuild
from ...model.descriptions import describe
from ...model.slots import data_partitions
from ...model.tables import TableDefinition
from ...model.values import Item, dump, load
from .batch_writer import BatchWriter
from .definitions import request_like
from .errors import CommandError, ExitCode, RequestFailedError
from .key_arguments import KeyArguments
from .log_history import void_in
from .log_location import SourceLog, open_log
from .log_times import last_places
from .output import counted
from .progress import progress
from .read_requests import Reading
from .session import Session
from .table_status import until_settled

# A table that is being filled from history has this tag, by which a second run recognizes an interrupted one.
TAG = "foldb:rebuilt-from"
_TAG_CHARACTERS = 256


def copy_from_log(session: Session, name: str, as_of: str, new: str, source: str) -> None:
    """Create a table with the items that a table of another log had at a cut. A second run continues the first.

    Raises:
        CommandError: The log has no such table or cut, or the new table exists.
    """
    past = refold_table(open_log(session, source), session, name, as_of)
    _create(session, past.definition, new, f"{name}@{past.cut}")
    loader = BatchWriter(session.client, session.shape(new))
    with progress(session.settings, session.output.stderr, new, past.items) as advance:
        items = (load(stored[0]) for part in past.parts for _, _, _, stored in part.items.scan())
        placed = ((f"{new} item {count}", item) for count, item in enumerate(items, start=1))
        loader.load(placed, advance)
    _compare(session, past, session.shape(new))
    arn = session.shape(new).description["TableArn"]
    session.client.call("UntagResource", {"ResourceArn": arn, "TagKeys": [TAG]})
    session.output.row({"table": new, "from": name, "as_of": past.cut, "items": past.items})
    session.output.say(f"{new}: {counted(past.items, 'item')} as of @{past.cut}")


class PastTable(NamedTuple):
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


def refold_table(log: SourceLog, session: Session, name: str, as_of: str) -> PastTable:
    """Return a table of a log at a cut, in memory.

    Raises:
        CommandError: The log has no such table or cut.
    """
    cut = _cut(log, as_of)
    parts = []
    states = [PartitionState() for _ in range(log.partitions)]
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
                hint = "" if last is None else f"; it existed until @{last}: give --as-of {last}"
                raise CommandError(f"there is no table {name} at @{place}{hint}", ExitCode.NOT_FOUND)
            parts.append(table)
            states[position.partition] = work.state
            work.state.tables = {table.definition.id: table}  # the others are not needed
    for position, table in zip(cut, parts, strict=True):
        _lay_decided(table, states, position.partition)
    return PastTable(Cut(tuple(cut)).text(log.partitions), parts)


def _lay_decided(table: Table, states: Sequence[PartitionState], partition: int) -> None:
    """Put and remove the items of transactions that are decided, and not applied in this partition."""
    for _, effect in decided_effects(states, partition, table.definition.id):
        if isinstance(effect, Put):
            table.items.put(effect.pk, effect.sk, (effect.item, effect.size))
        elif isinstance(effect, Delete):
            table.items.remove(effect.pk, effect.sk)


def _cut(log: SourceLog, as_of: str) -> list[Position]:
    """Return one position for each partition with items: the one that the cut names, else the partition's end."""
    wanted = data_partitions(log.partitions)
    named = last_places(log, as_of, wanted)
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
    origin = _tag_value(origin)
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


def _tag_value(origin: str) -> str:
    """Return the origin of a table as the value of a tag, which has no commas and at most 256 characters."""
    if len(origin) > _TAG_CHARACTERS:
        return blake2b(origin.encode(), digest_size=16).hexdigest()
    return origin.replace(",", " ")


def _compare(session: Session, past: PastTable, shape: KeyArguments) -> None:
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
