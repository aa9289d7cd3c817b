"""The commands behind the versions: who wrote each, in which transaction, and the writes that were refused.

    context row      W  offset (8)                       ──► (index, context, transaction, numbers)*
    transaction row  X  coordinator (2)  position (8)    ──► (table, partition key, sort key, kind)*
    refused row      R  key, stamp (version_keys.py)     ──► kind, error, expression, context
    undo row         U  offset (8)                       ──► key of each transaction and refused row of the record

Values are msgpack. A transaction is named by the position of its Transact, and each partition that applied a part of it
has a transaction row with that part. A refused write has no version, so it has a row under its key.

Numbers are those of the command's changes in their sequence numbers: `changing, {table: [nth]}`. There `changing` has
the changes of the transaction in all partitions. A command whose changes are in one table and numbered from 0 has none.

The log has all of this. But a log in a folder finds a record by reading its segment: tens of milliseconds for each
version of an item, during which the history neither folds nor answers.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias

import msgpack
import orjson

from ...log.commands import (
    Abandon,
    Action,
    Check,
    Command,
    Context,
    Decide,
    Delete,
    Expire,
    Load,
    Prepare,
    Put,
    Relay,
    Transact,
    Update,
    Vote,
)
from ...model.errors import Reason, RequestError, TransactionCanceledError
from ...model.sequence_numbers import nth_of
from ..fold.outcomes import (
    Applied,
    Completed,
    Loaded,
    MessageFolded,
    Outcome,
    Refused,
    Transacted,
    TransactionRefused,
    changes_item,
)
from ..fold.state import PartitionState
from ..fold.transactions.state import Effect, Prepared, UnderWay
from ..fold.transactions.verdicts import read_verdicts
from .engine import Batch, Engine
from .version_keys import STAMP_BYTES, StoreKeys, pack_position, stamp, unpack_position

CONTEXT: Final = b"W"
TRANSACTION: Final = b"X"
REFUSED: Final = b"R"
UNDO: Final = b"U"

_OFFSET: Final = Struct(">cQ")
_TRANSACTION_KEY: Final = Struct(">cHQ")
_AUTHOR_FIELDS: Final = 4
_NOT_APPLIED: Final = Reason(
    "None", "The transaction was not applied: another action was refused, or it took too long"
)
_KINDS: Final = {Put: "put", Update: "update", Delete: "delete", Check: "check"}

TransactionName: TypeAlias = tuple[int, int]
"""A transaction: the partition of its coordinator, and the packed position of its Transact there."""


class Member(NamedTuple):
    """An action of a transaction: its key, and `put`, `update`, `delete` or `check`."""

    table: int
    pk: bytes
    sk: bytes
    kind: str


class Author(NamedTuple):
    """The command that wrote a version: its context, its transaction if it is a part of one, and its numbers."""

    context: Context
    transaction: TransactionName | None
    numbers: Sequence[Any] | None

    def nths_in(self, table: int, count: int) -> Sequence[int]:
        """Return the numbers of the command's changes in a table, in the order of its `count` versions there."""
        if self.numbers is None:
            return range(count)
        nths: Sequence[int] = self.numbers[1][table]
        return nths

    def changing(self, count: int) -> Sequence[int]:
        """Return the numbers of all changes of the transaction, of which this command wrote `count` or more."""
        if self.numbers is None:
            return range(count)
        changing, nths = self.numbers
        return sorted(chain.from_iterable(nths.values())) if changing is None else changing


class RefusedWrite(NamedTuple):
    """A write that was refused.

    Attributes:
        kind: `put`, `update` or `delete`.
        code: The name of the error in the answer.
        reason: The code of this action's cancellation reason, if the write is part of a transaction.
        message: The text of the error, or of the reason.
        dialect: The dialect of the expression (log/commands.py).
        condition: The condition; None if the write has none, or if it held and another action was refused.
        update: The update.
        names: The attribute names of the expressions.
        values: Their values, as JSON.
        context: The encoded context.
    """

    kind: str
    code: str
    reason: str | None
    message: str | None
    dialect: str
    condition: str | None
    update: str | None
    names: dict[str, str] | None
    values: bytes | None
    context: bytes


class AttributionWriter:
    """Writes the rows of the records that a follower folds. `partition` is the one that it follows."""

    def __init__(self, partition: int) -> None:
        self._partition = partition
        self._undecided: tuple[Prepared, UnderWay | None, tuple[int, int]] | None = None
        self._refused: list[tuple[int, Effect | Action, str, Reason]] = []

    def begin_command(self, state: PartitionState, command: Command) -> None:
        """Note the part of a transaction that the command may abort: the fold drops it."""
        number, coordinator = None, self._partition
        if type(command) is Abandon:
            number = command.transaction_number
        elif type(command) is Relay and isinstance(command.message, Vote):
            number = command.message.transaction_number
        elif type(command) is Relay and isinstance(command.message, Decide) and not command.message.commit:
            number, coordinator = command.message.transaction_number, command.sender
        transactions = state.transactions
        part = None if number is None else transactions.prepared.get((coordinator, number))
        if number is None or part is None:
            self._undecided = None
            return
        own = transactions.under_way.get(number) if coordinator == self._partition else None
        self._undecided = part, own, (coordinator, number)

    def end_command(self, state: PartitionState, offset: int, index: int, command: Command) -> None:
        """Note the writes of a transaction over partitions that this command refused here."""
        if self._undecided is not None:
            part, own, transaction_id = self._undecided
            is_aborted = own is None or own.commit is False
            if is_aborted and transaction_id not in state.transactions.prepared:
                self._refuse_all(index, part.effects, [_NOT_APPLIED] * len(part.effects))
        if type(command) is Relay and isinstance(command.message, Prepare):
            outbox = state.outboxes.get(command.sender)
            sent = outbox.unacknowledged[-1] if outbox is not None and outbox.unacknowledged else None
            if sent is not None and (sent.offset, sent.index) == (offset, index):
                assert isinstance(sent.message, Vote), "a Prepare is answered with a Vote"
                self._judged(index, command.message.actions, sent.message)
        elif type(command) is Transact:
            self._end_transact(state, offset, index, command)

    def end_record(
        self,
        batch: Batch,
        offset: int,
        log_time: int,
        commands: Sequence[Command],
        outcomes: Sequence[Outcome],
    ) -> None:
        """Write the rows of a record."""
        authors: list[Any] = []
        created: list[bytes] = []
        for index, (command, outcome) in enumerate(zip(commands, outcomes, strict=True)):
            if type(outcome) is Applied:
                authors += index, outcome.action.context.encoded, None, None
            elif type(outcome) is Refused and isinstance(command, Put | Update | Delete):
                self._refused.append((index, command, outcome.error.wire_name, _reason(outcome.error)))
            elif type(outcome) is Transacted or type(outcome) is MessageFolded:
                self._applied(batch, offset, index, outcome, authors, created)
            elif isinstance(command, Transact) and isinstance(outcome, Refused | TransactionRefused):
                self._transact_refused(index, command, outcome.error)
            elif isinstance(outcome, Completed | Loaded) and isinstance(command, Expire | Load):
                applied = outcome.applied if isinstance(outcome, Loaded) else ()
                authors += index, command.context.encoded, None, _numbers(applied, None)
        if authors:
            batch.put_row(_OFFSET.pack(CONTEXT, offset), msgpack.packb(authors))
        for index, action, code, reason in self._refused:
            key = REFUSED + StoreKeys(action.table).key(action.pk, action.sk)
            key += stamp(log_time, pack_position(offset, index))
            batch.put_row(key, msgpack.packb(_refused_write(action, code, reason)))
            created.append(key)
        self._refused.clear()
        if created:
            batch.put_row(_OFFSET.pack(UNDO, offset), msgpack.packb(created))

    def _applied(
        self,
        batch: Batch,
        offset: int,
        index: int,
        outcome: Transacted | MessageFolded,
        authors: list[Any],
        created: list[bytes],
    ) -> None:
        """Add the author of the writes of a transaction, and write its row."""
        if isinstance(outcome, Transacted):
            applied = [each for each in outcome.actions if isinstance(each, Applied)]
            name: TransactionName | None = (self._partition, pack_position(offset, index))
            changing = None
            if outcome.replayed:
                return
        else:
            applied = list(outcome.applied)
            share = outcome.share
            name = changing = None
            if share is not None:
                changing = share.changing
                name = share.transact.partition, pack_position(share.transact.offset, share.transact.index)
        if not applied:
            return
        authors += index, applied[0].action.context.encoded, name, _numbers(applied, changing)
        if name is not None:
            key = _TRANSACTION_KEY.pack(TRANSACTION, *name)
            members = [
                Member(each.action.table, each.action.pk, each.action.sk, _KINDS[type(each.action)])
                for each in applied
            ]
            batch.put_row(key, msgpack.packb(list(chain.from_iterable(members))))
            created.append(key)

    def _end_transact(self, state: PartitionState, offset: int, index: int, command: Transact) -> None:
        """Note the own part of a transaction over partitions, if its coordinator refused that at once."""
        under_way = state.transactions.under_way
        if not under_way:
            return
        transaction = under_way[next(reversed(under_way))]
        own = transaction.votes.get(self._partition)
        if transaction.position == (offset, index) and own is not None:
            nths = transaction.parts[self._partition]
            self._judged(index, [command.actions[nth] for nth in nths], own)

    def _judged(self, index: int, actions: Sequence[Action], vote: Vote) -> None:
        if not vote.holds:
            reasons = [each.reason for each in read_verdicts(vote.verdicts)]
            self._refuse_all(index, actions, reasons)

    def _transact_refused(self, index: int, command: Transact, error: RequestError) -> None:
        if isinstance(error, TransactionCanceledError):
            self._refuse_all(index, command.actions, error.reasons)
            return
        for action in command.actions:
            if not isinstance(action, Check):
                self._refused.append((index, action, error.wire_name, _reason(error)))

    def _refuse_all(self, index: int, actions: Sequence[Effect | Action], reasons: Sequence[Reason]) -> None:
        """Note the writes of a cancelled transaction. A Check is no write."""
        code = TransactionCanceledError.wire_name
        for action, reason in zip(actions, reasons, strict=True):
            if not isinstance(action, Check):
                self._refused.append((index, action, code, reason))


def author_at(engine: Engine, packed: int) -> Author | None:
    """Return the author of the versions that a command at a packed position wrote."""
    offset, index = unpack_position(packed)
    return authors_at(engine, offset).get(index)


def authors_at(engine: Engine, offset: int) -> dict[int, Author]:
    """Return the authors of the versions that a record wrote, by the index of the command."""
    row = engine.row(_OFFSET.pack(CONTEXT, offset))
    fields = [] if row is None else msgpack.unpackb(row, strict_map_key=False)
    authors = {}
    for at in range(0, len(fields), _AUTHOR_FIELDS):
        index, context, name, numbers = fields[at : at + _AUTHOR_FIELDS]
        transaction = None if name is None else (name[0], name[1])
        authors[index] = Author(Context(context), transaction, numbers)
    return authors


def members_of(engine: Engine, name: TransactionName) -> list[Member]:
    """Return the actions that a transaction applied in this partition."""
    row = engine.row(_TRANSACTION_KEY.pack(TRANSACTION, *name))
    fields = [] if row is None else msgpack.unpackb(row)
    return [Member(*fields[at : at + 4]) for at in range(0, len(fields), 4)]


def refused_writes(engine: Engine, key: bytes, before: bytes) -> Iterator[tuple[bytes, RefusedWrite]]:
    """Yield stamp and content of the refused writes of a key (version_keys.py), the newest first.

    Those whose stamp is below `before` are newer, and left out.
    """
    cursor = engine.rows()
    prefix = REFUSED + key
    at = cursor.seek(prefix + before)
    while at is not None and at.startswith(prefix) and len(at) == len(prefix) + STAMP_BYTES:
        yield at[-STAMP_BYTES:], RefusedWrite(*msgpack.unpackb(cursor.value()))
        at = cursor.next()


def roll_back_attribution(engine: Engine, batch: Batch, end: int) -> None:
    """Delete the rows of all records from offset `end` on."""
    cursor = engine.rows()
    at = cursor.seek(_OFFSET.pack(UNDO, end))
    while at is not None and at.startswith(UNDO):
        for key in msgpack.unpackb(cursor.value()):
            batch.delete_row(key)
        batch.delete_row(at)
        at = cursor.next()
    at = cursor.seek(_OFFSET.pack(CONTEXT, end))
    while at is not None and at.startswith(CONTEXT):
        batch.delete_row(at)
        at = cursor.next()


def _numbers(applied: Sequence[Applied], changing: Sequence[int] | None) -> list[Any] | None:
    """Return the numbers of a command's changes. `changing` is that of its Share (fold/outcomes.py)."""
    nths: dict[int, list[int]] = {}
    for each in applied:
        if changes_item(each.old, each.new):
            nths.setdefault(each.action.table, []).append(nth_of(each.sequence_number))
    own = next(iter(nths.values()), [])
    if len(nths) <= 1 and own == list(range(len(own))) and changing in (None, own):
        return None
    return [changing, nths]


def _reason(error: RequestError) -> Reason:
    return Reason("", error.message)


def _refused_write(action: Effect | Action, code: str, reason: Reason) -> RefusedWrite:
    expression = getattr(action, "expression", None)
    values = None if expression is None or not expression.values else orjson.dumps(expression.values)
    return RefusedWrite(
        _KINDS[type(action)],
        code,
        reason.code or None,
        reason.message,
        "expression" if expression is None else expression.dialect,
        None if expression is None else expression.condition,
        None if expression is None else expression.update,
        None if expression is None else expression.names,
        values,
        action.context.encoded,
    )
