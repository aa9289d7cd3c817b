"""Values written straight into an expression: `n = n + 1`, `colour = 'red'`.

DynamoDB wants every value as a placeholder. On a command line that is a burden, so literals are
lifted out before the expression is sent:

    n < 10 AND colour = 'red'   ->   n < :_1 AND colour = :_2     {":_1": 10, ":_2": "red"}

Lifted are numbers, strings in quotes ('it''s' holds one quote), and true, false and null, which
are reserved words and so never the name of an attribute. Anything else is given by --value :x=JSON.
"""

import re
from decimal import Decimal

from ..model.values import Item
from .failures import CommandError, ExitCode
from .values import Plain, read_json, typed

_TOKEN = re.compile(
    r"""
      (?P<string>'(?:[^']|'')*'|"(?:[^"]|"")*")
    | (?P<index>\[\s*\d+\s*\])                 # of a list: no value
    | (?P<word>[:\#]?[A-Za-z_][A-Za-z0-9_]*)
    | (?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)(?!\w)
    """,
    re.VERBOSE,
)
_WORDS: dict[str, Plain] = {"true": True, "false": False, "null": None}


class Lifted:
    """The names and values of one request, collected from all its expressions."""

    def __init__(self, names: list[str], values: list[str]) -> None:
        self.names = dict(_name(text) for text in names)
        self.values: Item = dict(_value(text) for text in values)

    def lift(self, expression: str) -> str:
        """The expression with its literals replaced by placeholders."""
        return _TOKEN.sub(self._replace, expression)

    def add(self, value: Plain) -> str:
        """The placeholder of a value."""
        placeholder = f":_{len(self.values) + 1}"
        self.values[placeholder] = typed(value)
        return placeholder

    def alias(self, name: str) -> str:
        """A placeholder for an attribute name that may be a reserved word; list indexes stay behind it."""
        bare, bracket, index = name.partition("[")
        if bare.startswith("#"):
            return name
        placeholder = f"#_{len(self.names) + 1}"
        self.names[placeholder] = bare
        return placeholder + bracket + index

    def paths(self, text: str) -> str:
        """A ProjectionExpression for `a,b.c`: every name goes by a placeholder, so any name will do."""
        if not all(name.strip() for path in text.split(",") for name in path.split(".")):
            raise CommandError(f"--select '{text}' has an empty name: write a,b.c", ExitCode.USAGE)
        return ", ".join(".".join(map(self.alias, path.strip().split("."))) for path in text.split(","))

    def body(self) -> dict[str, object]:
        """The members of the request; DynamoDB refuses empty ones."""
        body: dict[str, object] = {}
        if self.names:
            body["ExpressionAttributeNames"] = self.names
        if self.values:
            body["ExpressionAttributeValues"] = self.values
        return body

    def _replace(self, match: re.Match[str]) -> str:
        text = match.group()
        match match.lastgroup:
            case "string":
                quote = text[0]
                return self.add(text[1:-1].replace(quote * 2, quote))
            case "number" if text.startswith("-") and _ends_an_operand(match.string[: match.start()]):
                return f"- {self.add(Decimal(text[1:]))}"  # the minus of `n -1` is an operator
            case "number":
                return self.add(Decimal(text))
            case "word" if text.lower() in _WORDS:
                return self.add(_WORDS[text.lower()])
        return text


def _ends_an_operand(before: str) -> bool:
    last = before.rstrip()[-1:]
    return last.isalnum() or last in ("_", ")", "]", "'", '"')


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
