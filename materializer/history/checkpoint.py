"""The checkpoint of an epoch: the state of its fold without the items, which its versions are.

    checkpoint ::= length (8)  fields as JSON  outline of the state (fold/dump.py)

A dump lacks log time and position of prepared transactions, because no fold depends on them. A history does: the fields
have them.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import orjson

from ...log.commands import Record
from ..fold.dump import outline
from ..fold.load import load
from ..fold.state import PartitionState
from ..fold.storage import Store
from ..fold.transactions.state import TransactionId
from .engine import DamagedHistoryError
from .timeline import Figures

Identity = list[Any]
"""Values that a record at the same offset of another log does not have."""

NewStoreWith = Callable[[int, Figures], Store]
"""Makes a store from its id and its figures at the checkpoint."""


class Checkpoint(NamedTuple):
    """A loaded checkpoint.

    Attributes:
        state: The state after the last record.
        last: The identity of the last record; empty if the log does not have it.
        versions: The number of versions that the epoch has, without its base.
        prepared: The packed positions of the Prepares whose keys are held; 0 if that was before the base of the epoch.
    """

    state: PartitionState
    last: Identity
    versions: int
    prepared: dict[TransactionId, int]


def encode_checkpoint(
    state: PartitionState, last: Identity, versions: int, prepared: Mapping[TransactionId, int]
) -> bytes:
    """Return the checkpoint of a state."""
    stores = {
        store_id: [store_id, store.count, store.size]
        for table in state.tables.values()
        for store_id, store in (
            (table.definition.id, table.items),
            *((index.definition.id, index.store) for index in table.indexes.values()),
        )
    }
    held = state.transactions.prepared.items()
    fields = orjson.dumps(
        {
            "next_offset": state.next_offset,
            "figures": list(stores.values()),
            "prepared": [
                [*transaction_id, part.time, prepared.get(transaction_id, 0)] for transaction_id, part in held
            ],
            "last": last,
            "versions": versions,
        }
    )
    return b"".join([len(fields).to_bytes(8, "big"), fields, *outline(state)])


def decode_checkpoint(saved: bytes | None, new_store: NewStoreWith) -> Checkpoint:
    """Return a checkpoint; its stores are made by `new_store`.

    Raises:
        DamagedHistoryError: The row is missing or damaged.
    """
    if saved is None:
        raise DamagedHistoryError("it has no checkpoint")
    try:
        length = int.from_bytes(saved[:8], "big")
        fields, dump = orjson.loads(saved[8 : 8 + length]), saved[8 + length :]
        figures = {store_id: Figures(count, size) for store_id, count, size in fields["figures"]}

        def make(store_id: int, _: bool) -> Store:
            return new_store(store_id, figures.get(store_id, Figures(0, 0)))

        state = load([dump], make)
        prepared = {}
        for coordinator, number, log_time, packed in fields["prepared"]:
            state.transactions.prepared[coordinator, number].time = log_time
            if coordinator != state.partition:
                prepared[coordinator, number] = packed
        return Checkpoint(state, fields["last"], fields["versions"], prepared)
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedHistoryError(f"its checkpoint is damaged: {error}") from error


def identity(record: Record) -> Identity:
    """Return values that a record at the same offset of another log does not have."""
    return [record.offset, record.time, record.entry.origin.hex(), record.entry.entry_number]
