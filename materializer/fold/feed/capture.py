"""Capture periods: when the changes of a table are captured, in this partition.

    a definition with a stream, or watched ──► a period begins ──► a definition without, or a deletion ──► it ends
                                               begun                                                       ended

Each partition follows the definitions in its own log, so `begun` and `ended` are sequence numbers of that partition:
a change is in a period if its sequence number is between them. Periods that have ended are kept, also those of
deleted tables, because their changes can be read for a while; only the last ENDED_KEPT of them are kept.

A split of a capacity partition of the table divides a shard of its stream too, in the partition of the log that has
the keys on both sides of the boundary. The period has these splits, and the shards follow from them (streams/feed/).
"""

from dataclasses import fields, replace
from typing import Any, Final, NamedTuple, TypeAlias

from ....model.capacity_partitions import Boundary
from ....model.key_schema import KeySchema
from ....model.lazy_dataclass import dataclass
from ....model.tables import Stream, TableDefinition

ENDED_KEPT = 1024
WATCHED: Final = 0
"""The label of a period for subscriptions only. A stream's label is the time at which it was enabled."""


class ShardSplit(NamedTuple):
    """A division of a stream's shards at a boundary, by the command with a sequence number, at its log time."""

    sequence_number: int
    time_ms: int
    boundary: Boundary

    def to_json(self) -> dict[str, Any]:
        return {
            "sequence_number": str(self.sequence_number),
            "time_ms": self.time_ms,
            "boundary": self.boundary.to_json(),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "ShardSplit":
        return cls(int(data["sequence_number"]), data["time_ms"], Boundary.from_json(data["boundary"]))


@dataclass(frozen=True, slots=True)
class CapturePeriod:
    """A period in which the changes of a table are captured.

    Attributes:
        label: The `created_ms` of the stream; or WATCHED.
        name: The table's name.
        view: The stream's view type; None for WATCHED.
        shard_ms: The age at which the stream's shards are closed; 0 for WATCHED.
        begun: The sequence number of the command that opened the period in this partition.
        ended: The sequence number of the command that closed it, at log time `ended_ms`; None while it is open.
        splits: The splits of the stream's shards in this partition, in order.
    """

    table: int
    label: int
    name: str
    key: KeySchema
    view: str | None
    shard_ms: int
    begun: int
    ended: int | None = None
    ended_ms: int | None = None
    splits: tuple[ShardSplit, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether new changes belong to the period."""
        return self.ended is None

    def holds(self, sequence_number: int) -> bool:
        """Whether the change with that sequence number belongs to the period."""
        return self.begun < sequence_number and (self.ended is None or sequence_number < self.ended)

    def is_over(self, before_ms: int) -> bool:
        """Whether all changes of the period are older than that log time."""
        return self.ended_ms is not None and self.ended_ms < before_ms

    def to_json(self) -> dict[str, Any]:
        """Serialize every field, canonically, for the state dump. `splits` is left out if there are none."""
        numbers = {"begun": str(self.begun), "ended": None if self.ended is None else str(self.ended)}
        written = {
            **{each.name: getattr(self, each.name) for each in fields(self)},
            **numbers,
            "key": self.key.to_json(),
            "splits": [split.to_json() for split in self.splits],
        }
        if not self.splits:
            del written["splits"]
        return written

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "CapturePeriod":
        """Deserialize the result of `to_json`."""
        ended = data["ended"]
        return cls(
            **{
                **data,
                "key": KeySchema.from_json(data["key"]),
                "begun": int(data["begun"]),
                "ended": None if ended is None else int(ended),
                "splits": tuple(ShardSplit.from_json(each) for each in data.get("splits", ())),
            }
        )


CapturePeriods: TypeAlias = dict[int, list[CapturePeriod]]
"""By table id, in the order in which they began; a table that never had one has no key here."""


def update_periods(
    periods: CapturePeriods,
    table_id: int,
    definition: TableDefinition | None,
    sequence_number: int,
    time_ms: int,
) -> None:
    """Open and close periods of a table for its new definition, at that sequence number; None if it is deleted."""
    wanted = {} if definition is None else _wanted(definition)
    present = periods.get(table_id, [])
    open_labels = {period.label for period in present if period.is_open}
    if open_labels == wanted.keys():
        return
    kept = [
        replace(period, ended=sequence_number, ended_ms=time_ms)
        if period.is_open and period.label not in wanted
        else period
        for period in present
    ]
    if definition is not None:
        for label, (view, shard_ms) in wanted.items():
            if label not in open_labels:
                kept.append(
                    CapturePeriod(
                        table_id,
                        label,
                        definition.name,
                        definition.key,
                        view,
                        shard_ms,
                        begun=sequence_number,
                    )
                )
    periods[table_id] = kept
    _forget_oldest(periods)


def divide_shards(periods: CapturePeriods, table_id: int, split: ShardSplit) -> None:
    """Divide the shards of a table's open stream."""
    if table_id in periods:
        periods[table_id] = [
            replace(period, splits=(*period.splits, split))
            if period.is_open and period.label != WATCHED
            else period
            for period in periods[table_id]
        ]


def captured_stream(definition: TableDefinition) -> Stream | None:
    """Return the enabled stream of a table.

    A stream without a shard age was enabled below level 3, which captured nothing.
    """
    stream = definition.stream
    return stream if stream is not None and stream.enabled and stream.shard_ms else None


def _wanted(definition: TableDefinition) -> dict[int, tuple[str | None, int]]:
    """Return the periods that a definition requires to be open: by label, view type and shard age."""
    wanted: dict[int, tuple[str | None, int]] = {}
    if definition.watched:
        wanted[WATCHED] = (None, 0)
    stream = captured_stream(definition)
    if stream is not None:
        wanted[stream.created_ms] = (stream.view, stream.shard_ms)
    return wanted


def _forget_oldest(periods: CapturePeriods) -> None:
    """Keep the last ENDED_KEPT of the periods that have ended."""
    ended = [period for each in periods.values() for period in each if period.ended is not None]
    if len(ended) <= ENDED_KEPT:
        return
    for period in sorted(ended, key=lambda one: (one.ended, one.table, one.label))[:-ENDED_KEPT]:
        periods[period.table].remove(period)
        if not periods[period.table]:
            del periods[period.table]
