"""A model of a partition's past that keeps every version in a list, and checks of the versions."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple, cast

from foldb.log.commands import Command, Record, Relay
from foldb.materializer.fold import fold
from foldb.materializer.fold.messages import effective_time
from foldb.materializer.fold.outcomes import Outcome
from foldb.materializer.fold.state import PartitionState
from foldb.materializer.fold.storage import UNKNOWN, MemoryStore, Store, Stored


class Version(NamedTuple):
    """A version of an item or an index entry; `stored` is None for a tombstone.

    A table or an index that is deleted writes no tombstones: its store ends.
    """

    store: int
    pk: bytes
    sk: bytes
    stored: Stored | None
    effective_time: int


class Recorder:
    """Folds a partition into stores that record each write.

    Attributes:
        state: The state after the last record.
        versions: The versions that the folded records wrote, in the order of the writes.
    """

    def __init__(self) -> None:
        self.state = PartitionState(
            new_store=lambda owner, is_sorted: cast(Store, _Recording(owner, is_sorted, self._record))
        )
        self.versions: list[Version] = []
        self._effective_time = 0

    def fold(self, record: Record) -> Sequence[Outcome]:
        entry = record.entry
        steps = _Steps(entry.commands)
        steps.before_each = self._begin
        return fold(self.state, replace(record, entry=replace(entry, commands=steps)))

    def _begin(self, command: Command) -> None:
        self._effective_time = self.state.log_time
        if isinstance(command, Relay):
            self._effective_time = effective_time(command, self.state.log_time)

    def _record(self, store: int, pk: bytes, sk: bytes, stored: Stored | None) -> None:
        is_global = any(
            index.definition.id == store and index.definition.kind == "GSI"
            for table in self.state.tables.values()
            for index in table.indexes.values()
        )
        time = self.state.log_time if is_global else self._effective_time
        self.versions.append(Version(store, pk, sk, stored, time))


class _Recording:
    """A store that calls `record` with each write that changes it. A store in memory holds the items."""

    def __init__(
        self, owner: int, is_sorted: bool, record: Callable[[int, bytes, bytes, Stored | None], None]
    ) -> None:
        self._items = MemoryStore(owner, is_sorted)
        self._id = owner
        self._record = record

    def __getattr__(self, name: str) -> Any:
        return getattr(self._items, name)

    def put(self, pk: bytes, sk: bytes, stored: Stored, old: Stored | None = UNKNOWN) -> Stored | None:
        replaced = self._items.put(pk, sk, stored)
        assert old in (UNKNOWN, replaced), f"the fold takes {old} for the item at {pk!r}, {sk!r}"
        if replaced is None or replaced[0] != stored[0]:
            self._record(self._id, pk, sk, stored)
        return replaced

    def remove(self, pk: bytes, sk: bytes) -> Stored | None:
        old = self._items.remove(pk, sk)
        if old is not None:
            self._record(self._id, pk, sk, None)
        return old


class _Steps(list[Command]):
    """Commands that the fold takes one by one: it folds each before it takes the next."""

    before_each: Callable[[Command], None]

    def __iter__(self) -> Iterator[Command]:
        for command in super().__iter__():
            self.before_each(command)
            yield command


def check_order(versions: Iterable[Version]) -> None:
    """Check that effective time never falls along a key, so that the last version at a key is the newest."""
    last: dict[tuple[int, bytes, bytes], int] = {}
    for version in versions:
        key = (version.store, version.pk, version.sk)
        before = last.get(key, 0)
        assert before <= version.effective_time, (
            f"{key} is written at {version.effective_time}, after a version of {before}"
        )
        last[key] = version.effective_time


def check_newest(versions: Iterable[Version], state: PartitionState) -> None:
    """Check that the newest versions are the state: no write lacks its version, in tables and indexes."""
    newest: dict[int, dict[tuple[bytes, bytes], Stored]] = defaultdict(dict)
    for version in versions:
        if version.stored is None:
            newest[version.store].pop((version.pk, version.sk), None)
        else:
            newest[version.store][version.pk, version.sk] = version.stored
    for store_id, store in stores(state).items():
        found = {(pk, sk): stored for _, pk, sk, stored in store.scan()}
        assert found == newest[store_id], f"the versions of {store_id} are not its contents"


def stores(state: PartitionState) -> dict[int, Store]:
    """Return the stores of all tables and indexes by id."""
    tables = {table_id: table.items for table_id, table in state.tables.items()}
    indexes = chain.from_iterable(table.indexes.values() for table in state.tables.values())
    return tables | {index.definition.id: index.store for index in indexes}
