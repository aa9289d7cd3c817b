"""What the languages share: tokens, document paths, placeholders, and when to stop.

A parser here never calls itself: what is open (parentheses, calls, lists) stands on a list of frames. So
4,096 opening parentheses are a mistake like any other and not the end of Python's stack, and the
time is linear in the text.
"""

from collections.abc import Mapping
from typing import Any, Final, NoReturn, TypeAlias

from ..model.errors import ValidationError
from ..model.limits import Limits
from ..model.values import Value
from .tokens import ALIAS, NAME, NUMBER, REFERENCE, Token, is_reserved, tokenize
from .tree import Call, Operand, Path, Reference

Names: TypeAlias = Mapping[str, str] | None
Values: TypeAlias = Mapping[str, Value] | None

_HIGHEST_INDEX: Final = 2**31 - 1
_LONGEST_MESSAGE: Final = 1024  # some messages repeat what the client wrote, which may be 4 KB

# From the gravest to the lightest.
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
    """The mistakes of one expression, and which of them is reported.

    DynamoDB reads an expression to its end and then names one mistake: not the first in the text but the first
    of the gravest kind. So a parser notes mistakes as it meets them and raises at the end. Only a syntax error
    ends the reading at once.

    In a condition what begins at UNDEFINED is judged within each comparison or function: the first of these
    that has a mistake decides, whatever a later one has. `settle` marks where each ends.
    """

    __slots__ = ("_found", "_parameter", "_settled")

    def __init__(self, parameter: str) -> None:
        self._parameter = parameter
        self._found: dict[int, str] = {}
        self._settled: str | None = None

    def note(self, kind: int, message: str) -> None:
        """Remember a mistake, unless one of its kind was met before."""
        self._found.setdefault(kind, message)

    def settle(self) -> None:
        """End a comparison or function of a condition."""
        if self._settled is None:
            lightest = [kind for kind in self._found if kind >= UNDEFINED]
            if lightest:
                self._settled = self._found[min(lightest)]

    def fail(self, message: str) -> NoReturn:
        """Raise at once."""
        raise ValidationError(f"Invalid {self._parameter}: {message[:_LONGEST_MESSAGE]}")

    def raise_gravest(self) -> None:
        """Raise the mistake to report, if there is any."""
        if self._found:
            kind = min(self._found)
            graver = kind < UNDEFINED or self._settled is None
            self.fail(self._found[kind] if graver else str(self._settled))


class Scope:
    """The placeholders of a request, and which of them its expressions used."""

    __slots__ = ("names", "used_names", "used_values", "values")

    def __init__(self, names: Names, values: Values) -> None:
        self.names: Mapping[str, str] = names or {}
        self.values: Mapping[str, Value] = values or {}
        self.used_names: dict[str, None] = {}
        self.used_values: dict[str, None] = {}


class Parser:
    """Reads one expression. Subclasses know a language."""

    keywords: frozenset[str] = frozenset()
    undefined_value = UNDEFINED_VALUE

    def __init__(self, parameter: str, text: str, scope: Scope, limits: Limits) -> None:
        self.problems = Problems(parameter)
        self.scope = scope
        self.limits = limits
        self.attributes: dict[str, None] = {}  # top-level attributes named, in order
        self.nested: dict[str, None] = {}  # those of them that a path goes into
        self.operators = 0
        if not text:
            self.problems.fail("The expression can not be empty;")
        size = len(text.encode("utf-8", "replace"))
        if size > limits.expression_bytes:
            self.problems.fail(
                f"Expression size has exceeded the maximum allowed size; expression size: {size}"
            )
        self._text = text
        self._tokens = tokenize(text)
        self._at = 0
        self.token = self._tokens[0]

    def advance(self) -> Token:
        """Take the token and go to the next."""
        token = self.token
        self._at += 1
        self.token = self._tokens[self._at]
        return token

    def skip(self, text: str) -> bool:
        """Take the token if it is the symbol `text`."""
        if self.token.text != text:
            return False
        self.advance()
        return True

    def skip_word(self, word: str) -> bool:
        """Take the token if it is the keyword `word`, in any case."""
        if self.token.word != word or self.token.kind != NAME:
            return False
        self.advance()
        return True

    def next_is(self, text: str) -> bool:
        """Whether the token after this one is the symbol `text`."""
        return self._tokens[min(self._at + 1, len(self._tokens) - 1)].text == text

    def expect(self, text: str) -> None:
        """Take the symbol `text`, or fail."""
        if not self.skip(text):
            self.syntax_error()

    def syntax_error(self) -> NoReturn:
        """Fail at the token; the message shows its neighbours as they stand in the text."""
        first = self._tokens[max(self._at - 1, 0)]
        last = self._tokens[min(self._at + 1, len(self._tokens) - 1)]
        near = self._text[first.start : last.end]
        self.problems.fail(f'Syntax error; token: "{self.token.text}", near: "{near}"')

    def count_operator(self) -> None:
        """Count towards the limit on operators and functions."""
        self.operators += 1

    def finish(self) -> None:
        """Raise what is wrong with an expression that was read to its end."""
        most = self.limits.expression_operators
        if self.operators > most:
            # DynamoDB stops counting here.
            self.problems.note(
                LIMIT, f"The expression contains too many operators; operator count: {most + 1}"
            )
        self.problems.raise_gravest()

    def at_name(self) -> bool:
        """Whether the token is a name or `#name`, and not a keyword."""
        token = self.token
        return token.kind == ALIAS or (token.kind == NAME and token.word not in self.keywords)

    def path(self) -> Path:
        """Read a document path."""
        if not self.at_name():
            self.syntax_error()
        parts: list[str | int] = [self._name()]
        self._read_steps(parts)
        return self._finish_path(parts)

    def extend(self, path: Path) -> Path:
        """Go on with a path that stood in parentheses: (a.b).c."""
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
        """Read a value placeholder."""
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
        """The value behind a placeholder; None for any other operand, and for an undefined one."""
        return self.scope.values.get(operand.name) if isinstance(operand, Reference) else None

    def type_of(self, operand: Operand) -> str | None:
        """The type an operand is known to have before any item is seen: that of its value, or N for size()."""
        if isinstance(operand, Call):
            return "N" if operand.function == "size" else None
        value = self.literal(operand)
        return None if value is None else next(iter(value))

    def wrong_type(self, operator: str, type_name: str) -> None:
        """Note an operand of a type that the operator or function does not take."""
        self.problems.note(
            OPERAND,
            "Incorrect operand type for operator or function; "
            f"operator or function: {operator}, operand type: {type_name}",
        )
