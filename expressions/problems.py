"""Which of an expression's mistakes is reported.

DynamoDB reads an expression to its end and then names one mistake: not the first in the text but the
first of the gravest kind. So a parser notes mistakes as it meets them and raises at the end. Only a
syntax error ends the reading at once.

In a condition what begins at UNDEFINED is judged within each comparison or function: the first of these
that has a mistake decides, whatever a later one has. `settle` marks where each ends.
"""

from typing import Final, NoReturn

from ..model.errors import ValidationError

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
    """The mistakes of one expression."""

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
