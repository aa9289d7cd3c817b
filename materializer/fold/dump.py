"""The canonical form of a partition's state.

    dump   ::= state origin* token* transactions feed talk voided* table* end
    transactions, feed: see transactions/frames.py, feed/frames.py
    talk   ::= spreading? received* (outbox message*)* early*    by partition; where there are several
    table  ::= definition item* (index entry*)*       tables and indexes by id, items and entries in scan order
    frame  ::= kind (1 byte)  length (4)  payload

Every frame says what it is, so a dump can be a file's content and be read back; numbers are big-endian, JSON is
sorted and without spaces. Whatever a reader of the state could tell apart is in it, and nothing that depends on how
the state came about: not the layout of a collection, not the order in which items were written. Two partitions
with the same digest will fold the rest of their log alike.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from hashlib import blake2b
from struct import Struct
from typing import Any, Final

import orjson

from ...log.binary import encode_message
from .feed import frames as feed
from .state import Index, PartitionState, Spreading, Table
from .storage import Store
from .transactions import frames as transactions

STATE: Final = b"S"
ORIGIN: Final = b"O"
TOKEN: Final = b"K"
TABLE: Final = b"T"
INDEX: Final = b"X"
SPREADING: Final = b"D"
RECEIVED: Final = b"R"
OUTBOX: Final = b"B"
MESSAGE: Final = b"M"  # of the outbox whose frame came last
EARLY: Final = b"E"
VOIDED: Final = b"Y"
ITEM: Final = b"I"  # of the table or index whose frame came last
END: Final = b"."

_FRAME = Struct(">cI")
_ORIGIN = Struct(">16sQ")
_MESSAGE = Struct(">QIQ")  # offset and index of the command that sent it, and log time then
_EARLY = Struct(">I")  # the sender
_ITEM = Struct(">IIII")  # lengths of partition key, sort key and item, and the item's size


def dump(state: PartitionState) -> Iterator[bytes]:
    """Write the state frame by frame."""
    yield _json(STATE, _header(state))
    for origin, number in state.origins.items():
        yield _frame(ORIGIN, _ORIGIN.pack(origin, number))
    for name, token in state.tokens.items():
        yield _json(TOKEN, [name, token.fingerprint.hex(), token.time])
    for kind, content in transactions.frames(state.transactions):
        yield _json(kind, content)
    for kind, content in feed.frames(state):
        yield _json(kind, content)
    yield from _talk(state)
    for table_id in sorted(state.tables):
        yield from dump_table(state.tables[table_id])
    yield _frame(END, b"")


def dump_table(table: Table) -> Iterator[bytes]:
    """Write one table with its indexes."""
    yield _json(TABLE, table.definition.to_json())
    yield from _items(table.items)
    for index in sorted(table.indexes.values(), key=lambda index: index.definition.id):
        yield _json(INDEX, _index(index))
        yield from _items(index.store)


def digest(state: PartitionState) -> str:
    """The state's BLAKE2b-256, in hexadecimal."""
    return digest_of(dump(state))


def digest_of(frames: Iterable[bytes]) -> str:
    """The BLAKE2b-256 of frames, in hexadecimal."""
    total = blake2b(digest_size=32)
    for frame in frames:
        total.update(frame)
    return total.hexdigest()


def _talk(state: PartitionState) -> Iterator[bytes]:
    """What is between this partition and the others."""
    if state.spreading != Spreading():
        yield _json(SPREADING, _spreading(state.spreading))
    for sender in sorted(state.received):
        yield _json(RECEIVED, [sender, state.received[sender]])
    for receiver in sorted(state.outboxes):
        outbox = state.outboxes[receiver]
        yield _json(OUTBOX, [receiver, outbox.next_number - len(outbox.unacknowledged)])
        for one in outbox.unacknowledged:
            yield _frame(
                MESSAGE, _MESSAGE.pack(one.offset, one.index, one.time) + encode_message(one.message)
            )
    for sender, message in state.early:
        yield _frame(EARLY, _EARLY.pack(sender) + encode_message(message))
    for offset, index in state.voided:
        yield _json(VOIDED, [offset, index])


def _spreading(spreading: Spreading) -> dict[str, Any]:
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
    if index.is_sent or index.heard:
        frame |= {"is_sent": index.is_sent, "heard": index.heard}
    return frame


def _items(store: Store) -> Iterator[bytes]:
    for _, pk, sk, (item, size) in store.scan():
        yield _frame(ITEM, _ITEM.pack(len(pk), len(sk), len(item), size) + pk + sk + item)


def _json(kind: bytes, value: Any) -> bytes:
    return _frame(kind, orjson.dumps(value, option=orjson.OPT_SORT_KEYS))


def _frame(kind: bytes, payload: bytes) -> bytes:
    return _FRAME.pack(kind, len(payload)) + payload
