"""Parse updates.

update   ::= section+                          each kind at most once
section  ::= SET path "=" sum { "," path "=" sum } | REMOVE path { "," path }
           | ADD path :value { "," path :value } | DELETE path :value { "," path :value }
sum      ::= "(" sum ")" | operand [ ("+" | "-") operand ]
operand  ::= "(" operand ")" | function | path | :value
function ::= name "(" operands ")"
"""

from collections.abc import Callable
from typing import Final

from .parser import (
    ACTION_OPERAND,
    FUNCTION_NAME,
    FUNCTION_USE,
    OPERAND,
    PARENTHESES,
    SECTION,
    Parser,
)
from .projections import CompiledProjection, PathTree
from .tokens import END, NAME, REFERENCE
from .tree import (
    AddAction,
    Arithmetic,
    Call,
    DeleteAction,
    Operand,
    Path,
    Reference,
    RemoveAction,
    SetAction,
    UpdateAction,
)

_CONDITION_FUNCTIONS: Final = frozenset(
    {"attribute_exists", "attribute_not_exists", "attribute_type", "begins_with", "contains", "size"}
)
_LONG_NAMES: Final = {
    "S": "STRING",
    "N": "NUMBER",
    "B": "BINARY",
    "NULL": "NULL",
    "BOOL": "BOOLEAN",
    "L": "LIST",
    "M": "MAP",
}

_SUM, _GROUP, _CALL = range(3)


class _Frame:
    """An open part of the right side of a SET: the sum itself, a parenthesis, a call."""

    __slots__ = ("function", "kind", "left", "operands", "operator")

    def __init__(self, kind: int, function: str = "") -> None:
        self.kind = kind
        self.function = function
        self.operands: list[Operand] = []
        self.operator = ""
        self.left: Operand | None = None


class UpdateParser(Parser):
    """Parses an update."""

    keywords = frozenset({"SET", "REMOVE", "ADD", "DELETE"})

    def parse(self) -> tuple[UpdateAction, ...]:
        """Parse the expression.

        Raises:
            ValidationError: The expression is invalid.
        """
        self._targets = PathTree(self.problems)
        readers: dict[str, Callable[[], UpdateAction]] = {
            "SET": self._set,
            "REMOVE": self._remove,
            "ADD": self._add,
            "DELETE": self._delete,
        }
        actions: list[UpdateAction] = []
        seen: dict[str, None] = {}
        while True:
            section = self.token.word
            if self.token.kind != NAME or section not in readers:
                self.syntax_error()
            self.advance()
            actions.append(readers[section]())
            while self.skip(","):
                actions.append(readers[section]())
            if section in seen:
                self.problems.note(
                    SECTION, f'The "{section}" section can only be used once in an update expression;'
                )
            seen[section] = None
            if self.token.kind == END:
                break
        self.finish()
        return tuple(actions)

    @property
    def targets(self) -> CompiledProjection:
        """The target paths of the update, with the indexes of its actions."""
        return CompiledProjection(self._targets.steps)

    def _set(self) -> UpdateAction:
        path = self._target()
        self.expect("=")
        self.count_operator()
        return SetAction(path, self._sum())

    def _remove(self) -> UpdateAction:
        return RemoveAction(self._target())

    def _add(self) -> UpdateAction:
        path, value = self._target(), self.reference()
        self.count_operator()
        self._check_action("ADD", value)
        return AddAction(path, value)

    def _delete(self) -> UpdateAction:
        path, value = self._target(), self.reference()
        self.count_operator()
        self._check_action("DELETE", value)
        return DeleteAction(path, value)

    def _target(self) -> Path:
        path = self.path()
        self._targets.add(path)
        return path

    def _check_action(self, action: str, value: Reference) -> None:
        type_name = self.type_of(value)
        if type_name in _LONG_NAMES and not (action == "ADD" and type_name == "N"):
            self.problems.note(
                ACTION_OPERAND,
                "Incorrect operand type for operator or function; "
                f"operator: {action}, operand type: {_LONG_NAMES[type_name]}",
            )

    def _sum(self) -> Operand:
        self._frames = [_Frame(_SUM)]
        value = None
        while value is None:
            value = self._attach(self._first_operand())
        return value

    def _first_operand(self) -> Operand:
        """Open all frames that begin at the token, and parse their first operand."""
        while True:
            token = self.token
            if self.skip("("):
                self._frames.append(_Frame(_GROUP))
            elif token.kind == REFERENCE:
                return self.reference()
            elif token.kind == NAME and self.at_name() and self.next_is("("):
                self.advance()
                self.advance()
                self.count_operator()
                self._frames.append(_Frame(_CALL, token.text))
            else:
                return self.path()

    def _attach(self, node: Operand) -> Operand | None:
        """Add `node` to the open frames and close the frames that end; return None if another operand must follow."""
        grouped = False
        while True:
            frame = self._frames[-1]
            if frame.kind == _CALL:
                frame.operands.append(node)
                if self.skip(","):
                    return None
                self.expect(")")
                self._frames.pop()
                node, grouped = self._close_call(frame), False
                continue
            if frame.left is not None:
                node, grouped = self._close_arithmetic(frame, frame.left, node), False
            elif self.token.text in ("+", "-") and self._takes_arithmetic(node):
                frame.operator, frame.left = self.advance().text, node
                self.count_operator()
                return None
            if frame.kind == _SUM:
                return node
            self.expect(")")
            self._frames.pop()
            if grouped:
                self.problems.note(PARENTHESES, "The expression has redundant parentheses;")
            grouped = True

    def _takes_arithmetic(self, left: Operand) -> bool:
        """Return whether + or - may follow `left`: once in a SET, and never inside a function."""
        return not isinstance(left, Arithmetic) and all(
            frame.kind != _CALL and frame.left is None for frame in self._frames
        )

    def _close_arithmetic(self, frame: _Frame, left: Operand, right: Operand) -> Arithmetic:
        frame.left = None
        for operand in (left, right):
            self._check_type(frame.operator, operand, "N")
        return Arithmetic(frame.operator, left, right)

    def _close_call(self, frame: _Frame) -> Call:
        call = Call(frame.function, tuple(frame.operands))
        name, count = call.function, len(call.operands)
        for operand in call.operands:
            if isinstance(operand, Call) and operand.function == "list_append":
                self.problems.note(
                    FUNCTION_USE,
                    "The function is not allowed to be used this way in an expression; function: list_append",
                )
        if name in _CONDITION_FUNCTIONS:
            self.problems.note(
                FUNCTION_NAME, f"The function is not allowed in an update expression; function: {name}"
            )
        elif name not in ("if_not_exists", "list_append"):
            self.problems.note(FUNCTION_NAME, f"Invalid function name; function: {name}")
        elif count != 2:
            self.problems.note(
                OPERAND,
                "Incorrect number of operands for operator or function; "
                f"operator or function: {name}, number of operands: {count}",
            )
        elif name == "list_append":
            for operand in call.operands:
                self._check_type(name, operand, "L")
        elif not isinstance(call.operands[0], Path):
            self.problems.note(
                OPERAND, f"Operator or function requires a document path; operator or function: {name}"
            )
        return call

    def _check_type(self, operator: str, operand: Operand, wanted: str) -> None:
        if isinstance(operand, Reference):
            type_name = self.type_of(operand)
            if type_name is not None and type_name != wanted:
                self.wrong_type(operator, type_name)
