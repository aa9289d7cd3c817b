"""Reads the type that a parameter's annotation names, in every notation.

    list[Change], Annotated[list[Change], ...], list[Change] | None, "list[Change]" ──► list

An annotation that cannot be evaluated, because it uses names that only a type checker knows, is parsed as text.
"""

import ast
import inspect
import typing
from collections.abc import Callable, Sequence
from types import NoneType, UnionType
from typing import Any


def positional(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        signature = inspect.signature(function, eval_str=True)
    except (NameError, AttributeError):  # names that only a type checker knows
        signature = inspect.signature(function)
    return [
        parameter
        for parameter in signature.parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]


def kind_of(annotation: Any, kinds: Sequence[type]) -> type | None:
    """Return the one type of `kinds` that an annotation names; None for `Change | list[Change]`, which names two."""
    if isinstance(annotation, typing.ForwardRef):
        annotation = annotation.__forward_arg__
    if isinstance(annotation, str):
        return _kind_written(ast.parse(annotation, mode="eval").body, kinds)
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return kind_of(parts[0], kinds)
    if origin in (typing.Union, UnionType):
        return _only(kind_of(part, kinds) for part in parts if part is not NoneType)
    return next((kind for kind in kinds if kind is (origin or annotation)), None)


def _kind_written(written: ast.expr, kinds: Sequence[type]) -> type | None:
    match written:
        case ast.Constant(value=str(text)):
            return kind_of(text, kinds)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _only(_kind_written(part, kinds) for part in (left, right) if not _is_none(part))
        case ast.Subscript(value=value, slice=inner):
            parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            match _name(value):
                case "Annotated":
                    return _kind_written(parts[0], kinds)
                case "Optional" | "Union":
                    return _only(_kind_written(part, kinds) for part in parts if not _is_none(part))
            return _kind_written(value, kinds)
    name = _name(written).lower()  # List is list
    return next((kind for kind in kinds if kind.__name__.lower() == name), None)


def _only(found: typing.Iterable[type | None]) -> type | None:
    """Return the one kind that all have in common, or None."""
    several = set(found)
    return several.pop() if len(several) == 1 else None


def _name(written: ast.expr) -> str:
    match written:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _is_none(written: ast.expr) -> bool:
    return isinstance(written, ast.Constant) and written.value is None
