"""Load a state from its canonical form, as `dump` writes it.

    pieces of bytes ──► frames ──► PartitionState         dump(load(dump(state))) is dump(state), to the byte

Items come in the order of a scan, so a store takes many at once, and a collection is built in one step instead of
item by item. Pieces may end anywhere and are not kept.
"""

import struct
from collections.abc import Callable, Iterable
from struct import Struct
from typing import Any, Final

import orjson

from ...log.binary import decode_first_message, decode_message
from ...log.commands import Genesis, IndexEntry, IndexSent, Message, Relay
from ...model.backups import Backup
from ...model.jobs import Job
from ...model.limits import limits_named
from ...model.tables import TableDefinition
from . import dump
from .feed import frames as feed
from .outbox import size_of
from .state import DefinitionRollout, Index, Outbox, PartitionState, Pending, Table, TransactionToken
from .storage import MemoryStore, NewStore, Store, Stored
from .transactions import frames as transactions

_FRAME: Final = Struct(">cI")
_ITEM: Final = Struct(">cIIIII")  # an item's frame up to its key: one call reads both
_ORIGIN: Final = Struct(">16sQ")
_MESSAGE: Final = Struct(">QIQ")
_DEFERRED: Final = Struct(">I")
_LARGEST: Final = 64 << 20  # limits the wait for the end of a frame whose length is damaged


def load(pieces: Iterable[bytes], new_store: NewStore = MemoryStore) -> PartitionState:
    """Load a dump into a state whose stores `new_store` makes.

    Raises:
        ValueError: The bytes are not a complete dump: damaged, truncated, or of another version.
    """
    loading = Loading(new_store)
    for piece in pieces:
        loading.take(piece)
    return loading.finish()


class Loading:
    """A load whose caller has the pieces one by one. The state that it makes is complete after `finish`."""

    def __init__(self, new_store: NewStore) -> None:
        self._loader = _Loader(new_store)
        self._rest = b""

    def take(self, piece: bytes) -> None:
        """Load the next piece.

        Raises:
            ValueError: The bytes are not part of a dump.
        """
        data = self._rest + piece if self._rest else piece
        try:
            at = self._loader.take(data)
        except (struct.error, LookupError, TypeError, AttributeError) as error:
            raise ValueError(f"invalid dump of a state: {error!r}") from error
        self._rest = data[at:]

    def finish(self) -> PartitionState:
        """Return the state.

        Raises:
            ValueError: The dump is truncated.
        """
        if self._rest or not self._loader.ended:
            raise ValueError("the dump is truncated")
        return self._loader.state


class _Loader:
    """A state that is being loaded. Items belong to the table or the index of the last TABLE or INDEX frame."""

    def __init__(self, new_store: NewStore) -> None:
        self.state = PartitionState(new_store=new_store)
        self.ended = False
        self._outbox = Outbox()
        self._table: Table | None = None
        self._store: Store | None = None
        # The entry of an index that projects everything is the item's own bytes, not a copy: this maps bytes to the
        # item's.
        self._shared: dict[bytes, bytes] = {}
        self._is_sharing = self._is_index = False

    def take(self, data: bytes) -> int:
        """Take the complete frames at the start of `data`; return the position after them."""
        at = 0
        while not self.ended and len(data) - at >= _FRAME.size:
            kind, length = _FRAME.unpack_from(data, at)
            if length > _LARGEST:
                raise ValueError("a frame of the dump is longer than any frame")
            end = at + _FRAME.size + length
            if end > len(data):
                break
            if kind == dump.ITEM:
                end = self._load_items(data, at)
            else:
                self._load_frame(kind, data[at + _FRAME.size : end])
            at = end
        return at

    def _load_frame(self, kind: bytes, payload: bytes) -> None:
        match kind:
            case dump.STATE:
                self._begin(orjson.loads(payload))
            case dump.ORIGIN:
                origin, next_number = _ORIGIN.unpack(payload)
                self.state.origins[origin] = next_number
            case dump.TOKEN:
                name, fingerprint, time = orjson.loads(payload)
                self.state.tokens[name] = TransactionToken(bytes.fromhex(fingerprint), time)
            case dump.TABLE:
                self._begin_table(TableDefinition.from_json(orjson.loads(payload)))
            case dump.INDEX:
                self._begin_index(orjson.loads(payload))
            case dump.ROLLOUT:
                self._load_rollout(**orjson.loads(payload))
            case dump.RECEIVED:
                sender, next_number = orjson.loads(payload)
                self.state.received[sender] = next_number
            case dump.OUTBOX:
                receiver, next_number = orjson.loads(payload)
                self._outbox = self.state.outboxes[receiver] = Outbox(next_number)
            case dump.MESSAGE:
                self._load_message(payload, decode_first_message)
            case dump.LATER_MESSAGE:
                self._load_message(payload, decode_message)
            case dump.DEFERRED:
                self._load_deferred(payload)
            case dump.VOIDED:
                offset, index = orjson.loads(payload)
                self.state.voided.append((offset, index))
            case dump.BACKUP:
                backup = Backup.from_json(orjson.loads(payload))
                self.state.backups[backup.arn] = backup
            case dump.RESTORE:
                table_id, cursor = orjson.loads(payload)
                self.state.restores[table_id] = bytes.fromhex(cursor)
            case dump.JOB:
                job = Job.from_json(orjson.loads(payload))
                self.state.jobs[job.arn] = job
            case dump.END:
                self.ended = True
            case _:
                if not self._load_other(kind, payload):
                    raise ValueError(f"unknown kind of frame in a dump: {kind!r}")

    def _load_other(self, kind: bytes, payload: bytes) -> bool:
        state = self.state
        if transactions.load_frame(state.transactions, kind, payload):
            return True
        return feed.load_frame(state, kind, payload)

    def _begin(self, header: dict[str, Any]) -> None:
        genesis = header.pop("genesis")
        if genesis is not None:
            genesis = Genesis(**{**genesis, "log_id": bytes.fromhex(genesis["log_id"])})
        limits = limits_named(header.pop("limits"))
        self.state = PartitionState(genesis=genesis, limits=limits, new_store=self.state.new_store, **header)

    def _load_rollout(self, version: int, applied: list[Any], pending: list[Any], filled: list[Any]) -> None:
        tables = {table: Pending(version, delayed) for table, version, delayed in pending}
        self.state.rollout = DefinitionRollout(version, dict(applied), tables, dict(filled))

    def _load_message(self, payload: bytes, decode: Callable[[bytes], Message]) -> None:
        offset, index, time = _MESSAGE.unpack_from(payload)
        message = decode(payload[_MESSAGE.size :])
        outbox = self._outbox
        relay = Relay(self.state.partition, outbox.next_message_number, offset, index, time, message)
        outbox.unacknowledged.append(relay)
        outbox.next_message_number += 1
        self.state.unacknowledged_bytes += size_of(message)

    def _load_deferred(self, payload: bytes) -> None:
        [sender] = _DEFERRED.unpack_from(payload)
        message = decode_message(payload[_DEFERRED.size :])
        if not isinstance(message, IndexEntry | IndexSent):
            raise ValueError("only messages about an index may be early")
        self.state.deferred.append((sender, message))

    def _begin_table(self, definition: TableDefinition) -> None:
        table = self.state.add(definition)
        self._table, self._store = table, table.items
        self._is_index = False
        self._is_sharing = any(index.kept is None for index in table.indexes.values())
        self._shared = {}

    def _begin_index(self, frame: dict[str, Any]) -> None:
        assert self._table is not None
        indexes = {index.definition.id: index for index in self._table.indexes.values()}
        index: Index = indexes[frame["id"]]
        cursor = frame["cursor"]
        if cursor is not None:
            index.cursor = (int(cursor[0], 16), bytes.fromhex(cursor[1]), bytes.fromhex(cursor[2]))
        index.is_sent, index.complete_senders = frame.get("is_sent", False), frame.get("heard", [])
        self._store = index.store
        self._is_index = True
        self._is_sharing = index.kept is None

    def _load_items(self, data: bytes, at: int) -> int:
        """Take consecutive items; return the position of the first frame that is incomplete or of another kind."""
        pks: list[bytes] = []
        sks: list[bytes] = []
        items: list[Stored] = []
        size_of_data, last, unpack = len(data), len(data) - _ITEM.size, _ITEM.unpack_from
        while at <= last:
            kind, length, pk_length, sk_length, item_length, size = unpack(data, at)
            end = at + _FRAME.size + length
            if kind != dump.ITEM or end > size_of_data:
                break
            sk_at = at + _ITEM.size + pk_length
            item_at = sk_at + sk_length
            if item_at + item_length != end:
                raise ValueError("the lengths in an item's frame do not fit")
            pks.append(data[at + _ITEM.size : sk_at])
            sks.append(data[sk_at:item_at])
            items.append((data[item_at:end], size))
            at = end
        if self._store is None:
            raise ValueError("an item belongs to no table")
        self._store.extend(pks, sks, self._share(items) if self._is_sharing else items)
        return at

    def _share(self, items: list[Stored]) -> list[Stored]:
        if not self._is_index:
            self._shared.update((item, item) for item, _ in items)
            return items
        shared = self._shared
        return [(shared.get(item, item), size) for item, size in items]
