"""The canonical form of a partition's state.

    dump   ::= state origin* token* transactions feed talk voided* backup* restore* job* table* end
    transactions, feed: see transactions/frames.py, feed/frames.py
    talk   ::= rollout? received* (outbox message*)* deferred*   by partition; with several partitions
    table  ::= definition item* (index entry*)*       tables and indexes by id, items and entries in scan order
    frame  ::= kind (1 byte)  length (4)  payload

Every frame names its kind, so a dump can be stored in a file and loaded again; numbers are big-endian, JSON is
sorted and without spaces. A dump contains every observable difference between two states, and nothing that depends
on the history of a state: not the layout of a collection, not the order in which items were written. Two partitions
with the same digest fold the rest of their log alike.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from hashlib import blake2b
from itertools import chain, islice
from struct import Struct
from typing import Any, Final

import orjson

from ...log.binary import LayoutError, encode_first_message, encode_message
from ...log.commands import IndexEntry, IndexSent, Relay
from .feed import frames as feed
from .state import DefinitionRollout, Index, PartitionState, Table, TransactionToken
from .storage import Store
from .transactions import frames as transactions
from .view import ScanPosition, StoreView, ViewEntry

STATE: Final = b"S"
ORIGIN: Final = b"O"
TOKEN: Final = b"K"
TABLE: Final = b"T"
INDEX: Final = b"X"
ROLLOUT: Final = b"D"
RECEIVED: Final = b"R"
OUTBOX: Final = b"B"
MESSAGE: Final = b"M"  # of the outbox in the last OUTBOX frame, in the log's first layout
LATER_MESSAGE: Final = b"m"  # the same in the present layout, for messages that the first one cannot express
DEFERRED: Final = b"E"
VOIDED: Final = b"Y"
BACKUP: Final = b"A"
RESTORE: Final = b"G"  # table and cursor of a restore in progress
JOB: Final = b"J"
ITEM: Final = b"I"  # of the table or index in the last TABLE or INDEX frame
END: Final = b"."

# Number of entries of a view that are read at once.
_READ_AHEAD: Final = 256

_FRAME: Final = Struct(">cI")
_ORIGIN: Final = Struct(">16sQ")
_MESSAGE: Final = Struct(">QIQ")  # offset and index of the command that sent it, and its log time
_DEFERRED: Final = Struct(">I")  # the sender
_ITEM: Final = Struct(">IIII")  # lengths of partition key, sort key and item, and the item's size


def dump(state: PartitionState) -> Iterator[bytes]:
    """Serialize the state frame by frame. The state must not change until the last frame."""
    yield from _front(state)
    for frame, store in _parts(state):
        yield frame
        yield from map(_item, store.scan())
    yield _frame(END, b"")


def outline(state: PartitionState) -> Iterator[bytes]:
    """Serialize the state without items and index entries. `load` reads it as a state whose stores are empty."""
    yield from _front(state)
    for frame, _ in _parts(state):
        yield frame
    yield _frame(END, b"")


def dump_table(table: Table) -> Iterator[bytes]:
    """Serialize one table with its indexes."""
    for frame, store in _parts_of(table):
        yield frame
        yield from map(_item, store.scan())


class StillDump:
    """A dump of the current state, frame by frame, while the state changes.

    Views preserve the items (view.py); everything else is copied, which is little. `frames` closes each view after
    its last item.
    """

    def __init__(self, state: PartitionState) -> None:
        self._front = _front(state)
        self._parts = [(frame, StoreView(store)) for frame, store in _parts(state)]

    def frames(self) -> Iterator[bytes]:
        """Serialize the dump. The state may change between two frames."""
        yield from self._front
        for frame, view in self._parts:
            yield frame
            yield from map(_item, _in_chunks(view))
            view.close()
        yield _frame(END, b"")


def payload_of(frame: bytes) -> bytes:
    """Return the payload of a frame."""
    return frame[_FRAME.size :]


def _in_chunks(view: StoreView) -> Iterator[ViewEntry]:
    """Yield the entries of a view whose store changes between any two of them."""
    after: ScanPosition | None = None
    while entries := list(islice(view.scan(after), _READ_AHEAD)):
        yield from entries
        after = entries[-1][:3]


def digest(state: PartitionState) -> str:
    """Return the BLAKE2b-256 of the state in hexadecimal, at once. The server digests in portions (digest_task.py)."""
    return digest_of(dump(state))


def digest_of(frames: Iterable[bytes]) -> str:
    """Return the BLAKE2b-256 of frames in hexadecimal."""
    total = blake2b(digest_size=32)
    for frame in frames:
        total.update(frame)
    return total.hexdigest()


def _front(state: PartitionState) -> Iterator[bytes]:
    """Serialize the frames before the tables. Copies are taken now, frames are serialized later."""
    origins = list(state.origins.items())
    tokens = list(state.tokens.items())
    others = [*transactions.frames(state.transactions), *feed.frames(state)]
    return chain(
        (_json(STATE, _header(state)),),
        map(_origin, origins),
        map(_token, tokens),
        [_json(kind, content) for kind, content in others],
        _messaging(state),
    )


def _parts(state: PartitionState) -> Iterator[tuple[bytes, Store]]:
    """Yield the frame that begins each table or index, and the items that follow it."""
    for table_id in sorted(state.tables):
        yield from _parts_of(state.tables[table_id])


def _parts_of(table: Table) -> Iterator[tuple[bytes, Store]]:
    yield _json(TABLE, table.definition.to_json()), table.items
    for index in sorted(table.indexes.values(), key=lambda index: index.definition.id):
        yield _json(INDEX, _index(index)), index.store


def _messaging(state: PartitionState) -> Iterator[bytes]:
    """Serialize the messages to and from other partitions. Copies are taken now, frames are serialized later."""
    spreading = [] if state.rollout == DefinitionRollout() else [_json(ROLLOUT, _rollout(state.rollout))]
    received = [_json(RECEIVED, [sender, state.received[sender]]) for sender in sorted(state.received)]
    outboxes = [
        (
            _json(OUTBOX, [receiver, outbox.next_message_number - len(outbox.unacknowledged)]),
            list(outbox.unacknowledged),
        )
        for receiver, outbox in sorted(state.outboxes.items())
    ]
    return chain(
        spreading,
        received,
        chain.from_iterable(map(_outbox, outboxes)),
        map(_deferred, list(state.deferred)),
        [_json(VOIDED, [offset, index]) for offset, index in state.voided],
        [_json(BACKUP, state.backups[arn].to_json()) for arn in sorted(state.backups)],
        [_json(RESTORE, [table, state.restores[table].hex()]) for table in sorted(state.restores)],
        [_json(JOB, job.to_json()) for job in state.jobs.values()],
    )


def _origin(origin: tuple[bytes, int]) -> bytes:
    return _frame(ORIGIN, _ORIGIN.pack(*origin))


def _token(token: tuple[str, TransactionToken]) -> bytes:
    name, used = token
    return _json(TOKEN, [name, used.fingerprint.hex(), used.time])


def _outbox(outbox: tuple[bytes, list[Relay]]) -> Iterator[bytes]:
    frame, relays = outbox
    yield frame
    yield from map(_message, relays)


def _deferred(deferred: tuple[int, IndexEntry | IndexSent]) -> bytes:
    sender, message = deferred
    return _frame(DEFERRED, _DEFERRED.pack(sender) + encode_message(message))


def _message(relay: Relay) -> bytes:
    sent_by = _MESSAGE.pack(relay.offset, relay.index, relay.time)
    try:
        return _frame(MESSAGE, sent_by + encode_first_message(relay.message))
    except LayoutError:
        return _frame(LATER_MESSAGE, sent_by + encode_message(relay.message))


def _rollout(spreading: DefinitionRollout) -> dict[str, Any]:
    return {
        "version": spreading.version,
        "applied": sorted(spreading.applied.items()),
        "pending": [[table, one.version, one.delayed] for table, one in sorted(spreading.pending.items())],
        "filled": sorted(spreading.filled.items()),
    }


def _header(state: PartitionState) -> dict[str, Any]:
    genesis = state.genesis
    return {
        "genesis": None if genesis is None else {**asdict(genesis), "log_id": genesis.log_id.hex()},
        "level": state.level,
        "limits": state.limits.name,
        "next_offset": state.next_offset,
        "log_time": state.log_time,
        "next_id": state.next_id,
        "names": state.names,
    }


def _index(index: Index) -> dict[str, Any]:
    cursor = index.cursor
    frame: dict[str, Any] = {
        "id": index.definition.id,
        "cursor": None if cursor is None else [f"{cursor[0]:016x}", cursor[1].hex(), cursor[2].hex()],
    }
    if index.is_sent or index.complete_senders:
        frame |= {"is_sent": index.is_sent, "heard": index.complete_senders}
    return frame


def _item(entry: ViewEntry) -> bytes:
    _, pk, sk, (item, size) = entry
    return _frame(ITEM, _ITEM.pack(len(pk), len(sk), len(item), size) + pk + sk + item)


def _json(kind: bytes, value: Any) -> bytes:
    return _frame(kind, orjson.dumps(value, option=orjson.OPT_SORT_KEYS))


def _frame(kind: bytes, payload: bytes) -> bytes:
    return _FRAME.pack(kind, len(payload)) + payload
