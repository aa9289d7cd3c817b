"""Split a PartiQL statement into tokens with positions, in one pass and without backtracking.

Comments and spaces are dropped. Keywords are the reserved words of SQL-92 and PartiQL's own: none of them can be a name
without double quotes.
"""

import re
from typing import Final

from ...model.errors import ValidationError
from ...model.lazy_dataclass import dataclass

NAME: Final = "name"
QUOTED: Final = "quoted"  # "name"
STRING: Final = "string"  # 'text'
NUMBER: Final = "number"
SYMBOL: Final = "symbol"
END: Final = "end"

NOT_WELL_FORMED: Final = "Statement wasn't well formed, can't be processed: "

# The first character decides the alternative. A quote or a comment without an end, and any other character, is UNKNOWN.
_TOKEN = re.compile(
    r"(?P<space>[ \t\r\n\f]+|--[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)"
    r"|(?P<name>[A-Za-z_$][A-Za-z0-9_$]*)"
    r"""|(?P<quoted>"[^"]*(?:""[^"]*)*")"""
    r"|(?P<string>'[^']*(?:''[^']*)*')"
    r"|(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<symbol><=|>=|<>|!=|<<|>>|\|\||/(?!\*)|[=<>()\[\]{},.:;?*+%-])",
)


@dataclass(slots=True)
class Token:
    """A piece of a statement.

    Attributes:
        text: The piece as it is written; of a string or a quoted name its content.
        word: The upper case of a name without quotes, for keywords; otherwise the text.
        line: From 1; `column` too, in characters.
        size: The number of characters with quotes.
    """

    kind: str
    text: str
    word: str
    line: int
    column: int
    size: int

    @property
    def at(self) -> str:
        """The form of DynamoDB's messages: at LINE:COLUMN:LENGTH."""
        return f"at {self.line}:{self.column}:{self.size}"

    @property
    def is_keyword(self) -> bool:
        return self.kind == NAME and self.word in KEYWORDS


def tokenize(text: str) -> list[Token]:
    """Split `text` into tokens. The last one has the kind END.

    >>> [token.text for token in tokenize("a.b >= 'it''s' -- note")]
    ['a', '.', 'b', '>=', "it's", '<EOF>']

    Raises:
        ValidationError: The text has a character that starts no token, or an open quote or comment.
    """
    tokens: list[Token] = []
    place, line, line_start = 0, 1, 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise ValidationError(NOT_WELL_FORMED)
        piece, kind = match.group(), str(match.lastgroup)
        if kind in (SYMBOL, NUMBER):
            tokens.append(Token(kind, piece, piece, line, place - line_start + 1, len(piece)))
        elif kind != "space":
            tokens.append(_token(kind, piece, line, place - line_start + 1))
        if "\n" in piece:
            line += piece.count("\n")
            line_start = place + piece.rindex("\n") + 1
        place += len(piece)
    tokens.append(Token(END, "<EOF>", "<EOF>", line, place - line_start + 1, 0))
    return tokens


def _token(kind: str, piece: str, line: int, column: int) -> Token:
    text = piece
    if kind in (QUOTED, STRING):
        quote = piece[0]
        text = piece[1:-1].replace(quote * 2, quote)
    return Token(kind, text, piece.upper() if kind == NAME else text, line, column, len(piece))


# From the SQL-92 standard, without the names of DynamoDB's types, which IS accepts.
_SQL = """
    ABSOLUTE ACTION ADD ALL ALLOCATE ALTER AND ANY ARE AS ASC ASSERTION AT AUTHORIZATION AVG BEGIN BETWEEN BIT
    BIT_LENGTH BOTH BY CASCADE CASCADED CASE CAST CATALOG CHAR CHARACTER CHARACTER_LENGTH CHAR_LENGTH CHECK CLOSE
    COALESCE COLLATE COLLATION COLUMN COMMIT CONNECT CONNECTION CONSTRAINT CONSTRAINTS CONTINUE CONVERT CORRESPONDING
    COUNT CREATE CROSS CURRENT CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP CURRENT_USER CURSOR DATE DEALLOCATE DEC
    DECIMAL DECLARE DEFAULT DEFERRABLE DEFERRED DELETE DESC DESCRIBE DESCRIPTOR DIAGNOSTICS DISCONNECT DISTINCT DOMAIN
    DOUBLE DROP ELSE END ESCAPE EXCEPT EXCEPTION EXEC EXECUTE EXISTS EXTERNAL EXTRACT FALSE FETCH FIRST FLOAT
    FOR FOREIGN FOUND FROM FULL GET GLOBAL GO GOTO GRANT GROUP HAVING IDENTITY IMMEDIATE IN INDICATOR INITIALLY INNER
    INPUT INSENSITIVE INSERT INT INTEGER INTERSECT INTERVAL INTO IS ISOLATION JOIN KEY LANGUAGE LAST LEFT LEVEL LIKE
    LOCAL LOWER MATCH MAX MIN MODULE NAMES NATIONAL NATURAL NCHAR NEXT NO NOT NULL NULLIF NUMERIC OCTET_LENGTH OF ON
    ONLY OPEN OPTION OR ORDER OUTER OUTPUT OVERLAPS PAD PARTIAL POSITION PRECISION PREPARE PRESERVE PRIMARY PRIOR
    PRIVILEGES PROCEDURE PUBLIC READ REAL REFERENCES RELATIVE RESTRICT REVOKE RIGHT ROLLBACK ROWS SCHEMA SCROLL SECTION
    SELECT SESSION SESSION_USER SET SMALLINT SOME SPACE SQL SQLCODE SQLERROR SQLSTATE SUBSTRING SUM SYSTEM_USER TABLE
    TEMPORARY THEN TIME TIMESTAMP TO TRANSACTION TRANSLATE TRANSLATION TRIM TRUE UNION UNIQUE UNKNOWN UPDATE UPPER USAGE
    USER USING VALUE VALUES VARCHAR VARYING VIEW WHEN WHENEVER WHERE WITH WORK WRITE ZONE
"""
_PARTIQL = """
    BAG BLOB BOOL BOOLEAN CLOB INDEX LET LIMIT LIST MISSING OFFSET PIVOT REMOVE RETURNING SEXP STRING STRUCT SYMBOL
    TUPLE UNPIVOT
"""

KEYWORDS: Final = frozenset((*_SQL.split(), *_PARTIQL.split()))
