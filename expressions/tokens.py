"""From text to tokens, in one pass and without backtracking.

A character that starts no token is a token of its own, of kind UNKNOWN: whether it is an error, and
where, is for the parser to say, which knows what it expected.
"""

import re
from dataclasses import dataclass
from typing import Final

NAME: Final = "name"
ALIAS: Final = "alias"  # #name
REFERENCE: Final = "reference"  # :value
NUMBER: Final = "number"
SYMBOL: Final = "symbol"
UNKNOWN: Final = "unknown"
END: Final = "end"

# Each alternative is decided by its first character, so the pattern never goes back.
_TOKEN = re.compile(
    r"(?P<name>[A-Za-z][A-Za-z0-9_]*)"
    r"|(?P<alias>#[A-Za-z0-9_]+)"
    r"|(?P<reference>:[A-Za-z0-9_]+)"
    r"|(?P<number>[0-9]+)"
    r"|(?P<symbol><=|>=|<>|[=<>()\[\],.+-])"
    r"|(?P<space>[ \t\r\n]+)"
    r"|(?P<unknown>.)",
    re.DOTALL,
)


@dataclass(slots=True)
class Token:
    """A piece of an expression; `word` is its upper case, for keywords."""

    kind: str
    text: str
    start: int
    end: int
    word: str


def tokenize(text: str) -> list[Token]:
    """Cut `text` into tokens, the last of them of kind END.

    >>> [token.text for token in tokenize("a.b>=:v")]
    ['a', '.', 'b', '>=', ':v', '<EOF>']
    """
    tokens = []
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind != "space":
            piece = match.group()
            word = piece.upper() if kind == NAME else piece
            tokens.append(Token(str(kind), piece, match.start(), match.end(), word))
    last = tokens[-1].end if tokens else 0
    tokens.append(Token(END, "<EOF>", last, last, "<EOF>"))
    return tokens
