"""Proposals to split capacity partitions, as any client proposes a command; the fold decides.

    throughput   the table has fewer partitions than its throughput needs: the widest are halved
    size         a partition has more bytes than --split-size: divided where half of them are
    heat         the requests of a partition take --split-heat of its limit: divided where half of the load is

A condition has to hold for --split-delay, and a partition is not split again before that age, so growth takes as long
as in DynamoDB. The owner of the catalog proposes for throughput; the node that serves a partition of the log proposes
for the load and the size there. Without --throttle nothing is proposed and nothing measured.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias

import orjson

from ...log.commands import DefineTable, new_context
from ...materializer.fold.state import HISTORY_LEVEL, PartitionState
from ...materializer.fold.storage import Store
from ...materializer.worker import Cancellable, Scheduler
from ...model.capacity_partitions import (
    PARTITIONS_MAX,
    READ_UNITS_MAX,
    WRITE_UNITS_MAX,
    Boundary,
    CapacityPartition,
    PartitionMap,
    SplitReason,
)
from ...model.lazy_dataclass import dataclass
from ...model.partition_splits import SPLIT, WeightedKey, dividing_boundary, parts_of
from ...model.tables import IndexDefinition, TableDefinition
from ...model.throughput import partition_map, wanted_partitions
from .load_sampler import LoadSampler, loaded_keys
from .meters import Access

_PERCENT: Final = 100
_LEAST_SAMPLES: Final = 8
_CHUNKS: Final = 64
"""The boundary of a split by size is found to this part of --split-size."""
_ITEMS_A_STEP: Final = 2_000
_STEP_SECONDS: Final = 0.002
_SHORTEST_LOOK_MS: Final = 1_000
_LONGEST_LOOK_MS: Final = 60_000

Condition: TypeAlias = tuple[int, int, SplitReason]
"""The id of a table or an index, and the partition that should be split."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SplitPolicy:
    """When partitions are split.

    Attributes:
        delay_ms: The time for which a condition holds before the split, and the least age of a partition.
        partition_bytes: The size above which a partition is split.
        heat_percent: The part of its limit from which a partition is hot.
    """

    delay_ms: int
    partition_bytes: int
    heat_percent: int

    @property
    def look_ms(self) -> int:
        """The time between two looks."""
        return min(max(self.delay_ms // 4, _SHORTEST_LOOK_MS), _LONGEST_LOOK_MS)


@dataclass(frozen=True, slots=True)
class Part:
    """A table or a global index, whose `index` is its name then, with its capacity partitions."""

    definition: TableDefinition
    own: TableDefinition | IndexDefinition
    map: PartitionMap

    @property
    def index(self) -> str | None:
        return None if self.own is self.definition else self.own.name

    @property
    def divides_collections(self) -> bool:
        """Whether a boundary may be inside an item collection."""
        return self.own is not self.definition or not self.definition.lsis


class SplitProposer:
    """Proposes splits.

    Args:
        state: The catalog.
        sampler: The load of the partitions that this node serves.
        stores: Returns the stores of the items of a table, or of the entries of an index, that this node serves.
        leads: Returns whether this node owns the catalog.
        submit: Sends a proposal to the catalog.
    """

    def __init__(
        self,
        state: PartitionState,
        sampler: LoadSampler,
        policy: SplitPolicy,
        *,
        stores: Callable[[Part], Iterable[Store]],
        leads: Callable[[], bool],
        submit: Callable[[DefineTable], None],
    ) -> None:
        self._state = state
        self._sampler = sampler
        self._policy = policy
        self._stores = stores
        self._leads = leads
        self._submit = submit
        self._since: dict[Condition, int] = {}
        self._looked_ms: int | None = None

    def look(self, now_ms: int) -> Iterator[None]:
        """Find the partitions to split, and propose the splits that are due. Pauses after each portion of items."""
        found: dict[Condition, tuple[Part, CapacityPartition, Boundary | None]] = {}
        for part, partition, boundary, reason in self._conditions(now_ms):
            if partition is None:
                yield
            elif self._state.level >= HISTORY_LEVEL and part.definition.status == "ACTIVE":
                found.setdefault((part.own.id, partition.id, reason), (part, partition, boundary))
        self._since = {condition: min(self._since.get(condition, now_ms), now_ms) for condition in found}
        divided = set[tuple[int, int]]()
        for condition, (part, partition, boundary) in found.items():
            is_due = now_ms - self._since[condition] >= self._policy.delay_ms
            is_old = partition.born_ms is None or now_ms - partition.born_ms >= self._policy.delay_ms
            if is_due and is_old and boundary is not None and condition[:2] not in divided:
                divided.add(condition[:2])
                self._propose(part, partition, boundary, condition[2])

    def _conditions(
        self, now_ms: int
    ) -> Iterator[tuple[Part, CapacityPartition | None, Boundary | None, SplitReason]]:
        """Yield the partitions that should be split, and None for a partition after each portion of items."""
        elapsed_ms = 0 if self._looked_ms is None else now_ms - self._looked_ms
        self._looked_ms = now_ms
        parts = [
            Part(table.definition, part, partition_map(table.definition, part))
            for table in list(self._state.tables.values())
            for part in parts_of(table.definition)
        ]
        parts = [part for part in parts if len(part.map.partitions) < PARTITIONS_MAX]
        for part in parts:
            for partition, boundary in self._too_few(part):
                yield part, partition, boundary, "throughput"
        for part, partition, keys in self._hot(parts, elapsed_ms):
            yield part, partition, self._divide(part, partition, keys), "heat"
        for part in parts:
            chunks: dict[int, list[WeightedKey]] = defaultdict(list)
            for _ in self._measure(part, chunks):
                yield part, None, None, "size"
            for index, keys in chunks.items():
                if sum(key.weight for key in keys) > self._policy.partition_bytes:
                    partition = part.map.partitions[index]
                    yield part, partition, self._divide(part, partition, keys), "size"

    def _too_few(self, part: Part) -> Iterator[tuple[CapacityPartition, Boundary | None]]:
        """Yield the widest partitions of a part that lacks some."""
        lacking = wanted_partitions(part.definition, part.own) - len(part.map.partitions)
        if lacking > 0 and self._leads():
            widest = sorted(part.map.partitions, key=lambda each: each.low.hash - each.high.hash)
            for partition in widest[:lacking]:
                yield partition, partition.middle

    def _hot(
        self, parts: Iterable[Part], elapsed_ms: int
    ) -> Iterator[tuple[Part, CapacityPartition, list[WeightedKey]]]:
        by_name = {(part.definition.id, part.index): part for part in parts}
        for (table_id, index, access), load in self._sampler.take().items():
            part = by_name.get((table_id, index))
            if part is None or elapsed_ms <= 0:
                continue
            most = 2 * (READ_UNITS_MAX if access is Access.READ else WRITE_UNITS_MAX)
            keys: dict[int, list[WeightedKey]] = defaultdict(list)
            for key in loaded_keys(load, part.own.id):
                keys[part.map.index_of(*key[:3])].append(key)
            for nth, found in keys.items():
                half_units = sum(key.weight for key in found) * _PERCENT * 1000
                if (
                    len(found) >= _LEAST_SAMPLES
                    and half_units >= self._policy.heat_percent * most * elapsed_ms
                ):
                    yield part, part.map.partitions[nth], found

    def _measure(self, part: Part, chunks: dict[int, list[WeightedKey]]) -> Iterator[None]:
        """Add the bytes of the items by the index of their partition, in chunks, if all exceed one partition's."""
        stores = list(self._stores(part))
        if sum(store.size for store in stores) <= self._policy.partition_bytes:
            return
        chunk_bytes = max(1, self._policy.partition_bytes // _CHUNKS)
        for store in stores:
            cursor: tuple[int, bytes, bytes] | None = None
            while True:
                count = 0
                for hash_, pk, sk, stored in store.scan(cursor):
                    _add(chunks[part.map.index_of(hash_, pk, sk)], (hash_, pk, sk), stored[1], chunk_bytes)
                    cursor, count = (hash_, pk, sk), count + 1
                    if count == _ITEMS_A_STEP:
                        break
                if count < _ITEMS_A_STEP:
                    break
                yield

    def _divide(
        self, part: Part, partition: CapacityPartition, keys: Iterable[WeightedKey]
    ) -> Boundary | None:
        return dividing_boundary(keys, partition, divides_collections=part.divides_collections)

    def _propose(
        self, part: Part, partition: CapacityPartition, boundary: Boundary, reason: SplitReason
    ) -> None:
        request: dict[str, Any] = {
            "Partition": partition.id,
            "Boundary": boundary.to_json(),
            "Reason": reason,
            "MinimumAgeMs": self._policy.delay_ms,
        }
        if part.index is not None:
            request["IndexName"] = part.index
        logger.info("capacity partition %d of %s is split: %s", partition.id, part.own.name, reason)
        body = orjson.dumps(request, option=orjson.OPT_SORT_KEYS)
        self._submit(DefineTable(SPLIT, part.definition.id, body, "", new_context(request_id="")))


class SplitTimer:
    """Lets a proposer look at its times, one portion of items in a turn of the loop."""

    def __init__(
        self, proposer: SplitProposer, policy: SplitPolicy, clock: Callable[[], int], scheduler: Scheduler
    ) -> None:
        self._proposer = proposer
        self._seconds = policy.look_ms / 1000
        self._clock = clock
        self._scheduler = scheduler
        self._look: Iterator[None] = iter(())
        self._timer: Cancellable | None = scheduler.call_later(self._seconds, self._begin)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None

    def _begin(self) -> None:
        self._look = self._proposer.look(self._clock())
        self._step()

    def _step(self) -> None:
        try:
            is_over = next(self._look, self) is self
        except Exception:
            logger.exception(
                "cannot find the capacity partitions to split; the next attempt is in %g s", self._seconds
            )
            is_over = True
        if self._timer is not None:
            self._timer = (
                self._scheduler.call_later(self._seconds, self._begin)
                if is_over
                else self._scheduler.call_later(_STEP_SECONDS, self._step)
            )


def stores_of_part(part: Part, states: Iterable[PartitionState]) -> Iterator[Store]:
    """Yield the store of a part in each of some partitions of the log."""
    for state in states:
        table = state.tables.get(part.definition.id)
        if table is not None and part.index is None:
            yield table.items
        elif table is not None and part.index in table.indexes:
            yield table.indexes[part.index].store


def _add(chunks: list[WeightedKey], key: tuple[int, bytes, bytes], size: int, chunk_bytes: int) -> None:
    """Add an item to the last chunk, or begin one if that is full."""
    if chunks and chunks[-1].weight < chunk_bytes and chunks[-1][:3] < key:
        chunks[-1] = chunks[-1]._replace(weight=chunks[-1].weight + size)
    else:
        chunks.append(WeightedKey(*key, size))
