"""Undo: put back the items that a command, a transaction or a writer changed.

Undo {"Position", "SkipConflicts"?, "DryRun"?, "Plan"?}
Undo {"Principal", "From", "To"?, "TableName"?, "DryRun"?, "Plan"?}
──► {"Reverts": [...], "Conflicts": [...], "Transactions", "Plan", "From"?, "Applied", "NotApplied": [...]}

    position ──────────► its keys ─┐
                                   ├──► versions of each key ──► Revert, or Conflict ──► Transact, 100 items each
    principal, window ─► its keys ─┘

A key is reverted if its newest version is the one to undo. It gets back the item of the version before: in a window the
last one that another principal wrote, or the one before the window. Any other key of the request is a conflict, and
stays. With a Position a conflict refuses the whole request, unless SkipConflicts is true.

Each write has the condition that the present item is still the one in the plan. So a key that changes in between is not
overwritten; its transaction is refused, and its keys are in NotApplied, as for a table that was deleted since the plan.
`Plan` names the plan that the client has seen: the request is refused if the plan has changed. These are ordinary
writes with the source `undo`.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import orjson

from ....log.commands import Action, Context, Position, Transact
from ....materializer.fold.outcomes import Outcome, Skipped, Transacted, TransactionRefused
from ....materializer.fold.state import HISTORY_LEVEL
from ....materializer.fold.writes import item_digest
from ....materializer.history.history import PartitionCut, TimeCut
from ....materializer.history.requests import (
    DescribeTables,
    ItemVersion,
    PastDifferences,
    PastMembers,
    PastTables,
    PastVersions,
    ReadDifferences,
    ReadMembers,
    ReadVersions,
)
from ....materializer.history.version_keys import pack_position, unpack_position
from ....materializer.partition import ResultPosition
from ....model.cuts import parse_positions, time_text
from ....model.errors import ValidationError
from ....model.lazy_dataclass import dataclass
from ....model.slots import data_partitions, partition_of_key
from ....model.tables import TableDefinition, name_of
from ....model.values import item_size, load
from ...async_calls import call
from ...auth.rights import Demand, Right, check, check_history
from ...database import Database
from ..min_position import positions_of
from ..operation import admin_operation
from ..reply import Caller
from ..restores import present_time
from ..write_requests import context_of, refusal, write_back
from .history import read_partition, resolve_cut

_MOST_ITEMS: Final = 10_000
_TRANSACTION_ITEMS: Final = 100
_TRANSACTION_BYTES: Final = 2 << 20
"""Half the bytes of a transaction, because an item may be counted with its index entries and its expression."""
_ACTION_BYTES: Final = 256
_PAGE: Final = 20
"""The versions that one read returns: most undos need two."""

_Name = tuple[int, int]
"""A transaction: the partition of its coordinator, and the packed position of its Transact there."""


@dataclass(frozen=True, slots=True, order=True)
class _Key:
    """The key of an item."""

    table: int
    pk: bytes
    sk: bytes


class _Revert(NamedTuple):
    """A key, its present version, and the item that it gets back; None removes the present one."""

    key: _Key
    present: ItemVersion
    restored: bytes | None

    @property
    def digest(self) -> str:
        """The digest that the present item must have."""
        item = self.present.item
        return item_digest(None if item is None else (item, 0))


class _Conflict(NamedTuple):
    """A key that changed since, and its newest version."""

    key: _Key
    newest: ItemVersion


def _demands(body: dict[str, Any]) -> list[Demand]:
    """Return the named table, for the request log; the handler checks the rights to all tables that it finds."""
    name = body.get("TableName")
    return [("foldb:Undo", Right.NONE, name)] if isinstance(name, str) else []


@admin_operation("Undo", _demands)
async def undo(database: Database, body: dict[str, Any], caller: Caller) -> dict[str, Any]:
    """Plan the undo of a command, a transaction or a writer, and apply the plan unless DryRun is true."""
    if database.state.level < HISTORY_LEVEL:
        raise ValidationError(
            f"Undo needs a log of level {HISTORY_LEVEL}: run `foldb upgrade` once every node is of this release"
        )
    planner = _Planner(database, caller, await present_time(database))
    if "Position" in body:
        title = await planner.plan_position(body["Position"])
    else:
        title = await planner.plan_principal(body)
    planner.leave_deleted_tables()
    chunks = list(_chunks(planner.reverts))
    plan = planner.fingerprint()
    if body.get("Plan", plan) != plan:
        raise ValidationError("The items of the undo have changed since it was planned: plan it again")
    answer = planner.described() | {"Plan": plan, "Transactions": len(chunks)}
    if body.get("DryRun") is True:
        return answer
    if "Position" in body and planner.conflicts and body.get("SkipConflicts") is not True:
        raise ValidationError(
            f"{len(planner.conflicts)} of the items of {body['Position']} have changed since: SkipConflicts reverts "
            "the others"
        )
    return answer | await _apply(database, planner, chunks, _context(caller, title))


def _context(caller: Caller, title: str) -> Context:
    sent = caller.context
    return context_of(sent, "undo", title if sent.reason is None else f"{title}: {sent.reason}")


# The plan


class _Planner:
    """Finds the keys to revert.

    Attributes:
        reverts: The keys to revert, in order.
        conflicts: The keys that changed since.
        since: The begin of the window, where an age is a time; None if there is none.
    """

    def __init__(self, database: Database, caller: Caller, now_ms: int) -> None:
        self.reverts: list[_Revert] = []
        self.conflicts: list[_Conflict] = []
        self.since: str | None = None
        self._definitions: dict[int, TableDefinition] = {}
        self._database = database
        self._caller = caller
        self._count = database.partitions.count
        self._now = TimeCut(now_ms)

    async def plan_position(self, text: Any) -> str:
        """Plan the undo of the command at a position, with its whole transaction. Return the title of the undo.

        Raises:
            ValidationError: The text is not the position of a command of this log.
        """
        position = self._read_position(text)
        name: _Name = position.partition, pack_position(position.offset, position.index)
        keys = await self._keys_of_transaction(name, await self._time_of(position), self._now.time_ms)
        if not keys:
            keys = await self._keys_at(position)
            names = {await self._transaction_at(key, name) for key in keys} - {None}
            for each in names:
                assert each is not None, "None is removed"
                if each[0] != name:
                    name, keys = each[0], await self._keys_of_transaction(each[0], each[1], each[1])
        self._check_rights(keys)

        def is_undone(version: ItemVersion, partition_id: int) -> bool:
            return _transaction_of(version) == name or (partition_id, version.position) == name

        for key in sorted(keys):
            await self._plan_key(key, is_undone, lambda _: True)
        return f"undo of {text}"

    async def plan_principal(self, body: dict[str, Any]) -> str:
        """Plan the undo of the writes of a principal between two cuts. Return the title of the undo.

        Raises:
            ValidationError: A member is missing, or not a cut.
        """
        principal, first, last = body.get("Principal"), body.get("From"), body.get("To", "-0")
        if not isinstance(principal, str) or not isinstance(first, str) or not isinstance(last, str):
            raise ValidationError("Undo takes a Position, or a Principal with the cuts From and To")
        now_ms = self._now.time_ms
        since = await resolve_cut(self._database, first, [], now_ms)
        until = await resolve_cut(self._database, last, [], now_ms)
        self.since = since.text
        tables = self._tables(body.get("TableName"))
        self._check_rights([_Key(table.id, b"", b"") for table in tables])
        for table in tables:
            for partition_id in data_partitions(self._count):
                begin, end = since.cuts.of(partition_id), until.cuts.of(partition_id)
                if "To" not in body:
                    end = self._now

                def is_undone(
                    version: ItemVersion,
                    _: int,
                    begin: PartitionCut = begin,
                    end: PartitionCut = end,
                ) -> bool:
                    is_within = _is_after(version, begin) and not _is_after(version, end)
                    return is_within and _principal(version) == principal

                def is_later(version: ItemVersion, begin: PartitionCut = begin) -> bool:
                    return _is_after(version, begin)

                async for key in self._differences(table, partition_id, begin, end):
                    await self._plan_key(key, is_undone, is_later)
        return f"undo of {principal} from {since.text} to {until.text}"

    def leave_deleted_tables(self) -> None:
        """Remove the keys of tables that were deleted while the plan was made, as if they had been deleted before."""
        tables = self._database.state.tables
        self.reverts = [each for each in self.reverts if each.key.table in tables]
        self.conflicts = [each for each in self.conflicts if each.key.table in tables]

    def described(self) -> dict[str, Any]:
        """Return the plan as members of the answer."""
        shown: dict[str, Any] = {
            "Reverts": [self._described(each.key, each.present, each) for each in self.reverts],
            "Conflicts": [self._described(each.key, each.newest) for each in self.conflicts],
        }
        return shown if self.since is None else shown | {"From": self.since}

    def key_text(self, key: _Key) -> dict[str, Any]:
        """Return a key as an answer has it."""
        definition = self.definition(key)
        return {"TableName": definition.name, "Key": orjson.Fragment(definition.key.write(key.pk, key.sk))}

    def definition(self, key: _Key) -> TableDefinition:
        """Return the table of a key, which may have been deleted since the key was found."""
        return self._definitions[key.table]

    def fingerprint(self) -> str:
        """Return a hash of the reverts."""
        total = blake2b(digest_size=16)
        for each in self.reverts:
            restored = item_digest(None if each.restored is None else (each.restored, 0))
            total.update(repr((each.key, each.digest, restored)).encode())
        return total.hexdigest()

    def _described(self, key: _Key, newest: ItemVersion, revert: _Revert | None = None) -> dict[str, Any]:
        partition_id = partition_of_key(key.table, key.pk, self._count)
        context = None if newest.context is None else Context(newest.context)
        shown = self.key_text(key) | {
            "Position": Position(partition_id, *unpack_position(newest.position)).text(self._count),
            "Time": time_text(newest.log_time),
        }
        if context is not None and context.principal is not None:
            shown["Principal"] = context.principal
        if newest.item is not None:
            shown["Present"] = orjson.Fragment(newest.item)
        if revert is not None and revert.restored is not None:
            shown["Restored"] = orjson.Fragment(revert.restored)
        return shown

    async def _plan_key(
        self,
        key: _Key,
        is_undone: Callable[[ItemVersion, int], bool],
        is_later: Callable[[ItemVersion], bool],
    ) -> None:
        """Plan one key. Versions for which `is_later` is false are before those to undo."""
        partition_id = partition_of_key(key.table, key.pk, self._count)
        newest: ItemVersion | None = None
        is_reverted = False
        restored: bytes | None = None
        async for version in self._versions(key, partition_id):
            if newest is None:
                newest = version
                is_reverted = is_undone(version, partition_id)
            elif is_reverted and not is_undone(version, partition_id):
                restored = version.item
                break
            elif not is_reverted and is_undone(version, partition_id):
                self._add(self.conflicts, _Conflict(key, newest))
                return
            if not is_later(version):
                return
        if newest is not None and is_reverted and newest.item != restored:
            self._add(self.reverts, _Revert(key, newest, restored))

    def _add(self, found: list[Any], each: _Revert | _Conflict) -> None:
        if len(self.reverts) + len(self.conflicts) == _MOST_ITEMS:
            raise ValidationError(
                f"The undo has more than {_MOST_ITEMS} items: name a table or a shorter window"
            )
        found.append(each)

    def _read_position(self, text: Any) -> Position:
        try:
            [position] = positions_of(parse_positions(text if isinstance(text, str) else ""), self._count)
        except ValueError:
            position = None
        if position is None or position.index is None:
            form = "10482.3" if self._count == 1 else "2:10482.3"
            raise ValidationError(f"`{str(text)[:100]}` is not the position of a command, such as {form}")
        return position

    def _tables(self, name: Any) -> list[TableDefinition]:
        if name is None:
            found = [table.definition for _, table in sorted(self._database.state.tables.items())]
        elif isinstance(name, str):
            found = [self._database.table_in_any_status(name_of(name)).definition]
        else:
            raise ValidationError("TableName must be a string")
        self._definitions.update((each.id, each) for each in found)
        return found

    def _check_rights(self, keys: Sequence[_Key]) -> None:
        """Check that the caller may write all tables of the undo, and read their past.

        Raises:
            AccessDeniedError: The caller may not.
        """
        if self._caller.bearer is None:
            return
        names = sorted({self.definition(key).name for key in keys})
        demands: list[Demand] = [("foldb:Undo", Right.WRITE, name) for name in names]
        check(self._caller.bearer, demands, self._database.state)
        check_history(self._caller.bearer, demands, self._database.state)

    # Reads of the history

    async def _versions(self, key: _Key, partition_id: int) -> AsyncIterator[ItemVersion]:
        """Yield the versions of a key, the newest first, without refused writes."""
        before: tuple[int, int] | None = None
        while True:
            read = ReadVersions(key.table, key.pk, key.sk, None, before, _PAGE)
            page, _ = await read_partition(self._database, partition_id, self._now, read, PastVersions)
            for version in page.versions:
                if version.refused is None:
                    yield version
            if page.before is None:
                return
            before = page.before

    async def _differences(
        self, table: TableDefinition, partition_id: int, since: PartitionCut, until: PartitionCut
    ) -> AsyncIterator[_Key]:
        start: tuple[int, int] | None = None
        while True:
            read = ReadDifferences(table.id, since, start)
            page, _ = await read_partition(self._database, partition_id, until, read, PastDifferences)
            for each in page.differences:
                yield _Key(table.id, each.pk, each.sk)
            if page.next is None:
                return
            start = page.next

    async def _keys_at(self, position: Position) -> list[_Key]:
        """Return the keys that the command at a position changed in its partition."""
        if position.partition not in data_partitions(self._count) or position.offset == 0:
            return []
        if position.index:
            before = Position(position.partition, position.offset, position.index - 1)
        else:
            before = Position(position.partition, position.offset - 1)
        return [
            key
            for table in self._tables(None)
            async for key in self._differences(table, position.partition, before, position)
        ]

    async def _time_of(self, position: Position) -> int:
        """Return the log time of a position."""
        if position.partition not in data_partitions(self._count):
            return self._now.time_ms
        _, found = await read_partition(
            self._database, position.partition, position, DescribeTables(()), PastTables
        )
        assert isinstance(found, Position), "a history is of one partition"
        return found.time_ms or 0

    async def _transaction_at(self, key: _Key, name: _Name) -> tuple[_Name, int] | None:
        """Return the transaction and the effective time of the version that the command at a packed position wrote."""
        async for version in self._versions(key, name[0]):
            if version.position == name[1]:
                transaction = _transaction_of(version)
                return None if transaction is None else (transaction, version.effective_time)
        return None

    async def _keys_of_transaction(self, name: _Name, first_ms: int, last_ms: int) -> list[_Key]:
        """Return the keys of a transaction in all partitions, of the tables that exist.

        Its effective time is from `first_ms` to `last_ms`.
        """
        state = self._database.state
        keys = []
        for partition_id in data_partitions(self._count):
            found, _ = await read_partition(
                self._database,
                partition_id,
                self._now,
                ReadMembers([(*name, first_ms, last_ms)]),
                PastMembers,
            )
            for member in found.members[0]:
                table = state.table_named(member.table)
                if table is not None and member.kind != "check":
                    definition = table.definition
                    self._definitions[definition.id] = definition
                    key = definition.key.read_key(load(member.key), self._database.state.limits)
                    keys.append(_Key(definition.id, *key))
        return keys


def _transaction_of(version: ItemVersion) -> _Name | None:
    return None if version.transaction is None else (version.transaction[0], version.transaction[1])


def _principal(version: ItemVersion) -> str | None:
    return None if version.context is None else Context(version.context).principal


def _is_after(version: ItemVersion, cut: PartitionCut) -> bool:
    """Return whether a version was written after a cut."""
    if isinstance(cut, TimeCut):
        return version.effective_time > cut.time_ms
    return version.position > pack_position(cut.offset, cut.index)


# The writes


def _chunks(reverts: Sequence[_Revert]) -> Iterator[list[_Revert]]:
    """Yield the reverts of each transaction."""
    chunk: list[_Revert] = []
    size = 0
    for each in reverts:
        if chunk and (len(chunk) == _TRANSACTION_ITEMS or size > _TRANSACTION_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(each)
        size += len(each.restored or b"")
    if chunk:
        yield chunk


async def _apply(
    database: Database, planner: _Planner, chunks: Sequence[Sequence[_Revert]], context: Context
) -> dict[str, Any]:
    """Submit one transaction after the other. A refused one does not stop those after it.

    Raises:
        RequestError: The database refuses writes.
    """
    applied = 0
    refused: list[dict[str, Any]] = []
    for chunk in chunks:
        actions = [_action(database, each, context) for each in chunk]
        size = sum(len(each.restored or b"") + _ACTION_BYTES for each in chunk)
        outcome = await _submit(database, Transact(actions, context), size)
        if isinstance(outcome, Transacted):
            applied += len(chunk)
        elif isinstance(outcome, TransactionRefused | Skipped):
            refused += [planner.key_text(each.key) for each in chunk]
        else:
            error = refusal(outcome)
            assert error is not None, "a transaction has no other outcome"
            raise error
    return {"Applied": applied, "NotApplied": refused}


def _action(database: Database, revert: _Revert, context: Context) -> Action:
    """Return the write that puts an item back if the present one is that of the plan."""
    key, item = revert.key, revert.restored
    restored = None if item is None else (item, item_size(load(item), database.state.limits))
    return write_back((key.table, key.pk, key.sk), restored, revert.digest, context)


async def _submit(database: Database, command: Transact, size: int) -> Outcome:
    result: tuple[Outcome, ResultPosition] = await call(
        lambda callback: database.partition.submit(command, size, lambda *result: callback(result))
    )
    return result[0]
