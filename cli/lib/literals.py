"""Literals and reserved words in expressions of the command line: `size = size + 1`, `status = 'new'`.

DynamoDB needs a placeholder for every value, and for every attribute whose name is one of its 573 reserved words. On
a command line both may be written directly, and are replaced before the expression is sent:

    n < 10 AND colour = 'red'   ->   n < :_1 AND colour = :_2     {":_1": 10, ":_2": "red"}
    size = size + 1             ->   #_1 = #_1 + :_1              {"#_1": "size"}, {":_1": 1}

Literals are numbers, strings in quotes ('it''s' has one quote), and true, false and null. Other values need
--value :x=JSON. The context of a word decides its meaning:

    word                           an operand is expected         after an operand
    and, or, between, in           attribute                      operator
    not                            operator; attribute before an operator, a comma or the end
    set, remove, add, delete       attribute                      the next part of an update
    true, false, null              literal; attribute as the target of an update, and next to a dot or an index
    size, and any word before (    function
    other reserved words           attribute

A word before another word that is not an operator is sent unchanged, and DynamoDB reports the error.
"""

import re
from collections.abc import Mapping
from decimal import Decimal
from itertools import count, pairwise

from ...model.lazy_dataclass import dataclass
from ...model.values import Item
from .errors import CommandError, ExitCode
from .values import Plain, read_json, typed

_TOKEN = re.compile(
    r"""
      (?P<string>'(?:[^']|'')*'|"(?:[^"]|"")*")
    | (?P<index>\[\s*\d+\s*\])                 # the index of a list is not a value
    | (?P<placeholder>[:\#][A-Za-z0-9_]+)
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)(?!\w)
    | (?P<symbol>\S)
    """,
    re.VERBOSE,
)
_WORDS: dict[str, Plain] = {"true": True, "false": False, "null": None}
_OPERATORS = frozenset(("AND", "OR", "BETWEEN", "IN"))
_PARTS = frozenset(("SET", "REMOVE", "ADD", "DELETE"))
_END = "end"


@dataclass(frozen=True, slots=True)
class _Token:
    """A token of an expression, and the white space before it."""

    kind: str
    text: str
    space: str

    @property
    def word(self) -> str:
        """Return the word in upper case, or "" for another token."""
        return self.text.upper() if self.kind == "word" else ""


class Lifted:
    """The placeholders of one request, collected from all its expressions."""

    def __init__(self, names: list[str], values: list[str]) -> None:
        self.names = dict(_name(text) for text in names)
        self.values: Item = dict(_value(text) for text in values)
        self._aliases: dict[str, str] = {}

    def lift(self, expression: str, *, is_update: bool = False) -> str:
        """Return the expression with placeholders for its literals and its reserved words.

        Args:
            expression: A condition, or the paths and values of an update without SET, REMOVE, ADD or DELETE.
            is_update: Whether the expression is an update, which begins with the path that it changes.
        """
        tokens = _tokens(expression)
        written = ""
        depth = 0
        before = _Token(_END, "", "")
        is_due = True  # an operand is expected, not an operator
        is_target = is_update
        for token, after in pairwise(tokens):
            text, was_due = token.text, is_due
            is_due = False
            match token.kind:
                case "string":
                    quote = text[0]
                    text = self.add(text[1:-1].replace(quote * 2, quote))
                case "number" if text.startswith("-") and not was_due:
                    text = f"- {self.add(Decimal(text[1:]))}"  # the minus of `n -1` is an operator
                case "number":
                    text = self.add(Decimal(text))
                case "word" if before.text == ".":
                    text = self._attribute(text)
                case "word" if was_due:
                    text = self._operand(token, after, is_target=is_target)
                    is_due = text == token.text and (token.word == "NOT" or after.text == "(")
                case "word":
                    is_due = token.word in _OPERATORS | _PARTS
                case "symbol":
                    depth += (text == "(") - (text == ")")
                    is_due = text not in ").]"
            is_target = is_update and depth == 0 and (text == "," or (token.word in _PARTS and not was_due))
            written += token.space + text
            before = token
        return written + tokens[-1].space

    def add(self, value: Plain) -> str:
        """Return a new placeholder of a value."""
        placeholder = _free(":", self.values)
        self.values[placeholder] = typed(value)
        return placeholder

    def alias(self, name: str) -> str:
        """Return a placeholder of an attribute name, followed by its list indexes."""
        bare, bracket, index = name.partition("[")
        if bare.startswith("#"):
            return name
        if bare not in self._aliases:
            self._aliases[bare] = _free("#", self.names)
            self.names[self._aliases[bare]] = bare
        return self._aliases[bare] + bracket + index

    def paths(self, text: str) -> str:
        """Return the ProjectionExpression of `a,b.c`, with a placeholder for every name.

        Raises:
            CommandError: A name is empty.
        """
        if not all(name.strip() for path in text.split(",") for name in path.split(".")):
            raise CommandError(f"--select '{text}' has an empty name: write a,b.c", ExitCode.USAGE)
        return ", ".join(".".join(map(self.alias, path.strip().split("."))) for path in text.split(","))

    def body(self) -> dict[str, object]:
        """Return the members of the request, without empty ones, which DynamoDB refuses."""
        body: dict[str, object] = {}
        if self.names:
            body["ExpressionAttributeNames"] = self.names
        if self.values:
            body["ExpressionAttributeValues"] = self.values
        return body

    def _operand(self, token: _Token, after: _Token, *, is_target: bool) -> str:
        """Return the word, or its placeholder, where an operand is expected."""
        is_path = after.kind == "index" or after.text == "."
        if after.text == "(":
            return token.text
        if token.text.lower() in _WORDS and not is_target and not is_path:
            return self.add(_WORDS[token.text.lower()])
        if token.word == "NOT" and not is_path and not _ends_an_operand(after):
            return token.text
        if after.kind == "word" and after.word not in _OPERATORS | _PARTS:
            return token.text
        return self._attribute(token.text)

    def _attribute(self, word: str) -> str:
        """Return the name of an attribute, or its placeholder if the name is reserved."""
        from ...expressions.tokens import is_reserved

        return self.alias(word) if is_reserved(word) else word


def _tokens(expression: str) -> list[_Token]:
    """Return the tokens of an expression, and an end token."""
    tokens, end = [], 0
    for match in _TOKEN.finditer(expression):
        tokens.append(_Token(str(match.lastgroup), match[0], expression[end : match.start()]))
        end = match.end()
    return [*tokens, _Token(_END, "", expression[end:])]


def _ends_an_operand(after: _Token) -> bool:
    """Return whether the token after a word shows that the word is an operand."""
    return after.kind == _END or after.word in _OPERATORS or after.text in ("=", "<", ">", ")", ",", "+", "-")


def _free(prefix: str, used: Mapping[str, object]) -> str:
    """Return a placeholder that is not in use."""
    return next(name for index in count(len(used) + 1) if (name := f"{prefix}_{index}") not in used)


def _name(text: str) -> tuple[str, str]:
    placeholder, equals, name = text.partition("=")
    if not equals or not placeholder.startswith("#"):
        raise CommandError(f"--name {text}: write --name '#n=NAME'", ExitCode.USAGE)
    return placeholder, name


def _value(text: str) -> tuple[str, dict[str, object]]:
    placeholder, equals, value = text.partition("=")
    if not equals or not placeholder.startswith(":"):
        raise CommandError(f"--value {text}: write --value ':x=JSON'", ExitCode.USAGE)
    return placeholder, typed(read_json(value, f"--value {placeholder}"))
