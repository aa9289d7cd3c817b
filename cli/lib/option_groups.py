"""Options that belong together, as one parameter of a command: a dataclass whose fields are arguments and options.

    @dataclass(frozen=True, slots=True)            @with_option_groups
    class Placeholders:                            def put(ctx, table: TableArgument, placeholders: Placeholders): ...
        values: ValuesOption = None
        names: NamesOption = None                  foldb item put TABLE --value :x=1 --name '#n=size'

A group has the methods that turn its options into a part of a request.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import Parameter
from typing import Any, TypeVar, get_type_hints

Command = TypeVar("Command", bound=Callable[..., None])


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with the fields of its groups as parameters, each where the group was."""
    own = inspect.signature(command, eval_str=True).parameters.values()
    groups: dict[str, Any] = {each.name: each.annotation for each in own if is_dataclass(each.annotation)}

    @wraps(command)
    def with_fields(**values: Any) -> None:
        made = {
            name: group(**{each.name: values.pop(each.name) for each in fields(group)})
            for name, group in groups.items()
        }
        command(**values, **made)

    return set_parameters(with_fields, (part for each in own for part in _parts(each, groups.get(each.name))))


def set_parameters(command: Command, parameters: Iterable[Parameter]) -> Command:
    """Set the parameters that typer reads: in the signature names and defaults, in the annotations types."""
    keywords = [
        each if each.kind is Parameter.VAR_KEYWORD else each.replace(kind=Parameter.KEYWORD_ONLY)
        for each in parameters
    ]
    command.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in keywords}
    return command


def _parts(parameter: Parameter, group: Any) -> Iterator[Parameter]:
    if group is None:
        yield parameter
        return
    types = get_type_hints(group, include_extras=True)
    defaults = inspect.signature(group).parameters
    for each in fields(group):
        yield defaults[each.name].replace(annotation=types[each.name])
