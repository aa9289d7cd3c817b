"""The syntax trees of expressions.

    Operand    ::= Path | Reference | Call | Arithmetic
    Condition  ::= Comparison | Between | Among | Call | Not | And | Or
    Action     ::= SetAction | RemoveAction | AddAction | DeleteAction

Names (`#n`) are resolved, values are not: a tree holds `:v` by its name, so one tree serves all requests that differ
only in their values. `conditions` and `updates` evaluate trees.
"""

from typing import TypeAlias

from ..model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Path:
    """A document path: attribute names, and list indexes as ints. The first part is a name."""

    parts: tuple[str | int, ...]

    @property
    def attribute(self) -> str:
        """The top-level attribute of the path."""
        return str(self.parts[0])

    def __str__(self) -> str:
        """Return the form of DynamoDB's messages: [a, b, [0]]."""
        return "[" + ", ".join(f"[{part}]" if isinstance(part, int) else part for part in self.parts) + "]"


@dataclass(frozen=True, slots=True)
class Reference:
    """A value placeholder, with its colon."""

    name: str


@dataclass(frozen=True, slots=True)
class Call:
    """A function of its operands; in a condition also a term."""

    function: str
    operands: "tuple[Operand, ...]"


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """left + right or left - right, in a SET."""

    operator: str
    left: "Operand"
    right: "Operand"


Operand: TypeAlias = Path | Reference | Call | Arithmetic


@dataclass(frozen=True, slots=True)
class Comparison:
    """One of = <> < <= > >=."""

    operator: str
    left: Operand
    right: Operand


@dataclass(frozen=True, slots=True)
class Between:
    """low <= operand <= high."""

    operand: Operand
    low: Operand
    high: Operand


@dataclass(frozen=True, slots=True)
class Among:
    """operand IN (choices)."""

    operand: Operand
    choices: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The negation of a term."""

    term: "ConditionNode"


@dataclass(frozen=True, slots=True)
class And:
    """The conjunction of two or more terms."""

    terms: "tuple[ConditionNode, ...]"


@dataclass(frozen=True, slots=True)
class Or:
    """The disjunction of two or more terms."""

    terms: "tuple[ConditionNode, ...]"


ConditionNode: TypeAlias = Comparison | Between | Among | Call | Not | And | Or


@dataclass(frozen=True, slots=True)
class SetAction:
    """SET path = value."""

    path: Path
    value: Operand


@dataclass(frozen=True, slots=True)
class RemoveAction:
    """REMOVE path."""

    path: Path


@dataclass(frozen=True, slots=True)
class AddAction:
    """ADD path value: to a number or to a set, and in the legacy form to a list."""

    path: Path
    value: Reference


@dataclass(frozen=True, slots=True)
class DeleteAction:
    """DELETE path value: elements from a set."""

    path: Path
    value: Reference


UpdateAction: TypeAlias = SetAction | RemoveAction | AddAction | DeleteAction
