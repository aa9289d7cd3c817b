"""Alarms on metrics, and their states: OK, ALARM and INSUFFICIENT_DATA, as in CloudWatch.

    the last EvaluationPeriods periods ──► one value or none each ──► compared with the threshold ──► state

An alarm is an item of the table `foldb-alarms`, with its state. So it is in the log, and a change of its state is a
change of an item, which a trigger delivers to a sink.
"""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from operator import ge, gt, le, lt
from typing import Any, Final

from ...model.errors import ValidationError
from ...model.lazy_dataclass import dataclass
from ...model.numbers import canonical
from ...model.tables import name_of
from ...model.values import Item
from .metrics import METRICS
from .minutes import Minute, Series
from .usage import Statistics, merged

TABLE: Final = "foldb-alarms"
KEY: Final = "AlarmName"

STATES: Final = ("OK", "ALARM", "INSUFFICIENT_DATA")
COMPARISONS: Final = {
    "GreaterThanThreshold": gt,
    "GreaterThanOrEqualToThreshold": ge,
    "LessThanThreshold": lt,
    "LessThanOrEqualToThreshold": le,
}
STATISTICS: Final = ("Sum", "Average", "Minimum", "Maximum", "SampleCount")
MISSING: Final = ("missing", "notBreaching", "breaching", "ignore")
_NAME_MAX: Final = 100
_DAY_S: Final = 86_400
_EXACT_MAX: Final = 1 << 53  # JSON has no larger whole numbers that are exact
_DIMENSIONS: Final = ("TableName", "GlobalSecondaryIndexName", "Operation")


@dataclass(frozen=True, slots=True)
class Alarm:
    """An alarm.

    Attributes:
        table, index, operation: The dimensions of the metric. Without an operation, or without a table, the metric is
            that of all of them.
        period_ms: The length of a period, a multiple of a minute.
        periods: The number of periods that are evaluated.
        datapoints: The number of them that must breach the threshold.
        missing: Whether a period without samples is skipped (`missing`), breaching or not, or keeps the state
            (`ignore`).
    """

    name: str
    metric: str
    statistic: str
    period_ms: int
    threshold: Decimal
    comparison: str
    periods: int
    datapoints: int
    missing: str = "missing"
    table: str = ""
    index: str = ""
    operation: str = ""

    @classmethod
    def of_request(cls, body: dict[str, Any]) -> "Alarm":
        """Return the alarm of a PutAlarm request.

        Raises:
            ValidationError: A member is missing or invalid.
        """
        name = _text(body, KEY)
        if not name or len(name) > _NAME_MAX or not all(each.isalnum() or each in "-_." for each in name):
            raise ValidationError(f"{KEY} is 1 to {_NAME_MAX} letters, digits, '-', '_' and '.'")
        periods = _integer(body, "EvaluationPeriods", 1)
        period_s, datapoints = _integer(body, "Period", 60), _integer(body, "DatapointsToAlarm", periods)
        if period_s % 60 or period_s * periods > _DAY_S:
            raise ValidationError(
                "Period is a multiple of 60 seconds, and all EvaluationPeriods together are at most a day"
            )
        if datapoints > periods:
            raise ValidationError("DatapointsToAlarm is at most EvaluationPeriods")
        table, index, operation = (_text(body, each, default="") for each in _DIMENSIONS)
        if index and not table:
            raise ValidationError("GlobalSecondaryIndexName needs a TableName")
        return cls(
            name,
            _one_of(body, "MetricName", METRICS),
            _one_of(body, "Statistic", STATISTICS, "Sum"),
            period_s * 1000,
            _number(body, "Threshold"),
            _one_of(body, "ComparisonOperator", COMPARISONS, "GreaterThanOrEqualToThreshold"),
            periods,
            datapoints,
            _one_of(body, "TreatMissingData", MISSING, "missing"),
            name_of(table),
            index,
            operation,
        )

    @classmethod
    def of_item(cls, item: Item) -> "Alarm":
        """Return the alarm of an item.

        Raises:
            ValidationError: The item was edited into something that is no alarm.
        """
        return cls.of_request(to_json(item))

    def to_item(self) -> Item:
        """Return the members as attributes of an item, without a state."""
        numbers = {
            "Period": self.period_ms // 1000,
            "Threshold": self.threshold,
            "EvaluationPeriods": self.periods,
            "DatapointsToAlarm": self.datapoints,
        }
        texts = {
            KEY: self.name,
            "MetricName": self.metric,
            "Statistic": self.statistic,
            "ComparisonOperator": self.comparison,
            "TreatMissingData": self.missing,
            "TableName": self.table,
            "GlobalSecondaryIndexName": self.index,
            "Operation": self.operation,
        }
        return {
            **{
                name: {"N": f"{value:f}" if isinstance(value, Decimal) else str(value)}
                for name, value in numbers.items()
            },
            **{name: {"S": value} for name, value in texts.items() if value},
        }

    def begin_ms(self, now_ms: int) -> int:
        """Return the begin of the evaluated periods, which end with the last complete one."""
        return now_ms - now_ms % self.period_ms - self.periods * self.period_ms

    def values(self, minutes: Iterable[Minute], now_ms: int) -> list[Decimal | None]:
        """Return the statistic of each evaluated period, the oldest first; None for one without samples."""
        begin_ms = self.begin_ms(now_ms)
        found: list[list[Statistics]] = [[] for _ in range(self.periods)]
        for minute in minutes:
            place = (minute.begin_ms - begin_ms) // self.period_ms
            if 0 <= place < self.periods:
                found[place] += [value for series, value in minute.values.items() if self._selects(series)]
        return [None if (one := merged(each)) is None else self._statistic(one) for each in found]

    def state(self, values: Sequence[Decimal | None], state: str) -> tuple[str, str]:
        """Return the state after these values, and its reason; `state` is the present one."""
        present = [value for value in values if value is not None]
        compare = COMPARISONS[self.comparison]
        breaching = sum(compare(value, self.threshold) for value in present)
        absent = len(values) - len(present)
        if self.missing == "ignore" and absent and breaching < self.datapoints:
            return state, ""
        if self.missing == "breaching":
            breaching += absent
        elif self.missing == "missing" and not present:
            return "INSUFFICIENT_DATA", f"no samples in {len(values)} of {len(values)} periods"
        shown = ", ".join("no samples" if value is None else _shown(value) for value in values)
        threshold = f"{self._relation()} the threshold {_shown(self.threshold)}"
        reason = f"{breaching} of {len(values)} periods are {threshold}: {shown}"
        return ("ALARM" if breaching >= self.datapoints else "OK"), reason

    def _relation(self) -> str:
        words = {"GreaterThanThreshold": "above", "LessThanThreshold": "below"}
        return words.get(
            self.comparison, "at or above" if self.comparison.startswith("Greater") else "at or below"
        )

    def _selects(self, series: Series) -> bool:
        return (
            series.metric == self.metric
            and self.table in ("", series.table)
            and self.operation in ("", series.operation)
            and (self.index == series.gsi or not self.table)
        )

    def _statistic(self, value: Statistics) -> Decimal:
        if self.statistic == "SampleCount":
            return Decimal(value.samples)
        number = {"Minimum": value.minimum, "Maximum": value.maximum}.get(self.statistic, value.sum)
        divisor = METRICS[self.metric].scale * (value.samples if self.statistic == "Average" else 1)
        return Decimal(number) / divisor


def _shown(value: Decimal) -> str:
    return canonical(f"{value:.3f}")


def to_json(item: Item) -> dict[str, Any]:
    """Return the attributes of an alarm as plain JSON; a whole number is an integer."""
    return {name: _plain(value) for name, value in item.items()}


def _plain(value: Any) -> Any:
    if "N" not in value:
        return next(iter(value.values()))
    number = float(value["N"])
    return int(number) if number.is_integer() and abs(number) < _EXACT_MAX else number


def _text(body: dict[str, Any], name: str, default: str | None = None) -> str:
    value = body.get(name, default)
    if not isinstance(value, str):
        raise ValidationError(f"{name} is a text")
    return value


def _one_of(body: dict[str, Any], name: str, words: Iterable[str], default: str | None = None) -> str:
    value = _text(body, name, default)
    if value not in words:
        raise ValidationError(f"{name} is one of {', '.join(words)}")
    return value


def _integer(body: dict[str, Any], name: str, default: int) -> int:
    value = body.get(name, default)
    if type(value) is not int or value < 1:
        raise ValidationError(f"{name} is a whole number from 1 on")
    return value


def _number(body: dict[str, Any], name: str) -> Decimal:
    value = body.get(name)
    try:
        return Decimal(canonical("" if isinstance(value, bool) else str(value)))
    except ValidationError:
        raise ValidationError(f"{name} is a number that an item can hold") from None
