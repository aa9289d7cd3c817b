"""What an expression says, as data.

    Operand    ::= Path | Reference | Call | Arithmetic
    Condition  ::= Comparison | Between | Among | Call | Not | And | Or
    Action     ::= SetAction | RemoveAction | AddAction | DeleteAction

Names are resolved (`#n` is gone), values are not: a tree holds `:v` by its name, so one tree serves
every request that differs only in its values. Nothing here evaluates; see `conditions` and `updates`.
"""

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Path:
    """A document path: attribute names, and list indexes as ints; the first part is a name."""

    parts: tuple[str | int, ...]

    @property
    def attribute(self) -> str:
        """The top-level attribute that the path starts at."""
        return str(self.parts[0])

    def __str__(self) -> str:
        """Write it the way DynamoDB's messages do: [a, b, [0]]."""
        return "[" + ", ".join(f"[{part}]" if isinstance(part, int) else part for part in self.parts) + "]"


@dataclass(frozen=True, slots=True)
class Reference:
    """A value placeholder, with its colon."""

    name: str


@dataclass(frozen=True, slots=True)
class Call:
    """A function of its operands; in a condition it may stand alone."""

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
    """The term does not hold."""

    term: "ConditionNode"


@dataclass(frozen=True, slots=True)
class And:
    """All terms hold; at least two."""

    terms: "tuple[ConditionNode, ...]"


@dataclass(frozen=True, slots=True)
class Or:
    """Some term holds; at least two."""

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


Action: TypeAlias = SetAction | RemoveAction | AddAction | DeleteAction
