"""The flags of `foldb serve`, from the settings that server/settings.py declares."""

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from ...model.durations import duration
from ...server.settings import LAST_PORT, SETTINGS, Setting, SettingError
from .command_group import Command, set_parameters
from .durations import read_duration
from .values import read_folder


def setting_options(command: Command) -> Command:
    """Give a command one option for each setting that has a flag, in place of its last parameter, `**values`."""
    context, *own, _ = inspect.signature(command).parameters.values()
    options = [_parameter(setting) for setting in SETTINGS.values() if setting.flag is not None]
    return set_parameters(command, [context, *options, *own])


def setting_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of options as Settings takes them: a list as a tuple."""
    return {
        name: tuple(value or ()) if SETTINGS[name].kind == tuple[str, ...] else value
        for name, value in values.items()
    }


def flag_error(error: SettingError) -> str:
    """Return the error's text with the flag in place of the setting's name."""
    return f"{SETTINGS[error.name].flag or error.name}: {error.reason}"


def _parameter(setting: Setting) -> inspect.Parameter:
    assert setting.flag is not None
    kind: Any = setting.kind
    parser: Callable[[Any], object] | None = None
    default: Any = setting.command_default or setting.default
    about: dict[str, Any] = {"metavar": setting.metavar, "min": setting.minimum, "max": setting.maximum}
    text = setting.help
    if setting.is_duration:
        parser = _duration_of(setting)
        about = {"metavar": "DURATION", "show_default": duration(default)}
    elif kind == tuple[str, ...]:
        kind, default = list[str] | None, None
        text = f"{text} Repeat the flag for more."
    elif kind == tuple[str, int] | None:
        kind, parser = str | None, _read_address
    elif setting.metavar == "FOLDER":
        parser = read_folder
    option = typer.Option(setting.flag, help=text, rich_help_panel=setting.group, parser=parser, **about)
    return inspect.Parameter(
        setting.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option]
    )


def _duration_of(setting: Setting) -> Callable[[str | int], int]:
    def read(text: str | int) -> int:
        value = read_duration(text)
        try:
            setting.check(value)
        except SettingError as error:
            raise typer.BadParameter(error.reason) from None
        return value

    return read


def _read_address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > LAST_PORT:
        raise typer.BadParameter(f"{text!r} is not an address and a port like 10.0.0.1:7000")
    return host.strip("[]"), int(port)
