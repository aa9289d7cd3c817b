"""The decorator `trigger`: a function that is called when items change, declared beside its code.

    @trigger("orders", on=["INSERT", "MODIFY"], when="NEW.state = 'PAID' AND OLD.state <> 'PAID'",
             batch=100, window=1.0, workers=4, retries=5, backoff="1s..60s", max_age="1h", dlq="orders.failed")
    def send_receipt(change: Change) -> None: ...

A server that is started with the folder of the file makes a subscription of it. The decorator leaves the function as it
is, so a test calls it with a Change made by hand.
"""

import inspect
import re
import sys
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from importlib import import_module
from types import ModuleType
from typing import Any, Final, Literal, TypeAlias, TypeVar

from ..model import durations

Duration: TypeAlias = str | int | float | Decimal | timedelta
"""`"250ms"`, `"1s"`, `"5m"`, `"1h"`, `"7d"`, a number of seconds or a timedelta."""

_Function = TypeVar("_Function", bound=Callable[..., Any])

_DECLARED: Final = "__foldb_triggers__"
_STARTS: Final = {"now": "NOW", "horizon": "HORIZON", "beginning": "BEGINNING", "snapshot": "SNAPSHOT"}


def trigger(
    *tables: str,
    name: str | None = None,
    on: str | Sequence[str] | None = None,
    when: str | None = None,
    names: Mapping[str, str] | None = None,
    values: Mapping[str, Any] | None = None,
    patterns: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    start: str | datetime | None = None,
    batch: int | None = None,
    window: Duration | None = None,
    tumbling: Duration | None = None,
    workers: int | None = None,
    retries: int | None = None,
    backoff: str | None = None,
    max_age: Duration | None = None,
    bisect: bool | None = None,
    on_failure: Literal["isolate", "batch", "block"] | None = None,
    dlq: str | None = None,
    transactions: Literal["separate", "together"] | None = None,
    max_lag: int | None = None,
    timeout: Duration | None = None,
    memory: int | None = None,
) -> Callable[[_Function], _Function]:
    """Have a function called when items of `tables` change.

    Left out, a setting is what the subscription's default is.

    Args:
        tables: Names of tables.
        name: The subscription's name; the function's own if left out.
        on: INSERT, MODIFY, REMOVE, READ: what has to happen to an item. One or several.
        when: A condition over OLD and NEW; strings in quotes, numbers, true, false and null may stand in it.
        names: What `#n` in `when` stands for. Names behind OLD and NEW need none, reserved words neither.
        values: What `:v` in `when` stands for, in Python's values.
        patterns: EventBridge's: a change goes through that matches one of them.
        start: now, horizon, beginning, snapshot (all items, then changes) or an aware datetime. Now, if left out; for
            a table that is not there yet its beginning.
        batch: How many changes are delivered at most together.
        window: How long changes are collected for a batch.
        tumbling: The length of tumbling windows.
        workers: How many processes call the function at a time; changes of one item stay in order.
        retries: How often a failed call is repeated; for ever if left out.
        backoff: The first and the longest pause before that: "1s..60s".
        max_age: A change that is older is given up.
        bisect: Whether a failed batch is halved.
        on_failure: What becomes of changes that are given up: one by one, the whole batch, or nothing goes on.
        dlq: The table of what was given up.
        transactions: Whether changes of a transaction are delivered together.
        max_lag: Writes to the tables are throttled when the trigger is more changes behind.
        timeout: How long one call may take.
        memory: How many megabytes a worker may take.
    """
    if not tables or not all(isinstance(table, str) for table in tables):
        raise TypeError('a trigger names its table: @trigger("orders")')
    if name is not None and not isinstance(name, str):
        raise TypeError(f"name: {name!r} is no text")
    settings: dict[str, Any] = {
        "TableNames": list(tables),
        "Events": [on] if isinstance(on, str) else None if on is None else list(on),
        "Filter": None if when is None else condition(when, names or {}, values or {}),
        "FilterCriteria": _patterns(patterns),
        "Start": _start(start),
        "BatchSize": batch,
        "MaximumBatchingWindowInSeconds": setting_seconds("window", window),
        "TumblingWindowInSeconds": setting_seconds("tumbling", tumbling),
        "ParallelizationFactor": workers,
        "MaximumRetryAttempts": retries,
        "Backoff": setting_backoff("backoff", backoff),
        "MaximumRecordAgeInSeconds": setting_seconds("max_age", max_age),
        "BisectBatchOnFunctionError": bisect,
        "OnFailure": on_failure,
        "DeadLetterTable": dlq,
        "Transactions": transactions,
        "MaximumLag": max_lag,
        "TimeoutSeconds": setting_seconds("timeout", timeout),
    }
    given = {member: value for member, value in settings.items() if value is not None}

    def declare(function: _Function) -> _Function:
        if not callable(function):
            raise TypeError("@trigger decorates a function")
        _importing().setdefault(_DECLARED, []).append((function, name, memory, given))
        return function

    return declare


def read_declarations(module: str) -> list[dict[str, Any]]:
    """The settings of the triggers that a module declares; it is imported for that.

    Raises:
        TypeError: The module has no name for a function.
    """
    found = import_module(module)
    read = []
    for function, name, memory, given in vars(found).get(_DECLARED, ()):
        place = _place_in(found, function)
        if place is None:
            raise TypeError(
                f"{module.replace('.', '/')}.py has no name for the function of its trigger"
                f"{'' if name is None else ' ' + name}, by which it could be called: give it one there, as in"
                f" `receipts = trigger({', '.join(map(repr, given['TableNames']))})(...)`"
            )
        sink: dict[str, Any] = {"Kind": "python", "Function": f"{module}:{place}"}
        if memory is not None:
            sink["MemorySize"] = memory
        read.append({"Name": name or place.rpartition(".")[2], "Sink": sink, **given})
    return read


def _importing() -> dict[str, Any]:
    """The names of the module that is being imported: whose lines lead here, however many functions are in between."""
    frame = sys._getframe(1)
    while frame.f_code.co_name != "<module>" and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_globals


def _place_in(module: ModuleType, function: Any) -> str | None:
    """What a module calls a function: by the name it was made with, if that leads to it, or else by any."""
    made_as = getattr(function, "__qualname__", "")
    own = _at(module, made_as)
    if own is function:
        return str(made_as)
    for name, value in vars(module).items():
        if value is function:
            return name
    # What stands above the decorator has put something of its own in its place, and that is what is to be called;
    # but not what the function itself stands in front of.
    is_ours = own is not None and function.__module__ == module.__name__
    return (
        str(made_as) if is_ours and inspect.unwrap(function, stop=lambda at: at is own) is not own else None
    )


def _at(found: Any, path: str) -> Any:
    """What stands at a path of names as it stands there; None where nothing does."""
    for name in path.split("."):
        found = inspect.getattr_static(found, name, None)
    return found


# --- conditions with values and names written straight into them

_TOKEN = re.compile(
    r"""
      (?P<string>'(?:[^']|'')*'|"(?:[^"]|"")*")
    | (?P<image>\b(?:OLD|NEW)\b)
    | (?P<member>\.\s*[A-Za-z_][A-Za-z0-9_\-]*)
    | (?P<index>\[\s*\d+\s*\])                 # of a list: no value
    | (?P<word>[:\#]?[A-Za-z_][A-Za-z0-9_]*)
    | (?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)(?!\w)
    """,
    re.VERBOSE,
)
_WORDS: Final = {"true": True, "false": False, "null": None}


def condition(text: str, names: Mapping[str, str], values: Mapping[str, Any]) -> dict[str, Any]:
    """A Filter, with the values and names that stand in `text` lifted out into placeholders.

    >>> condition("NEW.state = 'PAID'", {}, {})["Expression"]
    'NEW.#_1 = :_1'
    """
    all_names = dict(names)
    all_values = {key: typed(value) for key, value in values.items()}

    def value(of: Any) -> str:
        placeholder = f":_{len(all_values) + 1}"
        all_values[placeholder] = typed(of)
        return placeholder

    def lift(match: re.Match[str]) -> str:
        token = match[0]
        match match.lastgroup:
            case "string":
                return value(token[1:-1].replace(token[0] * 2, token[0]))
            case "number":
                return value(Decimal(token))
            case "member":
                placeholder = f"#_{len(all_names) + 1}"
                all_names[placeholder] = token[1:].strip()
                return f".{placeholder}"
            case "word" if token.lower() in _WORDS:
                return value(_WORDS[token.lower()])
        return token

    lifted: dict[str, Any] = {"Expression": _TOKEN.sub(lift, text)}
    if all_names:
        lifted["ExpressionAttributeNames"] = all_names
    if all_values:
        lifted["ExpressionAttributeValues"] = all_values
    return lifted


def typed(value: Any) -> dict[str, Any]:
    """DynamoDB's form of a value of Python's."""
    match value:
        case None:
            return {"NULL": True}
        case bool():
            return {"BOOL": value}
        case str():
            return {"S": value}
        case int() | Decimal():
            return {"N": str(value)}
        case bytes() | bytearray():
            return {"B": b64encode(value).decode()}
        case set() | frozenset():
            kinds = {next(iter(typed(element))) for element in value}
            if len(kinds) == 1 and kinds <= {"S", "N", "B"}:
                [kind] = kinds
                return {f"{kind}S": sorted(typed(element)[kind] for element in value)}
        case list() | tuple():
            return {"L": [typed(element) for element in value]}
        case Mapping():
            return {"M": {name: typed(element) for name, element in value.items()}}
    raise TypeError(f"{value!r} is no value of DynamoDB's; a number is an int or a Decimal")


# --- settings as people write them


def seconds(written: Duration) -> Decimal:
    """Return the seconds of a duration.

    >>> seconds("250ms")
    Decimal('0.250')

    Raises:
        ValueError: `written` is not a duration.
    """
    match written:
        case str():
            return durations.seconds(written)
        case timedelta():
            return Decimal(written // timedelta(microseconds=1)) / 1_000_000
        case bool():
            raise ValueError(f"{written} is not a duration")
    return Decimal(str(written))


def setting_seconds(setting: str, written: Duration | None) -> int | str | None:
    """As a setting has it: a whole number, or decimal text.

    Raises:
        ValueError: It is no time; `setting` is who is told of it.
    """
    if written is None:
        return None
    try:
        found = seconds(written)
    except ValueError as error:
        raise ValueError(f"{setting}: {error}") from None
    return int(found) if found == int(found) else format(found.normalize(), "f")


def setting_backoff(setting: str, written: str | None) -> dict[str, Any] | None:
    """The first and the longest pause, as a setting has them.

    Raises:
        ValueError: They are not written so, or are no times.
    """
    if written is None:
        return None
    first, dots, most = written.partition("..")
    if not dots:
        raise ValueError(
            f"{setting}: `{written}` is not written as the first and the longest pause, like 1s..60s"
        )
    return {"First": setting_seconds(setting, first), "Most": setting_seconds(setting, most)}


def _start(start: str | datetime | None) -> dict[str, Any] | None:
    match start:
        case None:
            return None
        case datetime():
            if start.tzinfo is None:
                raise ValueError("start: a datetime needs its time zone")
            return {"At": "TIME", "Time": int(start.timestamp() * 1000)}
        case str() if start in _STARTS:
            return {"At": _STARTS[start]}
    raise ValueError(f"start: one of {', '.join(_STARTS)}, or a datetime")


def _patterns(patterns: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None) -> dict[str, Any] | None:
    if patterns is None:
        return None
    import orjson

    several = [patterns] if isinstance(patterns, Mapping) else patterns
    return {"Filters": [{"Pattern": orjson.dumps(pattern).decode()} for pattern in several]}
