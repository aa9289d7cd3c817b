"""Write trees as expressions of the classic languages, with placeholders for all names and values.

The text has the operators of the tree, and parentheses only where they are needed: the classic parser refuses
redundant ones.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from ...model.values import Value
from ..tree import (
    AddAction,
    Among,
    And,
    Arithmetic,
    Between,
    Call,
    Comparison,
    ConditionNode,
    DeleteAction,
    Not,
    Operand,
    Or,
    Path,
    Reference,
    RemoveAction,
    SetAction,
    UpdateAction,
)


class Renderer:
    """Writes the expressions of one request, and collects their names and values."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        self._given = values
        self._placeholders: dict[str, str] = {}
        self._values: dict[str, Value] = {}

    def substitutions(self) -> dict[str, Any]:
        """Return the members of a request with the names and values that its expressions use."""
        members: dict[str, Any] = {}
        if self._placeholders:
            members["ExpressionAttributeNames"] = {alias: name for name, alias in self._placeholders.items()}
        if self._values:
            members["ExpressionAttributeValues"] = self._values
        return members

    def condition(self, node: ConditionNode) -> str:
        match node:
            case Comparison(operator, left, right):
                return f"{self._operand(left)} {operator} {self._operand(right)}"
            case Between(operand, low, high):
                return f"{self._operand(operand)} BETWEEN {self._operand(low)} AND {self._operand(high)}"
            case Among(operand, choices):
                return f"{self._operand(operand)} IN ({self._operands(choices)})"
            case Call():
                return self._operand(node)
            case Not(term):
                return f"NOT {self._term(term, And | Or)}"
            case And(terms):
                return " AND ".join(self._term(term, And | Or) for term in terms)
            case Or(terms):
                return " OR ".join(self._term(term, Or) for term in terms)

    def _term(self, node: ConditionNode, grouped: Any) -> str:
        text = self.condition(node)
        return f"({text})" if isinstance(node, grouped) else text

    def projection(self, names: Iterable[str]) -> str:
        return ", ".join(self._name(name) for name in names)

    def update(self, actions: Iterable[UpdateAction]) -> str:
        sections: dict[str, list[str]] = {"SET": [], "REMOVE": [], "ADD": [], "DELETE": []}
        for action in actions:
            path = self._path(action.path)
            match action:
                case SetAction(_, value):
                    sections["SET"].append(f"{path} = {self._operand(value)}")
                case RemoveAction():
                    sections["REMOVE"].append(path)
                case AddAction(_, value):
                    sections["ADD"].append(f"{path} {self._operand(value)}")
                case DeleteAction(_, value):
                    sections["DELETE"].append(f"{path} {self._operand(value)}")
        return " ".join(f"{word} {', '.join(parts)}" for word, parts in sections.items() if parts)

    def _operands(self, operands: Iterable[Operand]) -> str:
        return ", ".join(map(self._operand, operands))

    def _operand(self, operand: Operand) -> str:
        match operand:
            case Path():
                return self._path(operand)
            case Reference(name):
                self._values[name] = self._given[name]
                return name
            case Call(function, operands):
                return f"{function}({self._operands(operands)})"
            case Arithmetic(operator, left, right):
                return f"{self._operand(left)} {operator} {self._operand(right)}"

    def _path(self, path: Path) -> str:
        text = self._name(path.attribute)
        for part in path.parts[1:]:
            text += f"[{part}]" if isinstance(part, int) else f".{self._name(part)}"
        return text

    def _name(self, name: str) -> str:
        return self._placeholders.setdefault(name, f"#n{len(self._placeholders)}")
