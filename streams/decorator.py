"""The decorator `trigger`: declares a function that foldb calls when items change.

    @trigger("orders", on=["INSERT", "MODIFY"], when="NEW.state = 'PAID' AND OLD.state <> 'PAID'",
             batch=100, window=1.0, workers=4, retries=5, backoff="1s..60s", max_age="1h", dlq="orders.failed")
    def send_receipt(change: Change) -> None: ...

A server that is started with the folder of the file makes a subscription of the declaration. The decorator returns the
function unchanged, so a test calls it with a Change of its own. SUBSCRIPTION_SETTINGS declares the keywords.
"""

import inspect
import re
import sys
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from importlib import import_module
from inspect import Parameter
from types import ModuleType
from typing import Any, Final, TypeVar, Unpack, get_type_hints

import orjson

from ..model import durations
from ..model.subscriptions.setting_types import (
    UNLIMITED,
    BackoffRange,
    FilterPatterns,
    Seconds,
    SettingType,
    SomeOf,
    StartPosition,
)
from ..model.subscriptions.settings import (
    REQUIRED,
    SUBSCRIPTION_SETTINGS,
    Duration,
    SubscriptionSetting,
    TriggerSettings,
)

_Function = TypeVar("_Function", bound=Callable[..., object])

_DECLARED: Final = "__foldb_triggers__"
_STARTS: Final = {"now": "NOW", "horizon": "HORIZON", "beginning": "BEGINNING", "snapshot": "SNAPSHOT"}
_BY_KEYWORD: Final = {setting.keyword: setting for setting in SUBSCRIPTION_SETTINGS if setting.keyword}


def trigger(
    *tables: str,
    name: str | None = None,
    names: Mapping[str, str] | None = None,
    values: Mapping[str, object] | None = None,
    memory: int | None = None,
    **settings: Unpack[TriggerSettings],
) -> Callable[[_Function], _Function]:
    """Declare that foldb calls a function when items of `tables` change.

    A setting that is absent or None has the subscription's default.

    Args:
        tables: Names of tables.
        name: The subscription's name. Default: the name of the function.
        names: The attribute names for `#n` in `when`. Names behind OLD and NEW need none, even if they are reserved.
        values: The values for `:v` in `when`, as Python values.
        memory: Memory limit of a worker process, in megabytes.

    Raises:
        TypeError: No table is named, a keyword is unknown, or `name` is not a text.
        ValueError: A duration, a start or a backoff is not written as one.
    """
    if not tables or not all(isinstance(table, str) for table in tables):
        raise TypeError('a trigger names its table: @trigger("orders")')
    if name is not None and not isinstance(name, str):
        raise TypeError(f"name: {name!r} is not a text")
    declared: dict[str, Any] = {"TableNames": list(tables)}
    for keyword, written in settings.items():
        setting = _BY_KEYWORD.get(keyword)
        if setting is None:
            raise TypeError(f"trigger() got an unexpected keyword argument {keyword!r}")
        if written is None:
            continue
        if isinstance(written, str) and setting.name == "Filter":
            declared[setting.name] = condition(written, names or {}, values or {})
        else:
            declared[setting.name] = setting_value(setting.type, keyword, written)

    def declare(function: _Function) -> _Function:
        if not callable(function):
            raise TypeError("@trigger decorates a function")
        _importing().setdefault(_DECLARED, []).append((function, name, memory, declared))
        return function

    return declare


def _document(decorator: Callable[..., object], declared: Sequence[SubscriptionSetting]) -> None:
    """Show the keywords of `declared` in the decorator's signature and docstring."""
    types = get_type_hints(TriggerSettings)
    signature = inspect.signature(decorator, eval_str=True)
    keywords = [
        Parameter(setting.keyword, Parameter.KEYWORD_ONLY, default=None, annotation=types[setting.keyword])
        for setting in declared
        if setting.keyword is not None
    ]
    own = [each for each in signature.parameters.values() if each.kind is not Parameter.VAR_KEYWORD]
    args = "".join(
        f"    {setting.keyword}: {setting.help} Default: {default_text(setting)}.\n"
        for setting in declared
        if setting.keyword is not None
    )
    decorator.__signature__ = signature.replace(parameters=[*own, *keywords])  # type: ignore[attr-defined]
    if decorator.__doc__ is not None:  # Python -OO removes docstrings
        text = inspect.cleandoc(decorator.__doc__)  # Python 3.13 and later store it without indentation
        decorator.__doc__ = text.replace("\n\nRaises:", f"\n{args}\nRaises:", 1)


def read_declarations(module: str) -> list[dict[str, Any]]:
    """Import a module and return the settings of the triggers that it declares.

    Raises:
        TypeError: The module has no name for a decorated function.
    """
    imported = import_module(module)
    declarations = []
    for function, name, memory, settings in vars(imported).get(_DECLARED, ()):
        path = _path_of(imported, function)
        if path is None:
            raise TypeError(
                f"{module.replace('.', '/')}.py has no name for the function of its trigger"
                f"{'' if name is None else ' ' + name}: assign the function to a name, as in"
                f" `receipts = trigger({', '.join(map(repr, settings['TableNames']))})(...)`"
            )
        sink: dict[str, Any] = {"Kind": "python", "Function": f"{module}:{path}"}
        if memory is not None:
            sink["MemorySize"] = memory
        declarations.append({"Name": name or path.rpartition(".")[2], "Sink": sink, **settings})
    return declarations


def _importing() -> dict[str, Any]:
    """Return the globals of the module that is being imported: of the innermost frame that runs a module's body."""
    frame = sys._getframe(1)
    while frame.f_code.co_name != "<module>" and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_globals


def _path_of(module: ModuleType, function: Any) -> str | None:
    """Return the dotted name of a function in a module: its qualified name if that resolves to it, else any name."""
    qualified_name = getattr(function, "__qualname__", "")
    value = _resolve(module, qualified_name)
    if value is function:
        return str(qualified_name)
    for name, other in vars(module).items():
        if other is function:
            return name
    # A decorator above @trigger has replaced the function: the replacement is called. A function that wraps the value
    # itself was not replaced by it.
    is_replaced = (
        value is not None
        and function.__module__ == module.__name__
        and inspect.unwrap(function, stop=lambda each: each is value) is not value
    )
    return str(qualified_name) if is_replaced else None


def _resolve(module: ModuleType, path: str) -> Any:
    """Return the value at a dotted name, without calling descriptors; None if there is none."""
    value: Any = module
    for name in path.split("."):
        value = inspect.getattr_static(value, name, None)
    return value


# --- conditions that contain values and names

_TOKEN = re.compile(
    r"""
      (?P<string>'(?:[^']|'')*'|"(?:[^"]|"")*")
    | (?P<image>\b(?:OLD|NEW)\b)
    | (?P<member>\.\s*[A-Za-z_][A-Za-z0-9_\-]*)
    | (?P<index>\[\s*\d+\s*\])                 # an index of a list is not a value
    | (?P<word>[:\#]?[A-Za-z_][A-Za-z0-9_]*)
    | (?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)(?!\w)
    """,
    re.VERBOSE,
)
_LITERALS: Final = {"true": True, "false": False, "null": None}


def condition(text: str, names: Mapping[str, str], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a Filter in which placeholders replace the values and names of `text`.

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
            case "word" if token.lower() in _LITERALS:
                return value(_LITERALS[token.lower()])
        return token

    lifted: dict[str, Any] = {"Expression": _TOKEN.sub(lift, text)}
    if all_names:
        lifted["ExpressionAttributeNames"] = all_names
    if all_values:
        lifted["ExpressionAttributeValues"] = all_values
    return lifted


def typed(value: Any) -> dict[str, Any]:
    """Return a Python value in DynamoDB JSON.

    Raises:
        TypeError: DynamoDB has no type for the value.
    """
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
    raise TypeError(f"{value!r} has no DynamoDB type; a number is an int or a Decimal")


# --- settings as users write them


def setting_value(type_: SettingType, source: str, written: object) -> Any:
    """Return the value of a setting that a keyword or a flag gives in its written form.

    Raises:
        ValueError: `written` is not a form of the type; the message begins with `source`.
    """
    match type_:
        case Seconds(unlimited=True) if written == "never":
            return UNLIMITED
        case Seconds():
            return _whole_seconds(source, written)
        case BackoffRange():
            return _backoff(source, written)
        case StartPosition():
            return _start(source, written)
        case FilterPatterns():
            patterns = [written] if isinstance(written, Mapping) else _sequence(source, written)
            return {"Filters": [{"Pattern": orjson.dumps(pattern).decode()} for pattern in patterns]}
        case SomeOf():
            return [written] if isinstance(written, str) else list(_sequence(source, written))
    return written


def seconds(written: Duration) -> Decimal:
    """Return a duration in seconds.

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


def _whole_seconds(source: str, written: object) -> int | str:
    """Return a duration as a setting holds it: an integer or decimal text."""
    if not isinstance(written, str | int | float | Decimal | timedelta):
        raise ValueError(f"{source}: {written!r} is not a duration")  # as for every other value
    try:
        duration = seconds(written)
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from None
    return int(duration) if duration == int(duration) else format(duration.normalize(), "f")


def _backoff(source: str, written: object) -> dict[str, Any]:
    first, dots, most = str(written).partition("..")
    if not dots:
        raise ValueError(
            f"{source}: `{written}` is not written as the first and the longest pause, like 1s..60s"
        )
    return {"First": _whole_seconds(source, first), "Most": _whole_seconds(source, most)}


def _start(source: str, written: object) -> dict[str, Any]:
    match written:
        case datetime():
            if written.tzinfo is None:
                raise ValueError(f"{source}: a datetime needs its time zone")
            return {"At": "TIME", "Time": int(written.timestamp() * 1000)}
        case str() if written in _STARTS:
            return {"At": _STARTS[written]}
    raise ValueError(f"{source}: one of {', '.join(_STARTS)}, or a datetime")


def _sequence(source: str, written: object) -> Sequence[object]:
    if not isinstance(written, Sequence):
        raise ValueError(f"{source}: {written!r} is no list")  # as for every other value
    return written


def default_text(setting: SubscriptionSetting) -> str:
    """Return the default of a setting as the written form has it.

    >>> default_text(SUBSCRIPTION_SETTINGS[7])
    '100'
    """
    match setting.type, setting.default:
        case _, None:
            return "none"
        case _, bool() as value:
            return "on" if value else "off"
        case Seconds(), int() as value:
            return "never" if value == UNLIMITED else durations.duration(value * 1000)
        case BackoffRange(first=first, most=most), _:
            return f"{durations.duration(first * 1000)}..{durations.duration(most * 1000)}"
        case StartPosition(), _:
            return "now"
        case SomeOf(words=words), list() as value:
            return "all" if len(value) == len(words) else ", ".join(value) or "off"
    return "required" if setting.default is REQUIRED else str(setting.default).replace("{name}", "NAME")


_document(trigger, SUBSCRIPTION_SETTINGS)
