"""The base of the parsers: tokens, document paths, placeholders and errors.

The parsers are not recursive: open parentheses, calls and lists are frames in a list. So 4,096 opening parentheses are
an ordinary error and do not exhaust Python's stack, and the time is linear in the text.
"""

from collections.abc import Mapping
from typing import Any, Final, NoReturn, TypeAlias

from ..model.errors import ValidationError
from ..model.limits import Limits
from ..model.values import Value
from .tokens import ALIAS, NAME, NUMBER, REFERENCE, ExpressionToken, is_reserved, tokenize
from .tree import Call, Operand, Path, Reference

Names: TypeAlias = dict[str, str] | None
Values: TypeAlias = dict[str, Value] | None

_HIGHEST_INDEX: Final = 2**31 - 1
_UNSIZED: Final = (
    "FilterExpression",
    "UpdateExpression",
)  # DynamoDB names the size of the others that are too large
_LONGEST_MESSAGE: Final = 1024  # characters; some messages repeat the client's text, which may have 4 KB

# Kinds of errors. The lowest number takes precedence.
PARENTHESES: Final = 0
FUNCTION_NAME: Final = 1
FUNCTION_USE: Final = 2
RESERVED_WORD: Final = 3
LIMIT: Final = 4
SECTION: Final = 5
UNDEFINED: Final = 6  # a name; in a condition a value as well, whichever comes first
UNDEFINED_VALUE: Final = 7
OVERLAP: Final = 8
CONFLICT: Final = 9
OPERAND_COUNT: Final = 10
SAME_OPERANDS: Final = 11
ACTION_OPERAND: Final = 12
OPERAND: Final = 13


class Problems:
    """The errors of one expression, of which one is reported.

    DynamoDB parses an expression to its end and then reports one error: the first of the kind with precedence. So a
    parser notes errors and raises one at the end. Only a syntax error ends parsing at once.

    In a condition the kinds from UNDEFINED on compete within one comparison or function: the first of these with an
    error decides. `settle` marks the end of each.
    """

    __slots__ = ("_found", "_parameter", "_settled")

    def __init__(self, parameter: str) -> None:
        self._parameter = parameter
        self._found: dict[int, str] = {}
        self._settled: str | None = None

    def note(self, kind: int, message: str) -> None:
        """Add an error, unless its kind has one already."""
        self._found.setdefault(kind, message)

    def settle(self) -> None:
        """Mark the end of a comparison or function of a condition."""
        if self._settled is None:
            settled = [kind for kind in self._found if kind >= UNDEFINED]
            if settled:
                self._settled = self._found[min(settled)]

    def fail(self, message: str) -> NoReturn:
        """Raise the error for this expression."""
        raise ValidationError(f"Invalid {self._parameter}: {message[:_LONGEST_MESSAGE]}")

    def raise_first(self) -> None:
        """Raise the error with precedence, if there is any."""
        if self._found:
            kind = min(self._found)
            unsettled = kind < UNDEFINED or self._settled is None
            self.fail(self._found[kind] if unsettled else str(self._settled))


class Scope:
    """The placeholders of a request, and those that its expressions use."""

    __slots__ = ("names", "used_names", "used_values", "values")

    def __init__(self, names: Names, values: Values) -> None:
        self.names: Mapping[str, str] = names or {}
        self.values: Mapping[str, Value] = values or {}
        self.used_names: dict[str, None] = {}
        self.used_values: dict[str, None] = {}


class Parser:
    """Parses one expression. Each language is a subclass."""

    keywords: frozenset[str] = frozenset()
    undefined_value = UNDEFINED_VALUE

    def __init__(self, parameter: str, text: str, scope: Scope, limits: Limits) -> None:
        self.problems = Problems(parameter)
        self.scope = scope
        self.limits = limits
        self.attributes: dict[str, None] = {}  # top-level attributes named, in order
        self.nested: dict[str, None] = {}  # the attributes with nested paths
        self.operators = 0
        if not text:
            self.problems.fail("The expression can not be empty;")
        size = len(text.encode("utf-8", "replace"))
        if size > limits.expression_bytes:
            sized = "" if parameter in _UNSIZED else f" expression size: {size}"
            self.problems.fail(f"Expression size has exceeded the maximum allowed size;{sized}")
        self._text = text
        self._tokens = tokenize(text)
        self._at = 0
        self.token = self._tokens[0]

    def advance(self) -> ExpressionToken:
        """Return the token and advance to the next."""
        token = self.token
        self._at += 1
        self.token = self._tokens[self._at]
        return token

    def skip(self, text: str) -> bool:
        """Consume the token if it is the symbol `text`, and return whether it was."""
        if self.token.text != text:
            return False
        self.advance()
        return True

    def skip_word(self, word: str) -> bool:
        """Consume the token if it is the keyword `word` in any case, and return whether it was."""
        if self.token.word != word or self.token.kind != NAME:
            return False
        self.advance()
        return True

    def next_is(self, text: str) -> bool:
        """Return whether the next token is the symbol `text`."""
        return self._tokens[min(self._at + 1, len(self._tokens) - 1)].text == text

    def expect(self, text: str) -> None:
        """Consume the symbol `text`, or raise a syntax error."""
        if not self.skip(text):
            self.syntax_error()

    def syntax_error(self) -> NoReturn:
        """Raise a syntax error at the token; the message quotes its neighbours."""
        first = self._tokens[max(self._at - 1, 0)]
        last = self._tokens[min(self._at + 1, len(self._tokens) - 1)]
        near = self._text[first.start : last.end]
        self.problems.fail(f'Syntax error; token: "{self.token.text}", near: "{near}"')

    def count_operator(self) -> None:
        """Count an operator or function for the limit."""
        self.operators += 1

    def finish(self) -> None:
        """Raise the error of a completely parsed expression, if there is any."""
        most = self.limits.expression_operators
        if self.operators > most:
            # DynamoDB stops counting here.
            self.problems.note(
                LIMIT, f"The expression contains too many operators; operator count: {most + 1}"
            )
        self.problems.raise_first()

    def at_name(self) -> bool:
        """Return whether the token is a name or `#name`, and not a keyword."""
        token = self.token
        return token.kind == ALIAS or (token.kind == NAME and token.word not in self.keywords)

    def path(self) -> Path:
        if not self.at_name():
            self.syntax_error()
        parts: list[str | int] = [self._name()]
        self._read_steps(parts)
        return self._finish_path(parts)

    def extend(self, path: Path) -> Path:
        """Parse the rest of a path after its part in parentheses: (a.b).c."""
        parts = list(path.parts)
        self._read_steps(parts)
        return self._finish_path(parts)

    def _read_steps(self, parts: list[str | int]) -> None:
        while True:
            if self.skip("."):
                if not self.at_name():
                    self.syntax_error()
                parts.append(self._name())
            elif self.skip("["):
                if self.token.kind != NUMBER:
                    self.syntax_error()
                parts.append(self._index())
                self.expect("]")
            else:
                return

    def _finish_path(self, parts: list[str | int]) -> Path:
        if len(parts) > self.limits.path_depth:
            self.problems.note(
                LIMIT,
                f"The document path has too many nesting levels; nesting levels: {len(parts)}",
            )
        path = Path(tuple(parts))
        self.attributes[path.attribute] = None
        if len(parts) > 1:
            self.nested[path.attribute] = None
        return path

    def _name(self) -> str:
        token = self.advance()
        if token.kind == NAME:
            if is_reserved(token.text):
                self.problems.note(
                    RESERVED_WORD,
                    f"Attribute name is a reserved keyword; reserved keyword: {token.text}",
                )
            return token.text
        name = self.scope.names.get(token.text)
        if name is None:
            self.problems.note(
                UNDEFINED,
                "An expression attribute name used in the document path is not defined; "
                f"attribute name: {token.text}",
            )
            return token.text
        self.scope.used_names[token.text] = None
        return name

    def _index(self) -> int:
        digits = self.advance().text
        index = int(digits) if len(digits) <= 10 else _HIGHEST_INDEX + 1
        if index > _HIGHEST_INDEX:
            self.problems.note(LIMIT, f"List index is not within the allowable range; index: [{digits[:20]}]")
        return index

    def reference(self) -> Reference:
        if self.token.kind != REFERENCE:
            self.syntax_error()
        name = self.advance().text
        if name in self.scope.values:
            self.scope.used_values[name] = None
        else:
            self.problems.note(
                self.undefined_value,
                f"An expression attribute value used in expression is not defined; attribute value: {name}",
            )
        return Reference(name)

    def literal(self, operand: Operand) -> dict[str, Any] | None:
        """Return the value of a placeholder; None for other operands and for an undefined placeholder."""
        return self.scope.values.get(operand.name) if isinstance(operand, Reference) else None

    def type_of(self, operand: Operand) -> str | None:
        """Return the type of an operand that is known without an item: its value's, or N for size()."""
        if isinstance(operand, Call):
            return "N" if operand.function == "size" else None
        value = self.literal(operand)
        return None if value is None else next(iter(value))

    def wrong_type(self, operator: str, type_name: str) -> None:
        """Note an operand of a type that the operator or function does not accept."""
        self.problems.note(
            OPERAND,
            "Incorrect operand type for operator or function; "
            f"operator or function: {operator}, operand type: {type_name}",
        )
