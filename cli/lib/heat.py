"""The heat of tables, as the server measures it: its parts and layers, rates, and the map of time and key range."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from typer import colors, style

from ...model.capacity_partitions import READ_UNITS_MAX, WRITE_UNITS_MAX
from ...model.keys import SLOTS
from ...model.lazy_dataclass import dataclass
from .output import cell, time_text, units_text, visible
from .session import Session
from .values import plain

LAYERS: Final = ("Reads", "Writes", "Throttles")
PARTITION_LIMITS: Final = {"Reads": READ_UNITS_MAX, "Writes": WRITE_UNITS_MAX}
"""The units a second that a capacity partition serves at most."""

_NEAR_LIMIT: Final = Decimal("0.8")

ROWS: Final = 64  # of the grid of a layer
_SPLIT: Final = "┼"
_SHADES: Final = " ·░▒▓█"
_SHADE_BOUNDS: Final = (1, 4, 8, 12)  # sixteenths of the largest value
_COLOURS: Final = {"Reads": colors.CYAN, "Writes": colors.YELLOW, "Throttles": colors.RED}


@dataclass(frozen=True, slots=True)
class HeatLayer:
    """One layer of a table or index: its time buckets and its heaviest keys.

    Attributes:
        name: Reads, Writes or Throttles.
        total: The units of all keys, or the throttled requests; older ones count less.
        error: The most by which the count of a key is too small.
        keys: The heaviest keys: plain value, count and slot.
        buckets: The values of each row by the time of the bucket, in milliseconds since 1970.
        peak: The units of the busiest time bucket, if there is one bucket for a longer time.
    """

    name: str
    total: Decimal
    error: Decimal
    keys: list[tuple[Any, Decimal, int]]
    buckets: dict[int, list[Decimal]]
    peak: Decimal | None = None

    @classmethod
    def of(cls, name: str, data: Mapping[str, Any]) -> "HeatLayer":
        """Return a layer of the server's answer."""
        keys = [(key_value(each["Key"]), Decimal(each["Count"]), each["Slot"]) for each in data["Keys"]]
        buckets = {each["Time"]: [Decimal(value) for value in each["Rows"]] for each in data["Buckets"]}
        return cls(name, Decimal(data["Total"]), Decimal(data["Error"]), keys, buckets)

    @property
    def sum(self) -> Decimal:
        """The sum of all time buckets."""
        return _total(each for rows in self.buckets.values() for each in rows)

    def row_sums(self) -> list[Decimal]:
        """Return the sum of each row."""
        columns = zip(*self.buckets.values(), strict=True)
        return [_total(column) for column in columns] or [Decimal()] * ROWS

    def share(self, count: Decimal) -> Decimal:
        """Return the share of a key in the traffic of the layer."""
        return round(count / self.total, 3) if self.total else Decimal()


@dataclass(frozen=True, slots=True)
class HeatPart:
    """A measured table or global index.

    Attributes:
        provisioned: The provisioned units a second by layer; none on demand.
        partitions: The first slots of its capacity partitions.
        splits: The slot and the time of each split of a capacity partition.
    """

    table: str
    index: str | None
    provisioned: dict[str, int]
    partitions: list[int]
    splits: list[tuple[int, int]]
    layers: dict[str, HeatLayer]

    @property
    def names(self) -> dict[str, str]:
        """The first members of a row about this part."""
        return {"table": self.table, "index": self.index or ""}

    @property
    def title(self) -> str:
        return self.table if self.index is None else f"{self.table}, index {self.index}"


@dataclass(frozen=True, slots=True)
class Heat:
    """The heat of one table, or of all that are measured, at one time."""

    time_ms: int
    bucket_ms: int
    parts: list[HeatPart]


def read_heat(session: Session, **request: Any) -> Heat:
    """Request the heat of tables. A node that does not answer is named on stderr."""
    answer = session.client.admin("Heat", request)
    for node in answer["Unreachable"]:
        session.output.warn(f"{node} did not answer: its requests are not included")
    parts = [
        HeatPart(
            each["TableName"],
            each.get("IndexName"),
            each["Provisioned"] or {},
            [partition["Slot"] for partition in each["CapacityPartitions"]],
            [(split["Slot"], split["Time"]) for split in each["Splits"]],
            {name: HeatLayer.of(name, each[name]) for name in LAYERS},
        )
        for each in answer["Parts"]
    ]
    return Heat(answer["Time"], answer["BucketMs"], parts)


def _total(values: Iterable[Decimal]) -> Decimal:
    return sum(values, Decimal())


def key_value(key: Mapping[str, Any]) -> Any:
    """Return the plain value of a partition key, or its attributes if there are several."""
    values = {name: plain(value) for name, value in key.items()}
    return next(iter(values.values())) if len(values) == 1 else values


def peak_rate(layer: HeatLayer, bucket_ms: int) -> Decimal:
    """Return the units a second of the busiest time bucket."""
    peak = layer.peak
    if peak is None:
        peak = max(map(_total, layer.buckets.values()), default=Decimal())
    return peak * 1000 / bucket_ms


def draw_map(part: HeatPart, layer: HeatLayer, heat: Heat, *, width: int, height: int) -> Iterator[str]:
    """Draw a map: a column for each time bucket, a line for each key range; the darkest cell is the largest."""
    columns = max(10, min(60, width - 16))
    newest = heat.time_ms // heat.bucket_ms
    times = [bucket * heat.bucket_ms for bucket in range(newest - columns + 1, newest + 1)]
    lines = next((each for each in (64, 32) if each + 8 <= height), 16)
    merged = {time: _merged(rows, lines) for time, rows in layer.buckets.items()}
    cells = [[merged[time][line] if time in merged else Decimal() for time in times] for line in range(lines)]
    largest = max(map(max, cells))
    total = _total(value for values in cells for value in values)
    unit = "requests" if layer.name == "Throttles" else "units"
    seconds = heat.bucket_ms // 1000
    yield (
        f"{part.title}: {units_text(round(total, 1))} {unit} of {layer.name.lower()}; "
        f"{_SHADES[-1]} is {units_text(round(largest, 1))} in {seconds} s"
    )
    starts = {slot * lines // SLOTS for slot in part.partitions[1:]}
    splits = {(slot * lines // SLOTS, time // heat.bucket_ms * heat.bucket_ms) for slot, time in part.splits}
    for line, values in enumerate(cells):
        shown = "".join(
            _SPLIT if (line, time) in splits else _shade(value, largest)
            for time, value in zip(times, values, strict=True)
        )
        share = _total(values) * 100 / total if total else Decimal()
        border = "├" if line in starts else "│"
        percent = f" {share:3.0f} %" if share >= 5 else ""
        yield f"{line * SLOTS // lines:5} {border}{style(shown, fg=_COLOURS[layer.name])}│{percent}"
    first, last = (time_text(time)[11:19] for time in (times[0], times[-1]))
    yield f" slot  {first}{last.rjust(columns - len(first))}"
    named = [f"{visible(cell(key))} {layer.share(count):.1%}" for key, count, _ in layer.keys[:3]]
    yield f"       heaviest keys: {', '.join(named)}"


def _merged(rows: Sequence[Decimal], lines: int) -> list[Decimal]:
    size = ROWS // lines
    return [_total(rows[line * size : (line + 1) * size]) for line in range(lines)]


def _shade(value: Decimal, largest: Decimal) -> str:
    """Return the character of a value; any value above zero is visible."""
    if not value:
        return _SHADES[0]
    return _SHADES[1 + bisect_right(_SHADE_BOUNDS, value * 16 / largest)]


def partition_loads(part: HeatPart, layer: HeatLayer) -> list[Decimal]:
    """Return the share of each capacity partition, as exactly as rows of the grid can tell."""
    loads = [Decimal()] * len(part.partitions)
    sums = layer.row_sums()
    total = _total(sums)
    for row, value in enumerate(sums):
        loads[partition_of(part, row * SLOTS // ROWS)] += value / total if total else Decimal()
    return loads


def partition_of(part: HeatPart, slot: int) -> int:
    """Return the index of the capacity partition with a slot."""
    return sum(first <= slot for first in part.partitions) - 1


def hottest_share(part: HeatPart, layer: HeatLayer, key: tuple[Any, Decimal, int], shards: int) -> Decimal:
    """Return the share of the hottest capacity partition if a key is divided into a number of keys.

    The new keys are spread evenly, and the hottest of the other partitions gets as many as any.
    """
    loads = partition_loads(part, layer)
    if shards > 1:
        share = layer.share(key[1])
        own = partition_of(part, key[2])
        loads[own] = max(Decimal(), loads[own] - share)
        on_one = -(-shards // len(loads))
        return round(min(Decimal(1), max(loads) + share * on_one / shards), 3)
    return round(max(loads), 3)


def fits(part: HeatPart, layer: HeatLayer, key: Any, rate: Decimal, shards: int) -> bool:
    """Return whether a capacity partition serves the rate of a key, or of a number of keys in place of it.

    The rate has only admitted requests, so it is never far above the limit: a key that was throttled near it has more.
    """
    limit = PARTITION_LIMITS[layer.name]
    was_throttled = shards == 1 and any(each[0] == key for each in part.layers["Throttles"].keys)
    return rate <= limit and not (was_throttled and rate >= limit * _NEAR_LIMIT)
