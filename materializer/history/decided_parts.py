"""The parts of transactions that a read at positions shows although the partition applied them later.

    Prepare ────────► cut ────────► Commit ──► row        in this partition
                          │
    decision ──► position of the cut                      in the coordinator

A live read of several partitions at one instant shows a transaction from its decision on
(server/routing/instant_reads.py). The same read at the positions of its answer has to show it too: where the
coordinator's position includes the decision, and this partition's cut is between Prepare and Commit.

    part row   P  scale (1)  position of the Commit (8)
                   ──► coordinator, positions of decision and Prepare, (table, partition key, sort key, item?)*

The items are those that the Commit wrote, and are read from their versions. If a table was deleted before the Commit,
its items have no version, so the row has them.

A row is filed under its scale, the length in bits of the distance from Prepare to Commit, as late versions are
(timeline.py): of the rows at one scale up to 2^scale after a cut, about half are of parts that were prepared before it.
"""

from collections.abc import Iterator, Mapping
from struct import Struct
from typing import Any, Final

import msgpack

from ...log.commands import Check, Command, Commit, Decide, Delete, Prepare, Put, Relay, new_context
from ..fold.state import PartitionState
from ..fold.storage import Stored
from ..fold.transactions.state import Effect, Prepared, TransactionId
from .engine import Batch, Engine
from .past_store import PastStore
from .timeline import time_at
from .version_keys import offset_of, pack_position, stamp

PART: Final = b"P"

_KEY: Final = Struct(">cBQ")
_NO_CONTEXT: Final = new_context("")


class PartWriter:
    """Writes the rows of the parts that a follower sees applied.

    Attributes:
        prepared: The packed positions of the Prepares whose keys are held; 0 if that was before the base of the epoch.
            A coordinator's own parts are not among them: it applies them when it decides.
    """

    def __init__(self, prepared: Mapping[TransactionId, int]) -> None:
        self.prepared = dict(prepared)
        self._part: Prepared | None = None

    def begin_command(self, state: PartitionState, command: Command) -> None:
        """Note the part that the command may conclude: the fold drops it."""
        self._part = None
        if type(command) is Relay and isinstance(command.message, Decide | Commit):
            transaction_id = command.sender, command.message.transaction_number
            self._part = state.transactions.prepared.get(transaction_id)

    def end_command(self, state: PartitionState, batch: Batch, packed: int, command: Command) -> None:
        """Note a part that the command prepared, and write the row of one that it applied."""
        if type(command) is not Relay or not isinstance(command.message, Prepare | Decide | Commit):
            return
        message = command.message
        transaction_id = command.sender, message.transaction_number
        if transaction_id in state.transactions.prepared:
            self.prepared.setdefault(transaction_id, packed)
            return
        prepared = self.prepared.pop(transaction_id, None)
        if prepared is None or self._part is None or (isinstance(message, Decide) and not message.commit):
            return
        effects = [_encoded(state, each) for each in self._part.effects if not isinstance(each, Check)]
        decided = pack_position(command.offset, command.index)
        key = _KEY.pack(PART, (packed - prepared).bit_length(), packed)
        batch.put_row(key, msgpack.packb([command.sender, decided, prepared, effects]))


def decided_parts(engine: Engine, cut: int, decided: Mapping[int, int]) -> Iterator[tuple[int, Effect]]:
    """Yield the effects that were decided and not yet applied, each with the packed position of its Commit.

    Args:
        engine: The storage of the epoch.
        cut: The last position that the read includes in this partition, packed.
        decided: The last position that it includes in each other partition, packed.
    """
    for commit, row in _rows_after(engine, cut):
        coordinator, decision, prepared, effects = msgpack.unpackb(row)
        if prepared <= cut and decision <= decided.get(coordinator, -1):
            written = stamp(time_at(engine, offset_of(commit)), commit)
            for table, pk, sk, *item in effects:
                if not item:
                    stored = PastStore(engine, table, written, commit).get(pk, sk)
                else:
                    stored = None if item[0] is None else (item[0][0], item[0][1])  # msgpack has lists
                if stored is None:
                    yield commit, Delete(table, pk, sk, _NO_CONTEXT)
                else:
                    yield commit, Put(table, pk, sk, *stored, _NO_CONTEXT)


def roll_back_parts(engine: Engine, batch: Batch, end: int) -> None:
    """Delete the rows of all records from offset `end` on."""
    for key, _ in _walk(engine, pack_position(end, 0) - 1, ending=False):
        batch.delete_row(key)


def _rows_after(engine: Engine, cut: int) -> Iterator[tuple[int, bytes]]:
    """Yield the position of the Commit and the row of each part that may have been prepared at the cut."""
    for key, row in _walk(engine, cut, ending=True):
        yield _KEY.unpack(key)[2], row


def _walk(engine: Engine, after: int, *, ending: bool) -> Iterator[tuple[bytes, bytes]]:
    """Yield key and value of the rows after a packed position, at each scale up to its end, or all of them."""
    cursor = engine.rows()
    at = cursor.seek(PART)
    while at is not None and at.startswith(PART):
        _, scale, commit = _KEY.unpack(at)
        if commit <= after:
            at = cursor.seek(_KEY.pack(PART, scale, after + 1))
        elif ending and commit - after >= 1 << scale:
            at = cursor.seek(_KEY.pack(PART, scale + 1, 0))
        else:
            yield at, cursor.value()
            at = cursor.next()


def _encoded(state: PartitionState, effect: Effect) -> list[Any]:
    """Return the key of an effect, and its item if the fold has dropped it."""
    key = [effect.table, effect.pk, effect.sk]
    if effect.table in state.tables:
        return key
    stored: Stored | None = (effect.item, effect.size) if isinstance(effect, Put) else None
    return [*key, stored]
