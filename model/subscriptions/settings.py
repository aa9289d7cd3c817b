"""What may be asked of a subscription: every setting with its default, in Lambda's words where Lambda has them.

    request ──► check_asked ──► log ──► check ──► settings: complete, in one spelling

check(settings) is settings again. The fold uses `check`, so what it lets through changes only with a level of the log;
whoever is asked uses `check_asked`, which may become stricter from one release to the next.

What is checked is what every kind of subscription has in common. Whether a sink can be made of `Sink`, or an
expression of `Filter`, is found by who makes them. Seconds are an integer, or text such as "0.25": never a float.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import orjson

from ..errors import ValidationError

Check: TypeAlias = Callable[[str, Any], Any]
"""Takes a member's name and what it was given; returns how it is kept, or raises."""

INVALID: Final = "One or more parameter values were invalid: "
EVENTS: Final = ("INSERT", "MODIFY", "REMOVE", "READ")
STARTS: Final = ("NOW", "HORIZON", "BEGINNING", "TIME", "NUMBERS", "SNAPSHOT")
TABLES_MAX: Final = 100
BYTES_MAX: Final = 64 * 1024
PATTERNS_MAX: Final = 10
NAME_RULE: Final = "of 1 to 128 letters, digits, dots, hyphens and underscores"

_NAME: Final = re.compile(r"[a-zA-Z0-9_.-]{1,128}")
_TABLE_NAME: Final = re.compile(r"[a-zA-Z0-9_.-]{1,255}")
_SECONDS: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,3})?")
_NUMBER: Final = re.compile(r"[0-9]{1,40}")
_PARTITION: Final = re.compile(r"0|[1-9][0-9]{0,4}")


def check(name: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """All settings of the subscription `name`, which `request` gives some of.

    Raises:
        ValidationError: Something is missing, unknown, or not what it may be.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise invalid(f"the name of a subscription is {NAME_RULE}")
    for member in request:
        if member not in _CHECKS:
            raise invalid(f"a subscription has no setting {member}")
    given = {**_DEFAULTS, "DeadLetterTable": f"{name}.dlq", **request}
    for member in ("TableNames", "Sink"):
        if given.get(member) is None:
            raise invalid(f"{member} is missing")
    settings = {member: check(member, given[member]) for member, check in _CHECKS.items()}
    if settings["DeadLetterTable"] in settings["TableNames"]:
        raise invalid("a subscription cannot read the table of its own dead letters")
    if len(orjson.dumps(settings)) > BYTES_MAX:
        raise invalid(f"all settings of a subscription may have {BYTES_MAX:,} bytes together")
    return settings


def check_asked(name: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """As `check`, without what logs hold from before and nobody is to ask for any more.

    Raises:
        ValidationError: As `check`, or it is such.
    """
    settings = check(name, request)
    if name.startswith("."):
        raise invalid(f"the name of a subscription is {NAME_RULE}, and a dot is not its first")
    if not milliseconds(settings["TimeoutSeconds"]):
        raise invalid("TimeoutSeconds must be above 0")
    return settings


def milliseconds(seconds: int | str) -> int | None:
    """A setting in seconds, as `check` keeps it; None for -1, which stands for no limit.

    >>> milliseconds("0.25"), milliseconds(60), milliseconds(-1)
    (250, 60000, None)
    """
    if isinstance(seconds, int):
        return None if seconds == -1 else seconds * 1000
    whole, _, part = seconds.partition(".")
    return int(whole) * 1000 + int(part.ljust(3, "0"))


def invalid(what: str) -> ValidationError:
    """The error that says so."""
    return ValidationError(INVALID + what)


# One check for each shape that a setting has


def _whole(least: int, most: int) -> Check:
    def check(member: str, value: Any) -> int:
        if type(value) is not int or not least <= value <= most:
            raise invalid(f"{member} must be an integer from {least:,} to {most:,}")
        return value

    return check


def _seconds(least: int, most: int, *, unlimited: bool = False) -> Check:
    def check(member: str, value: Any) -> int | str:
        if unlimited and type(value) is int and value == -1:
            return -1
        text = str(value) if type(value) is int else value
        if isinstance(text, str) and _SECONDS.fullmatch(text):
            kept = _shortest(text)
            if least * 1000 <= (milliseconds(kept) or 0) <= most * 1000:
                return kept
        none = ", or -1 for no limit" if unlimited else ""
        raise invalid(
            f'{member} must be from {least:,} to {most:,} seconds, an integer or text such as "0.25"{none}'
        )

    return check


def _shortest(text: str) -> int | str:
    whole, _, part = text.partition(".")
    part = part.rstrip("0")
    return f"{int(whole)}.{part}" if part else int(whole)


def _flag(member: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise invalid(f"{member} must be true or false")
    return value


def _one_of(*words: str) -> Check:
    def check(member: str, value: Any) -> str:
        if value not in words:
            raise invalid(f"{member} must be one of {', '.join(words)}")
        return str(value)

    return check


def _some_of(*words: str, least: int = 0) -> Check:
    """A list without repetitions; it is kept in the order of `words`."""

    def check(member: str, value: Any) -> list[str]:
        if not isinstance(value, list) or len(value) < least or any(each not in words for each in value):
            raise invalid(f"{member} must be a list of {', '.join(words)}")
        return [word for word in words if word in value]

    return check


def _text(most: int) -> Check:
    def check(member: str, value: Any) -> str:
        if not isinstance(value, str) or not 0 < len(value) <= most:
            raise invalid(f"{member} must be a text of 1 to {most:,} characters")
        return value

    return check


def _or_none(check: Check) -> Check:
    return lambda member, value: None if value is None else check(member, value)


# Settings that have a shape of their own


def _table_name(member: str, value: Any) -> str:
    if not isinstance(value, str) or not _TABLE_NAME.fullmatch(value):
        raise invalid(f"{member} must be the name of a table")
    return value


def _table_names(member: str, value: Any) -> list[str]:
    if not isinstance(value, list) or not 1 <= len(value) <= TABLES_MAX:
        raise invalid(f"{member} must be a list of 1 to {TABLES_MAX} names of tables")
    names = [_table_name(member, name) for name in value]
    if len(set(names)) < len(names):
        raise invalid(f"{member} names a table twice")
    return names


def _members(member: str, value: Any, *allowed: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise invalid(f"{member} must be an object")
    for each in value:
        if each not in allowed:
            raise invalid(f"{member} has no member {each}")
    return value


def _sink(member: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or not isinstance(value.get("Kind"), str):
        raise invalid(f"{member} must be an object with a Kind")
    return value


def _numbers(member: str, value: Any) -> dict[str, str]:
    whole = isinstance(value, dict) and all(
        _PARTITION.fullmatch(partition) and isinstance(number, str) and _NUMBER.fullmatch(number)
        for partition, number in value.items()
    )
    if not whole:
        raise invalid(f"{member} must say of each partition a sequence number, both as text")
    return dict(value)


def checked_start(member: str, value: Any) -> dict[str, Any]:
    """Where a subscription begins, and begins anew."""
    given = _members(member, value, "At", "Time", "Numbers")
    at = _one_of(*STARTS)(f"{member}.At", given.get("At"))
    kept: dict[str, Any] = {"At": at}
    if at == "TIME":
        kept["Time"] = _time(f"{member}.Time", given.get("Time"))
    elif "Time" in given:
        raise invalid(f"{member}.Time is for a start at TIME")
    if at == "NUMBERS" or "Numbers" in given:
        kept["Numbers"] = _numbers(f"{member}.Numbers", given.get("Numbers"))
    return kept


def _end(member: str, value: Any) -> dict[str, Any]:
    given = _members(member, value, "Time", "Numbers")
    if len(given) != 1:
        raise invalid(f"{member} must have either Time or Numbers")
    if "Time" in given:
        return {"Time": _time(f"{member}.Time", given["Time"])}
    return {"Numbers": _numbers(f"{member}.Numbers", given["Numbers"])}


def _filter(member: str, value: Any) -> dict[str, Any]:
    names, values = "ExpressionAttributeNames", "ExpressionAttributeValues"
    given = _members(member, value, "Expression", names, values)
    kept: dict[str, Any] = {"Expression": _text(4096)(f"{member}.Expression", given.get("Expression"))}
    for each in (names, values):
        if given.get(each) is not None:
            if not isinstance(given[each], dict):
                raise invalid(f"{member}.{each} must be an object")
            kept[each] = given[each]
    return kept


def _criteria(member: str, value: Any) -> dict[str, Any]:
    filters = _members(member, value, "Filters").get("Filters")
    if not isinstance(filters, list) or not 1 <= len(filters) <= PATTERNS_MAX:
        raise invalid(f"{member}.Filters must be a list of 1 to {PATTERNS_MAX} patterns")
    patterns = [_members(f"{member}.Filters", each, "Pattern").get("Pattern") for each in filters]
    return {"Filters": [{"Pattern": _text(4096)(f"{member}.Filters.Pattern", each)} for each in patterns]}


def _backoff(member: str, value: Any) -> dict[str, Any]:
    given = _members(member, value, "First", "Most")
    kept = {
        each: _seconds(0, 3600)(f"{member}.{each}", given.get(each, default))
        for each, default in _BACKOFF.items()
    }
    if (milliseconds(kept["First"]) or 0) > (milliseconds(kept["Most"]) or 0):
        raise invalid(f"{member}.First must not be above {member}.Most")
    return kept


_time: Final = _whole(0, 2**53)
_BACKOFF: Final = {"First": 1, "Most": 60}
_CHECKS: Final[dict[str, Check]] = {
    "TableNames": _table_names,
    "Sink": _sink,
    "Start": checked_start,
    "End": _or_none(_end),
    "Events": _some_of(*EVENTS, least=1),
    "Filter": _or_none(_filter),
    "FilterCriteria": _or_none(_criteria),
    "BatchSize": _whole(1, 10_000),
    "MaximumBatchingWindowInSeconds": _seconds(0, 300),
    "ParallelizationFactor": _whole(1, 64),
    "MaximumRetryAttempts": _whole(-1, 10_000),
    "MaximumRecordAgeInSeconds": _seconds(60, 604_800, unlimited=True),
    "BisectBatchOnFunctionError": _flag,
    "FunctionResponseTypes": _some_of("ReportBatchItemFailures"),
    "Backoff": _backoff,
    "OnFailure": _one_of("isolate", "batch", "block"),
    "DeadLetterTable": _table_name,
    "TumblingWindowInSeconds": _seconds(0, 900),
    "Transactions": _one_of("separate", "together"),
    "MaximumLag": _or_none(_whole(1, 2**53)),
    "TimeoutSeconds": _seconds(0, 86_400),
    "Replay": _flag,
    "DeclaredIn": _or_none(_text(4096)),
}
# Whoever asks gets them written out before the append: what a log says never depends on a default.
_DEFAULTS: Final[dict[str, Any]] = {
    "Start": {"At": "NOW"},
    "End": None,
    "Events": list(EVENTS),
    "Filter": None,
    "FilterCriteria": None,
    "BatchSize": 100,
    "MaximumBatchingWindowInSeconds": 0,
    "ParallelizationFactor": 1,
    "MaximumRetryAttempts": -1,
    "MaximumRecordAgeInSeconds": -1,
    "BisectBatchOnFunctionError": False,
    "FunctionResponseTypes": [],
    "Backoff": _BACKOFF,
    "OnFailure": "isolate",
    "TumblingWindowInSeconds": 0,
    "Transactions": "separate",
    "MaximumLag": None,
    "TimeoutSeconds": 60,
    "Replay": False,
    "DeclaredIn": None,
}
