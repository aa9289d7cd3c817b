"""Statements, as the parser returns them, and their values.

A statement holds no value: literals and parameters are References, as in `expressions.tree`. A literal is named `:v0`,
`:v1`, ... and a parameter `:p0`, `:p1`, ..., so that one statement serves all requests with the same text.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import NamedTuple, TypeAlias

from ...model.errors import ValidationError
from ...model.lazy_dataclass import dataclass
from ...model.values import Value
from ..tree import ConditionNode, Path, Reference, UpdateAction

PARAMETERS_DIFFER = "Number of parameters in request and statement don't match."


class KeyMismatchError(ValidationError):
    """The conditions of a statement do not name a key of the table. In a transaction it is a reason to cancel."""


class OrderKey(NamedTuple):
    """One key of ORDER BY."""

    attribute: str
    is_descending: bool


@dataclass(frozen=True, slots=True)
class Select:
    """SELECT: `columns` is empty for *."""

    table: str
    index: str | None = None
    columns: tuple[Path, ...] = ()
    where: ConditionNode | None = None
    order: tuple[OrderKey, ...] = ()


@dataclass(frozen=True, slots=True)
class Insert:
    """INSERT: the attributes of the item."""

    table: str
    item: tuple[tuple[str, Reference], ...]


@dataclass(frozen=True, slots=True)
class Update:
    """UPDATE: `returning` is a value of ReturnValues."""

    table: str
    index: str | None
    actions: tuple[UpdateAction, ...]
    where: ConditionNode | None = None
    returning: str = "NONE"


@dataclass(frozen=True, slots=True)
class Delete:
    """DELETE: `returning` is a value of ReturnValues."""

    table: str
    index: str | None
    where: ConditionNode | None = None
    returning: str = "NONE"


@dataclass(frozen=True, slots=True)
class Exists:
    """EXISTS(SELECT ...), the condition check of a transaction."""

    select: Select

    @property
    def table(self) -> str:
        return self.select.table

    @property
    def index(self) -> str | None:
        return self.select.index


Kind: TypeAlias = Select | Insert | Update | Delete | Exists


@dataclass(frozen=True, slots=True)
class Statement:
    """A parsed text.

    Attributes:
        kind: The statement.
        literals: The values of its literals, canonical.
        parameter_count: The number of its question marks.
        sets: The positions of the first arguments of set_add and set_delete whose second argument must be a set.
    """

    kind: Kind
    literals: Mapping[str, Value] = field(default_factory=dict)
    parameter_count: int = 0
    sets: tuple[tuple[str, str, str], ...] = ()


class Bound(NamedTuple):
    """A statement with the values of its literals and parameters."""

    kind: Kind
    values: Mapping[str, Value]


def bind(statement: Statement, parameters: list[Value]) -> Bound:
    """Return a statement with the values of its parameters, which are canonical.

    Raises:
        ValidationError: The number of parameters is wrong, or one is not the set that set_add or set_delete needs.
    """
    if len(parameters) != statement.parameter_count:
        raise ValidationError(PARAMETERS_DIFFER)
    values = {**statement.literals, **{f":p{nth}": value for nth, value in enumerate(parameters)}}
    for name, function, at in statement.sets:
        if not values[name].keys() & {"SS", "NS", "BS"}:
            raise ValidationError(f"The second argument to {function} must be a value with type SET {at}")
    return Bound(statement.kind, values)
