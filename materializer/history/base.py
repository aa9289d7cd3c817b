"""The base of an epoch: the state before its first record, with the items as versions.

    the beginning of the log ──┐
    its foundation, if trimmed ├──► items, a portion at a time ──► figures, definitions, checkpoint
    a snapshot                 │
    the end of an older epoch ─┘

A version of the base has the effective time 0: a transaction that was prepared before the base may write a version
after it whose effective time is below the log time of the base, and effective time never falls along a key.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import islice
from typing import Final, TypeAlias

from ..disposer import stores_of
from ..fold.dump import outline
from ..fold.load import Loading, load
from ..fold.state import PartitionState
from ..fold.storage import HASHES, Store, Stored
from ..snapshot import OpenSnapshot, UnusableError, check_state, read_dump
from .checkpoint import Identity, decode_checkpoint, encode_checkpoint
from .definitions import Definitions
from .engine import Engine
from .past_store import walk_on
from .timeline import Figures, put_clock_row, put_timeline_row
from .version_keys import StoreKeys, pack_position, position_stamp
from .version_store import VersionStore, VersionWriter

CHECKPOINT: Final = b"K"
"""The row of the newest checkpoint of an epoch."""
END: Final = b"E"
"""The row of the checkpoint at the end of an epoch, from which the next one may begin."""

_PORTION_ITEMS: Final = 500
_PORTION_BYTES: Final = 1 << 16

Portions: TypeAlias = Generator[None, None, tuple[PartitionState, Identity]]
"""Copies a base, a portion between two yields.

It returns the state, and the identity of its last record, which is empty if the log does not have that record.
"""

Source: TypeAlias = "Callable[[BaseStores], Portions]"
"""Begins to copy a base to stores that `BaseStores` makes."""


class BaseStores:
    """The stores to which a base is copied.

    Args:
        engine: The empty storage of the epoch.
        offset: The offset before the first record.
    """

    def __init__(self, engine: Engine, offset: int) -> None:
        self.writer = VersionWriter(engine)
        if offset >= 0:  # the empty state before the first record has no versions
            self.writer.begin_command(0, 0, pack_position(offset, None))
        self.offset = offset
        self._engine = engine

    def new_store(self, store_id: int, _: bool) -> "_BaseStore":
        """Return a store."""
        return _BaseStore(self._engine, self.writer, store_id, Figures(0, 0))


class _BaseStore(VersionStore):
    """A store that takes the items of a base, each key once. It is not read."""

    __slots__ = ()

    def extend(self, pks: Sequence[bytes], sks: Sequence[bytes], items: Sequence[Stored]) -> None:
        """Store many items, in their first versions."""
        writer, key = self._writer, self._keys.key
        put, written = writer.batch.put_version, writer.stamp
        for pk, sk, stored in zip(pks, sks, items, strict=True):
            put(key(pk, sk) + written, stored)
        self.count += len(items)
        self.size += sum(size for _, size in items)

    def extend_keys(self, items: Sequence[tuple[bytes, Stored]]) -> None:
        """Store many items by their version keys, which are those of the store in each epoch."""
        put, written = self._writer.batch.put_version, self._writer.stamp
        size = 0
        for key, stored in items:
            put(key + written, stored)
            size += stored[1]
        self.count += len(items)
        self.size += size


def copy_base(engine: Engine, first_offset: int, source: Source) -> Generator[None, None, PartitionState]:
    """Write the base of an epoch into an empty storage, a portion between two yields; return the state.

    Args:
        engine: The storage.
        first_offset: The offset of the first record of the epoch.
        source: Copies the state before it.

    Raises:
        UnusableError: The source is damaged.
    """
    offset = first_offset - 1
    stores = BaseStores(engine, offset)
    portions = source(stores)
    while True:
        try:
            next(portions)
        except StopIteration as end:
            state: PartitionState = end.value[0]
            last: Identity = end.value[1]
            break
        stores.writer.flush()
        yield
    batch = stores.writer.batch
    for store in stores_of(state):
        assert isinstance(store, VersionStore), "the source has copied to the stores"
        put_timeline_row(batch, store.prefix, offset, Figures(store.count, store.size), [])
    if state.next_offset:
        put_clock_row(batch, offset, state.log_time)
    definitions = Definitions(engine)
    for table_id, table in state.tables.items():
        definitions.add(batch, pack_position(offset, None), state.log_time, table_id, table.definition)
    batch.put_row(CHECKPOINT, encode_checkpoint(state, last, 0, {}))
    stores.writer.flush()
    stores.writer.close()
    engine.sync()
    return state


def empty_base(stores: BaseStores) -> Portions:
    """Copy the state before the first record of a whole log: it is empty."""
    yield
    return PartitionState(new_store=stores.new_store), []


def state_base(state: PartitionState) -> Source:
    """Return the source of a state in memory, whose last record the log does not have."""

    def portions(stores: BaseStores) -> Portions:
        target = load(outline(state), stores.new_store)
        for source, store in zip(stores_of(state), stores_of(target), strict=True):
            yield from _copied(source, store)
        return target, []

    return portions


def snapshot_base(snapshot: OpenSnapshot, last: Identity) -> Source:
    """Return the source of a snapshot. Its last portion raises UnusableError if the snapshot is damaged."""

    def portions(stores: BaseStores) -> Portions:
        loading = Loading(stores.new_store)
        try:
            for piece in read_dump(snapshot):
                for at in range(0, len(piece), _PORTION_BYTES):
                    loading.take(piece[at : at + _PORTION_BYTES])
                    yield
            state = loading.finish()
        except ValueError as error:
            raise UnusableError(f"it is damaged: {error}") from error
        check_state(snapshot.head, state)
        return state, last

    return portions


def epoch_base(engine: Engine) -> Source:
    """Return the source of the state at the end of an epoch, in its storage.

    It raises DamagedHistoryError if the epoch cannot be read.
    """

    def portions(stores: BaseStores) -> Portions:
        end = decode_checkpoint(engine.row(END), lambda store_id, _: stores.new_store(store_id, False))
        cut = position_stamp(pack_position(stores.offset, None))
        for store in stores_of(end.state):
            assert isinstance(store, _BaseStore), "the stores have made it"
            versions = walk_on(engine.versions(), *StoreKeys(store.id).hashes(None, 0, HASHES), cut)
            while chunk := list(islice(versions, _PORTION_ITEMS)):
                store.extend_keys(chunk)
                yield
        return end.state, end.last

    return portions


def _copied(source: Store, target: Store) -> Iterator[None]:
    entries = source.scan()
    while chunk := list(islice(entries, _PORTION_ITEMS)):
        _, pks, sks, items = zip(*chunk, strict=True)
        target.extend(pks, sks, items)
        yield
