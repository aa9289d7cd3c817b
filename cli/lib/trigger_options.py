"""Options of `foldb trigger add` for a trigger's target and settings, generated from their declarations.

    --run './notify.sh -q' --batch 10 --window 1s      {"Sink": {"Kind": "command", "Command": ["./notify.sh", "-q"]},
    --retries 5 --backoff 1s..60s --max-age 1h    ──►   "BatchSize": 10, "MaximumBatchingWindowInSeconds": 1, ...}

The result holds only settings that the options give. SUBSCRIPTION_SETTINGS declares the settings, streams/sinks the
kinds of targets. filter_options.py and start_position.py hold the options that `foldb stream` has too.
"""

import inspect
from collections.abc import Mapping
from inspect import Parameter
from typing import Annotated, Any, Final, TypeAlias

import typer
from typer.models import OptionInfo

from ...model.subscriptions.setting_types import (
    INT_MAX,
    BackoffRange,
    Bool,
    Int,
    OneOf,
    Seconds,
    SomeOf,
    TableName,
)
from ...model.subscriptions.settings import SUBSCRIPTION_SETTINGS, SubscriptionSetting, setting_named
from ...streams.decorator import default_text, setting_value
from ...streams.sinks import MODULES, sink_kind, sink_kinds
from .command_group import Command, set_parameters
from .errors import CommandError, ExitCode
from .values import read_json, read_text, write_json

Settings = dict[str, Any]

SinkOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--sink",
        metavar="JSON",
        help='Further members of the sink, or the whole sink: \'{"Mode": "binary"}\', or @FILE.',
    ),
]

_SINK_PREFIX: Final = "sink_"
_EXAMPLE: Final = """'{"Mode": "binary"}'"""


def with_trigger_options(command: Command) -> Command:
    """Add the options of all sinks and settings to a command that takes them as `**options`.

    The options of sinks follow the command's `tables`; those of settings come last.
    """
    parameters = inspect.signature(command, eval_str=True).parameters.values()
    own = [each for each in parameters if each.kind is not Parameter.VAR_KEYWORD]
    after_tables = 1 + [each.name for each in own].index("tables")
    sinks = [
        _parameter(
            f"{_SINK_PREFIX}{kind.name}",
            str,
            typer.Option(kind.flag, metavar=kind.metavar, help=f"{kind.help} Example: {kind.example}"),
        )
        for kind in sink_kinds()
        if kind.flag is not None
    ]
    settings = [
        _parameter(setting.name, _option_type(setting), option(setting.name))
        for setting in SUBSCRIPTION_SETTINGS
        if _is_generated(setting)
    ]
    return set_parameters(command, [*own[:after_tables], *sinks, *own[after_tables:], *settings])


def option(name: str) -> OptionInfo:
    setting = setting_named(name)
    assert setting.flag is not None, "a setting without a flag has no option"
    text, least, most, metavar = setting.help, None, None, None
    match setting.type:
        case Int():
            least = setting.type.least
            most = setting.type.most if setting.type.most < INT_MAX else None
        case Seconds():
            metavar, text = "TIME", f"{text.removesuffix('.')} ({setting.type})."
        case BackoffRange():
            metavar, text = "FIRST..MOST", f"{text.removesuffix('.')} ({setting.type.limit})."
        case OneOf():
            metavar = "|".join(setting.type.words)
        case TableName():
            metavar = "TABLE"
    info: OptionInfo = typer.Option(
        setting.flag, min=least, max=most, metavar=metavar, help=text, show_default=default_text(setting)
    )
    return info


def _parameter(name: str, type_: type, info: OptionInfo) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[type_ | None, info])


def _option_type(setting: SubscriptionSetting) -> type:
    match setting.type:
        case Int():
            return int
        case Bool() | SomeOf():
            return bool
    return str


def _is_generated(setting: SubscriptionSetting) -> bool:
    """Return whether the option follows from the setting's type; filter_options.py declares the others."""
    match setting.type:
        case Int() | Seconds() | Bool() | OneOf() | BackoffRange() | TableName():
            return setting.flag is not None
        case SomeOf(words=words):
            return setting.flag is not None and len(words) == 1  # a switch
    return False


def sink_of(options: Mapping[str, str | None], members: str | None) -> Settings:
    """Return the Sink that the options of sinks and `--sink` give; {} if none is given.

    Args:
        options: The values of the generated options; other options are ignored.

    Raises:
        CommandError: Two targets are named, or a value is invalid.
    """
    sink: Settings = {}
    flags = []
    for kind in sink_kinds():
        text = options.get(f"{_SINK_PREFIX}{kind.name}")
        if text is None or kind.flag is None:
            continue
        flags.append(kind.flag)
        sink = sink_from_flag(kind.name, text)
    if len(flags) > 1:
        raise CommandError(f"{' and '.join(flags)}: a trigger calls one of them", ExitCode.USAGE)
    return sink | ({} if members is None else _sink_members(members))


def sink_from_flag(name: str, text: str) -> Settings:
    """Return the Sink that the flag of a kind gives.

    Raises:
        CommandError: The text is not a value of the flag.
    """
    kind = sink_kind({"Kind": name})
    try:
        return kind.from_flag(text)
    except ValueError as error:
        raise CommandError(f"{kind.flag} {text or 'is empty'}: {error}", ExitCode.USAGE) from None


def sink_flags() -> list[str]:
    return [kind.flag for kind in sink_kinds() if kind.flag is not None]


def _sink_members(text: str) -> Settings:
    source = "--sink"
    if text.startswith("@"):
        source = text[1:]
        text = read_text(source, f". Write --sink {_EXAMPLE}, or @ and a file that holds that.")
    members = read_json(text, source)
    if not isinstance(members, dict):
        raise CommandError(f"{source} is not a JSON object: write {_EXAMPLE}", ExitCode.USAGE)
    return {name: int(value) if _is_integer(value) else value for name, value in members.items()}


def _is_integer(value: Any) -> bool:
    return hasattr(value, "to_integral_value") and value == value.to_integral_value()


def settings_of(options: Mapping[str, Any]) -> Settings:
    """Return the settings that generated options give; options of sinks are ignored.

    Raises:
        CommandError: A value is invalid.
    """
    return {
        setting.name: _setting_of(setting, options[setting.name])
        for setting in SUBSCRIPTION_SETTINGS
        if options.get(setting.name) is not None
    }


def _setting_of(setting: SubscriptionSetting, value: Any) -> Any:
    match setting.type:
        case SomeOf(words=words):
            return list(words) if value else []
        case OneOf(words=words) if value not in words:
            raise CommandError(f"{setting.flag} {value}: one of {', '.join(words)}", ExitCode.USAGE)
    try:
        return setting_value(setting.type, str(setting.flag), value)
    except ValueError as error:
        raise CommandError(str(error), ExitCode.USAGE) from None


def sink_text(sink: Settings) -> str:
    """Return the target of a trigger, in a few words.

    >>> sink_text({"Kind": "command", "Command": ["./notify.sh", "two words"]})
    "./notify.sh 'two words'"
    """
    label = sink_kind(sink).label if sink["Kind"] in MODULES else None
    if label is not None:
        return label(sink)
    members = {name: value for name, value in sink.items() if name != "Kind"}
    return f"{sink['Kind']} {write_json(members)}"
