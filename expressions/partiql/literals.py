"""The base of the statement parser: its tokens, and the literals of values.

A literal becomes a canonical value. The error for a value inside a collection has its path: root, root.a, root[1].
"""

from collections.abc import Container
from typing import Final, NoReturn

from ...model import numbers
from ...model.errors import ValidationError
from ...model.limits import Limits
from ...model.values import Value, check_value
from .tokens import NAME, NOT_WELL_FORMED, NUMBER, QUOTED, STRING, Token, tokenize

_EXPONENT_DIGITS: Final = 12  # more than any exponent that fits 32 bits
_DUPLICATES = "One or more parameter values were invalid: Input collection [{}] contains duplicates{}"


class LiteralReader:
    """Reads the tokens of a statement."""

    def __init__(self, text: str, limits: Limits) -> None:
        self.limits = limits
        self._tokens = tokenize(text)
        self._at = 0
        self.token = self._tokens[0]

    def advance(self) -> Token:
        """Return the token and advance to the next."""
        token = self.token
        self._at = min(self._at + 1, len(self._tokens) - 1)
        self.token = self._tokens[self._at]
        return token

    def peek(self) -> Token:
        """Return the token after the current one."""
        return self._tokens[min(self._at + 1, len(self._tokens) - 1)]

    def skip(self, symbol: str) -> bool:
        """Consume the token if it is the symbol, and return whether it was."""
        if self.token.text != symbol or self.token.kind != "symbol":
            return False
        self.advance()
        return True

    def skip_word(self, word: str) -> bool:
        """Consume the token if it is the keyword in any case, and return whether it was."""
        if self.token.word != word or self.token.kind != NAME:
            return False
        self.advance()
        return True

    def expect(self, symbol: str, name: str) -> None:
        """Consume the symbol, whose name in errors is `name`.

        Raises:
            ValidationError: The token is another.
        """
        if not self.skip(symbol):
            self.fail(f"Expected {name}")

    def fail(self, detail: str) -> NoReturn:
        """Raise the error for a text that is no statement."""
        raise ValidationError(NOT_WELL_FORMED + detail)

    def at_literal(self) -> bool:
        token = self.token
        if token.kind in (STRING, NUMBER):
            return True
        if token.kind == NAME:
            return token.word in ("TRUE", "FALSE", "NULL")
        return token.kind == "symbol" and token.text in ("[", "{", "<<", "-", "+")

    def literal(self, path: str, depth: int) -> Value:
        """Read a literal; `path` names it in errors.

        Raises:
            ValidationError: The token begins no literal, or the value breaks a rule of DynamoDB.
        """
        if depth > self.limits.depth:
            raise ValidationError(f"Nesting Levels have exceeded supported limits under {path}")
        token = self.token
        if not self.at_literal():
            self._refuse(path)
        if token.kind == STRING:
            return {"S": self.advance().text}
        if token.kind == NUMBER or token.text in ("-", "+"):
            return {"N": self._number(path)}
        self.advance()
        if token.kind == NAME:
            return {"NULL": True} if token.word == "NULL" else {"BOOL": token.word == "TRUE"}
        if token.text == "[":
            return {"L": self._list(path, depth)}
        return {"M": self._struct(path, depth)} if token.text == "{" else self._bag(path)

    def _refuse(self, path: str) -> NoReturn:
        token = self.token
        if token.text == "?" and token.kind == "symbol":
            raise ValidationError(f"Unsupported data type: Parameter under key {path} {token.at}")
        if token.kind in (NAME, QUOTED) and token.text:
            raise ValidationError(f"Unsupported data type: {token.text.lower()} under key {path} {token.at}")
        self.fail("Unexpected term")

    def _list(self, path: str, depth: int) -> list[Value]:
        elements: list[Value] = []
        while self.token.text != "]" or self.token.kind != "symbol":
            elements.append(self.literal(f"{path}[{len(elements)}]", depth + 1))
            if not self.skip(","):
                break
        self.expect("]", "RIGHT_BRACKET")
        return elements

    def _struct(self, path: str, depth: int) -> dict[str, Value]:
        members: dict[str, Value] = {}
        while self.token.text != "}" or self.token.kind != "symbol":
            name = self.member_name(members, path)
            members[name] = self.literal(f"{path}.{name}", depth + 1)
            if not self.skip(","):
                break
        self.expect("}", "RIGHT_CURLY")
        return members

    def member_name(self, members: Container[str], path: str) -> str:
        """Read the name of a struct's member, and its colon."""
        token = self.token
        if token.kind != STRING:
            self.fail("Unexpected term")
        self.advance()
        if token.text in members:
            raise ValidationError(f"Duplicate keys in tuple. Key: {token.text} under {path}")
        self.expect(":", "COLON")
        return token.text

    def _bag(self, path: str) -> Value:
        tokens: list[str] = []
        kinds: list[str] = []
        values: list[str] = []
        while self.token.text != ">>" or self.token.kind != "symbol":
            start = self._at
            ((kind, value),) = self.literal(path, 1).items()
            if kind not in ("S", "N"):
                kind, value = "", ""
            tokens.append("".join(token.text for token in self._tokens[start : self._at]))
            kinds.append(kind)
            values.append(value)
            if not self.skip(","):
                break
        self.expect(">>", "RIGHT_DOUBLE_ANGLE_BRACKET")
        if not values:
            raise ValidationError("Empty bags are not supported")
        kind = kinds[0]
        if not kind or any(each != kind for each in kinds):
            raise ValidationError(
                "Unsupported data type in Bag. DynamoDB only supports either numbers or strings in bags"
            )
        if len(dict.fromkeys(values)) < len(values):
            ending = "." if kind == "S" else f"! under {path}"
            raise ValidationError(_DUPLICATES.format(", ".join(tokens), ending))
        members: Value = {f"{kind}S": values}
        check_value(members, self.limits)
        return members

    def _number(self, path: str) -> str:
        """Read a number with its signs.

        Raises:
            ValidationError: The token after the signs is no number, or the number is not one of DynamoDB's.
        """
        negative = False
        while self.token.kind == "symbol" and self.token.text in ("-", "+"):
            negative ^= self.advance().text == "-"
        if self.token.kind != NUMBER:
            raise ValidationError("Unsupported operator in Condition Expression. Operator: -")
        text = self.advance().text
        mantissa, _, exponent = text.lower().partition("e")
        fraction = len(mantissa.partition(".")[2])
        if len(exponent) > _EXPONENT_DIGITS or not numbers.fits_32_bits(int(exponent or 0), fraction):
            raise ValidationError(NOT_WELL_FORMED)
        try:
            return numbers.canonical(f"-{text}" if negative else text)
        except ValidationError as error:
            raise ValidationError(f"{error.message} under {path}") from None
