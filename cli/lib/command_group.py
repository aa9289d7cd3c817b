"""Commands and their parameters, as typer registers them.

    app = CommandGroup()                           @dataclass(frozen=True, slots=True)
                                                   class Placeholders:
    @app.command()                                     values: ValuesOption = None
    def put(session: Session,                          names: NamesOption = None
            table: TableArgument,
            placeholders: Placeholders): ...       foldb item put TABLE --value :x=1 --name '#n=size'

A parameter `session` is the Session of the run. A parameter whose type is a dataclass is a group: its fields are
arguments and options that belong together, and its methods turn them into a part of a request.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from inspect import Parameter
from typing import Any, Final, TypeVar, get_type_hints

import typer

from .help import PlainCommand, PlainGroup

Command = TypeVar("Command", bound=Callable[..., None])

AGES: Final = {"ignore_unknown_options": True}
"""The context settings of a command whose words may be ages such as -1h, which are not options."""

_SESSION: Final = "session"
_CONTEXT: Final = "ctx"


class CommandGroup(typer.Typer):
    """The commands that share their first word.

    Args:
        default: The command whose name may be left out: its words follow the first word of the group.
    """

    def __init__(self, default: str | None = None) -> None:
        class Group(PlainGroup):
            def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
                if default is not None and args and args[0] not in (*self.commands, "--help"):
                    args = [default, *args]
                return super().parse_args(ctx, args)

        super().__init__(cls=Group, rich_markup_mode=None)

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Command], Command]:
        register = super().command(name, cls=PlainCommand, **settings)

        def add(command: Command) -> Command:
            register(as_typer_reads(command))
            return command

        return add


def as_typer_reads(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with a typer.Context for its session, and the fields of its groups in their place."""
    own = inspect.signature(command, eval_str=True).parameters.values()
    groups: dict[str, Any] = {each.name: each.annotation for each in own if is_dataclass(each.annotation)}
    has_session = any(each.name == _SESSION for each in own)

    @wraps(command)
    def run(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{each.name: values.pop(each.name) for each in fields(group)})
        if has_session:
            values[_SESSION] = values.pop(_CONTEXT).obj
        command(**values)

    return set_parameters(run, (part for each in own for part in _parts(each)))


def set_parameters(command: Command, parameters: Iterable[Parameter]) -> Command:
    """Set the parameters that typer reads: in the signature names and defaults, in the annotations types."""
    keywords = [
        each if each.kind is Parameter.VAR_KEYWORD else each.replace(kind=Parameter.KEYWORD_ONLY)
        for each in parameters
    ]
    command.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in keywords}
    return command


def _parts(parameter: Parameter) -> Iterator[Parameter]:
    group: Any = parameter.annotation
    if parameter.name == _SESSION:
        yield parameter.replace(name=_CONTEXT, annotation=typer.Context)
    elif is_dataclass(group) and isinstance(group, type):
        types = get_type_hints(group, include_extras=True)
        for each in fields(group):
            default = Parameter.empty if each.default is MISSING else each.default
            yield Parameter(each.name, Parameter.KEYWORD_ONLY, default=default, annotation=types[each.name])
    else:
        yield parameter
