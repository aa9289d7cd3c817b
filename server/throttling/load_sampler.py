"""A sample of the requests to tables and global indexes: the load of each capacity partition, and its keys.

    request ──► SampledPartition ──► metered partition ──► answer ──► one in eight: its key and its units

Refused requests count too, because they are the demand that a split has to serve. The sampler keeps the units of all
samples since the last look, and the keys of at most 1,024 of them, chosen with equal chances.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from ...log.commands import Command, Delete, Put, Transact, Update
from ...materializer.fold.outcomes import Applied, Outcome, Refused, Transacted
from ...materializer.fold.state import PartitionState
from ...materializer.fold.storage import Stored
from ...materializer.history.requests import PartitionWithHistory
from ...materializer.partition import (
    EncodedKey,
    OnFound,
    OnItem,
    OnItems,
    OnOutcome,
    OnPage,
    Page,
    Partition,
    QueryRequest,
    ResultPosition,
    ScanRequest,
    Since,
)
from ...model.capacity import read_half_units
from ...model.errors import RequestError
from ...model.keys import key_hash
from ...model.partition_splits import WeightedKey
from .meters import Access

_BITS: Final = 3
_ONE_IN: Final = 1 << _BITS
_SAMPLES: Final = 1024
_WRITES: Final = (Put, Update, Delete)


@dataclass(slots=True)
class PartLoad:
    """The sampled requests of a table or a global index in one direction.

    Attributes:
        half_units: Approximate half units of all requests.
        requests: The number of sampled requests.
        keys: The keys of some of them.
    """

    half_units: int = 0
    requests: int = 0
    keys: list[tuple[bytes, bytes, int]] = field(default_factory=list)


class LoadSampler:
    """Samples one of each eight requests, at random.

    Attributes:
        left: The number of requests until the next sample. A caller counts it down without a call.
    """

    def __init__(self, dice: random.Random) -> None:
        self.left = 0
        self._dice = dice
        self._place = _ONE_IN - 1  # of the last sample in its eight
        self._loads: dict[tuple[int, str | None, Access], PartLoad] = {}

    def begin(self) -> None:
        """Choose the sample after this one."""
        place = self._dice.getrandbits(_BITS)
        self.left = _ONE_IN - 1 - self._place + place
        self._place = place

    def skips(self) -> bool:
        """Return whether the next request is not sampled."""
        self.left -= 1
        if self.left >= 0:
            return True
        self.begin()
        return False

    def note(
        self, table: int, index: str | None, access: Access, pk: bytes, sk: bytes, half_units: int
    ) -> None:
        """Add a sampled request."""
        load = self._loads.get((table, index, access))
        if load is None:
            load = self._loads[table, index, access] = PartLoad()
        load.half_units += _ONE_IN * half_units
        load.requests += 1
        if len(load.keys) < _SAMPLES:
            load.keys.append((pk, sk, half_units))
        else:
            place = self._dice.randrange(load.requests)
            if place < _SAMPLES:
                load.keys[place] = (pk, sk, half_units)

    def take(self) -> dict[tuple[int, str | None, Access], PartLoad]:
        """Return the load since the last call, by table, index and direction."""
        taken, self._loads = self._loads, {}
        return taken


def loaded_keys(load: PartLoad, owner_id: int) -> Iterator[WeightedKey]:
    """Yield the sampled keys of a table or an index with its id, each with its part of all half units."""
    sampled = sum(weight for _, _, weight in load.keys) or 1
    for pk, sk, weight in load.keys:
        yield WeightedKey(key_hash(owner_id, pk), pk, sk, weight * load.half_units // sampled)


class SampledPartition:
    """A partition whose requests are sampled."""

    def __init__(self, partition: Partition, state: PartitionState, sampler: LoadSampler) -> None:
        self._partition = partition
        self._state = state
        self._sampler = sampler
        self.reach = partition.reach
        self.status = partition.status
        self.get_isolated: Callable[[Sequence[EncodedKey], Since, OnFound], None] = partition.get_isolated
        self.scan: Callable[[ScanRequest, OnPage], None] = partition.scan

    def submit(self, command: Command, size: int, done: OnOutcome) -> None:
        if isinstance(command, _WRITES):
            if not self._sampler.skips():
                done = partial(self._written, (command.table, command.pk, command.sk), done)
        elif isinstance(command, Transact) and not self._sampler.skips():
            keys = [(action.table, action.pk, action.sk) for action in command.actions]
            done = partial(self._transacted, keys, done)
        self._partition.submit(command, size, done)

    def get(self, table: int, pk: bytes, sk: bytes, consistent: bool, done: OnItem) -> None:
        sampler = self._sampler
        sampler.left -= 1
        if sampler.left < 0:
            sampler.begin()
            done = partial(self._read, (table, pk, sk), consistent, done)
        self._partition.get(table, pk, sk, consistent, done)

    def get_all(self, keys: Sequence[EncodedKey], consistent: bool, done: OnItems) -> None:
        if not self._sampler.skips():
            for key in keys:
                self._note(Access.READ, key, 2)
        self._partition.get_all(keys, consistent, done)

    def query(self, request: QueryRequest, done: OnPage) -> None:
        if not self._sampler.skips():
            done = partial(self._queried, request, done)
        self._partition.query(request, done)

    def _note(self, access: Access, key: EncodedKey, half_units: int) -> None:
        self._sampler.note(key[0], None, access, key[1], key[2], half_units)

    def _written(self, key: EncodedKey, done: OnOutcome, outcome: Outcome, position: ResultPosition) -> None:
        half_units = 2
        if isinstance(outcome, Applied):
            half_units = outcome.units.half_units
        elif isinstance(outcome, Refused):
            half_units = max(2, 2 * outcome.units)
        self._note(Access.WRITE, key, half_units)
        done(outcome, position)

    def _transacted(
        self, keys: Sequence[EncodedKey], done: OnOutcome, outcome: Outcome, position: ResultPosition
    ) -> None:
        half_units = (
            [each.units.half_units for each in outcome.actions]
            if isinstance(outcome, Transacted)
            else [4] * len(keys)
        )
        for key, each in zip(keys, half_units, strict=True):
            self._note(Access.WRITE, key, each)
        done(outcome, position)

    def _read(
        self,
        key: EncodedKey,
        consistent: bool,
        done: OnItem,
        found: Stored | RequestError | None,
        position: ResultPosition,
    ) -> None:
        size = 0 if found is None or isinstance(found, RequestError) else found[1]
        self._note(Access.READ, key, read_half_units(size, consistent))
        done(found, position)

    def _queried(
        self, request: QueryRequest, done: OnPage, page: Page | RequestError, position: ResultPosition
    ) -> None:
        half_units = 1
        if not isinstance(page, RequestError):
            half_units = max(1, page.table_half_units + page.index_half_units)
        table = self._state.tables.get(request.table)
        index = None if table is None else table.definition.index(request.index or "")
        name = index.name if index is not None and index.kind == "GSI" else None
        low = b"" if name is None and index is not None else (request.low or b"")
        self._sampler.note(request.table, name, Access.READ, request.pk, low, half_units)
        done(page, position)


class SampledReplica(SampledPartition):
    """A sampled partition of a shared log, to which other nodes send requests."""

    def __init__(self, partition: PartitionWithHistory, state: PartitionState, sampler: LoadSampler) -> None:
        super().__init__(partition, state, sampler)
        self.feed = partition.feed
        self.as_of = partition.as_of
