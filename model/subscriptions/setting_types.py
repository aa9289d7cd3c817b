"""Types of settings: each validates a value from a request and returns the form that the log keeps.

`str()` of a type is its range of values, for help texts and the reference page.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, Protocol

from ..durations import duration
from ..errors import ValidationError
from ..lazy_dataclass import dataclass
from ..sequence_numbers import parse_numbers

INVALID: Final = "One or more parameter values were invalid: "
EVENTS: Final = ("INSERT", "MODIFY", "REMOVE", "READ")
STARTS: Final = ("NOW", "HORIZON", "BEGINNING", "TIME", "NUMBERS", "SNAPSHOT")
TABLES_MAX: Final = 100
PATTERNS_MAX: Final = 10
EXPRESSION_MAX: Final = 4096
INT_MAX: Final = 2**53
"""The largest integer that every JSON reader keeps exactly."""
UNLIMITED: Final = -1

_TABLE_NAME: Final = re.compile(r"[a-zA-Z0-9_.-]{1,255}")
_SECONDS: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,3})?")


class SettingType(Protocol):
    """Validates the values of a setting."""

    def check(self, member: str, value: Any) -> Any:
        """Return the value as the log keeps it.

        Raises:
            ValidationError: The value is outside the type's range; the message begins with `member`.
        """
        ...


def invalid(problem: str) -> ValidationError:
    """Return the error for an invalid setting."""
    return ValidationError(INVALID + problem)


def milliseconds(seconds: int | str) -> int | None:
    """Return a checked `Seconds` value in milliseconds; None for -1, which means no limit.

    >>> milliseconds("0.25"), milliseconds(60), milliseconds(-1)
    (250, 60000, None)
    """
    if isinstance(seconds, int):
        return None if seconds == UNLIMITED else seconds * 1000
    integer, _, fraction = seconds.partition(".")
    return int(integer) * 1000 + int(fraction.ljust(3, "0"))


@dataclass(frozen=True, slots=True)
class Int:
    """An integer within bounds."""

    least: int
    most: int

    def __str__(self) -> str:
        if self.most == INT_MAX:
            return f"at least {self.least:,}"
        return f"{self.least:,} to {self.most:,}"

    def check(self, member: str, value: Any) -> int:
        """Return the integer; a bool is none."""
        if type(value) is not int or not self.least <= value <= self.most:
            raise invalid(f"{member} must be an integer from {self.least:,} to {self.most:,}")
        return value


@dataclass(frozen=True, slots=True)
class Seconds:
    """A duration in seconds, to the millisecond: an integer, or decimal text.

    Attributes:
        unlimited: -1 is valid, and means no limit.
    """

    least: int
    most: int
    unlimited: bool = False

    def __str__(self) -> str:
        never = ", or never" if self.unlimited else ""
        least = f"{duration(self.least * 1000)} to" if self.least else "up to"
        return f"{least} {duration(self.most * 1000)}{never}"

    def check(self, member: str, value: Any) -> int | str:
        """Return the shortest spelling, so that equal durations have equal bytes."""
        if self.unlimited and type(value) is int and value == UNLIMITED:
            return UNLIMITED
        text = str(value) if type(value) is int else value
        if isinstance(text, str) and _SECONDS.fullmatch(text):
            shortest = _shortest(text)
            if self.least * 1000 <= (milliseconds(shortest) or 0) <= self.most * 1000:
                return shortest
        unlimited = ", or -1 for no limit" if self.unlimited else ""
        raise invalid(
            f"{member} must be from {self.least:,} to {self.most:,} seconds, "
            f'an integer or text such as "0.25"{unlimited}'
        )


def _shortest(text: str) -> int | str:
    integer, _, fraction = text.partition(".")
    fraction = fraction.rstrip("0")
    return f"{int(integer)}.{fraction}" if fraction else int(integer)


@dataclass(frozen=True, slots=True)
class Bool:
    """True or false."""

    def __str__(self) -> str:
        return "true or false"

    def check(self, member: str, value: Any) -> bool:
        if not isinstance(value, bool):
            raise invalid(f"{member} must be true or false")
        return value


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of some words."""

    words: tuple[str, ...]

    def __str__(self) -> str:
        return ", ".join(self.words)

    def check(self, member: str, value: Any) -> str:
        if not isinstance(value, str) or value not in self.words:
            raise invalid(f"{member} must be one of {self}")
        return value


@dataclass(frozen=True, slots=True)
class SomeOf:
    """A list of some words, without duplicates and in the order of `words`."""

    words: tuple[str, ...]
    least: int = 0

    def __str__(self) -> str:
        return f"a list of {', '.join(self.words)}"

    def check(self, member: str, value: Any) -> list[str]:
        """Return the words in their order."""
        if (
            not isinstance(value, list)
            or len(value) < self.least
            or any(word not in self.words for word in value)
        ):
            raise invalid(f"{member} must be {self}")
        return [word for word in self.words if word in value]


@dataclass(frozen=True, slots=True)
class Text:
    """A text that is not empty, of at most `most` characters."""

    most: int

    def __str__(self) -> str:
        return f"1 to {self.most:,} characters"

    def check(self, member: str, value: Any) -> str:
        if not isinstance(value, str) or not 0 < len(value) <= self.most:
            raise invalid(f"{member} must be a text of {self}")
        return value


@dataclass(frozen=True, slots=True)
class Texts:
    """A list of texts."""

    def __str__(self) -> str:
        return "a list of texts"

    def check(self, member: str, value: Any) -> list[str]:
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise invalid(f"{member} must be {self}")
        return value


@dataclass(frozen=True, slots=True)
class TextsByName:
    """An object whose members are texts."""

    def __str__(self) -> str:
        return "an object of texts"

    def check(self, member: str, value: Any) -> dict[str, str]:
        if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
            raise invalid(f"{member} must be {self}")
        return value


@dataclass(frozen=True, slots=True)
class TableName:
    """The name of a table."""

    def __str__(self) -> str:
        return "the name of a table"

    def check(self, member: str, value: Any) -> str:
        if not isinstance(value, str) or not _TABLE_NAME.fullmatch(value):
            raise invalid(f"{member} must be {self}")
        return value


@dataclass(frozen=True, slots=True)
class TableNames:
    """Names of different tables."""

    def __str__(self) -> str:
        return f"1 to {TABLES_MAX} names of tables"

    def check(self, member: str, value: Any) -> list[str]:
        if not isinstance(value, list) or not 1 <= len(value) <= TABLES_MAX:
            raise invalid(f"{member} must be a list of {self}")
        names = [TableName().check(member, name) for name in value]
        if len(set(names)) < len(names):
            raise invalid(f"{member} names a table twice")
        return names


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """A sink: an object with a Kind, whose other members the kind validates (streams/sinks)."""

    def __str__(self) -> str:
        return "an object with a Kind"

    def check(self, member: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict) or not isinstance(value.get("Kind"), str):
            raise invalid(f"{member} must be {self}")
        return value


@dataclass(frozen=True, slots=True)
class StartPosition:
    """The position from which a subscription reads, or reads again after a reset."""

    def __str__(self) -> str:
        return ", ".join(STARTS)

    def check(self, member: str, value: Any) -> dict[str, Any]:
        """Return the start without members that belong to other kinds of start."""
        start = _object(member, value, "At", "Time", "Numbers")
        at = OneOf(STARTS).check(f"{member}.At", start.get("At"))
        checked: dict[str, Any] = {"At": at}
        if at == "TIME":
            checked["Time"] = _time(f"{member}.Time", start.get("Time"))
        elif "Time" in start:
            raise invalid(f"{member}.Time is for a start at TIME")
        if at == "NUMBERS" or "Numbers" in start:
            checked["Numbers"] = _sequence_numbers(f"{member}.Numbers", start.get("Numbers"))
        return checked


@dataclass(frozen=True, slots=True)
class EndPosition:
    """The position at which a subscription stops."""

    def __str__(self) -> str:
        return "a Time, or Numbers"

    def check(self, member: str, value: Any) -> dict[str, Any]:
        end = _object(member, value, "Time", "Numbers")
        if len(end) != 1:
            raise invalid(f"{member} must have either Time or Numbers")
        if "Time" in end:
            return {"Time": _time(f"{member}.Time", end["Time"])}
        return {"Numbers": _sequence_numbers(f"{member}.Numbers", end["Numbers"])}


@dataclass(frozen=True, slots=True)
class FilterExpression:
    """A condition over OLD and NEW, with its names and values; streams/delivery/filter.py parses it."""

    def __str__(self) -> str:
        return f"a condition of at most {EXPRESSION_MAX:,} characters"

    def check(self, member: str, value: Any) -> dict[str, Any]:
        """Return the filter without members that are null."""
        names, values = "ExpressionAttributeNames", "ExpressionAttributeValues"
        condition = _object(member, value, "Expression", names, values)
        expression = Text(EXPRESSION_MAX).check(f"{member}.Expression", condition.get("Expression"))
        checked: dict[str, Any] = {"Expression": expression}
        for each in (names, values):
            if condition.get(each) is not None:
                if not isinstance(condition[each], dict):
                    raise invalid(f"{member}.{each} must be an object")
                checked[each] = condition[each]
        return checked


@dataclass(frozen=True, slots=True)
class FilterPatterns:
    """EventBridge patterns, as Lambda's FilterCriteria holds them."""

    def __str__(self) -> str:
        return f"1 to {PATTERNS_MAX} patterns"

    def check(self, member: str, value: Any) -> dict[str, Any]:
        filters = _object(member, value, "Filters").get("Filters")
        if not isinstance(filters, list) or not 1 <= len(filters) <= PATTERNS_MAX:
            raise invalid(f"{member}.Filters must be a list of {self}")
        pattern = Text(EXPRESSION_MAX)
        patterns = [_object(f"{member}.Filters", each, "Pattern").get("Pattern") for each in filters]
        return {
            "Filters": [{"Pattern": pattern.check(f"{member}.Filters.Pattern", each)} for each in patterns]
        }


@dataclass(frozen=True, slots=True)
class BackoffRange:
    """The first and the longest pause between retries."""

    first: int
    most: int
    limit: Seconds

    def __str__(self) -> str:
        return f"{self.limit}, as FIRST..MOST"

    def check(self, member: str, value: Any) -> dict[str, Any]:
        """Return both pauses, with the default of a pause that is absent."""
        pauses = _object(member, value, "First", "Most")
        defaults = {"First": self.first, "Most": self.most}
        checked = {
            each: self.limit.check(f"{member}.{each}", pauses.get(each, default))
            for each, default in defaults.items()
        }
        if (milliseconds(checked["First"]) or 0) > (milliseconds(checked["Most"]) or 0):
            raise invalid(f"{member}.First must not be above {member}.Most")
        return checked


def _object(member: str, value: Any, *allowed: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise invalid(f"{member} must be an object")
    for each in value:
        if each not in allowed:
            raise invalid(f"{member} has no member {each}")
    return value


def _time(member: str, value: Any) -> int:
    return Int(0, INT_MAX).check(member, value)


def _sequence_numbers(member: str, value: Any) -> dict[str, str]:
    try:
        parse_numbers(value)
    except ValueError:
        raise invalid(f"{member} must map each partition to a sequence number, both as text") from None
    return dict(value)
