"""Random expressions and items: by the grammar, nearly by the grammar, and of words in any order."""

import random
from collections.abc import Callable
from typing import Any

from tests.verification.fuzz.of_expressions import KINDS, VALUES, WORDS

NAMES = [*"abcdefghij", "q", "#a", "#x", "size", "status", "a_1"]
REFERENCES = [f":{letter}{more}" for letter in VALUES for more in ("", "1")]
COMPARATORS = ["=", "<>", "<", "<=", ">", ">="]
ODD = [
    *WORDS,
    *"()[],.:#+-=<>",
    " ",
    "  ",
    "\t",
    "0",
    "7",
    "99999999999",
    "é",
    "\u0000",
    "((",
    "))",
    "NOT ",
    "a.b[0]",
]
SCALARS: list[dict[str, Any]] = [
    *({"S": text} for text in ("", "S", "N", "a", "abc", "bc", "é😀")),
    *({"N": text} for text in ("0", "1", "5", "-1", "0.001", "9" * 38, "1" + "0" * 125)),
    *({"B": text} for text in ("", "AQ==", "AQID")),
    *({"NULL": True}, {"BOOL": True}, {"BOOL": False}),
    *({"SS": ["a", "b"]}, {"NS": ["1", "5"]}, {"BS": ["AQ=="]}),
]


class Expressions:
    """Draws expressions and items. The same dice draw the same ones."""

    def __init__(self, dice: random.Random) -> None:
        self.pick = dice.choice
        self.chance = dice.random
        self.below = dice.randrange
        self._languages: dict[str, Callable[[], str]] = {
            "condition": self.condition,
            "filter": self.condition,
            "key_condition": self.key_condition,
            "update": self.update,
            "projection": self.projection,
        }
        self._items = [{}, *({name: self.value(4) for name in "abcdefghij"} for _ in range(60))]

    def one(self) -> tuple[str, str]:
        """A kind of expression and a text, one in three of which is spoiled."""
        kind = self.pick(KINDS)
        if self.chance() < 0.05:
            return kind, "".join(self.pick(ODD) for _ in range(self.below(20)))
        text = self._languages[kind]()
        while self.chance() < 0.3:
            text = self.spoiled(text)
        return kind, text

    def item(self) -> dict[str, Any]:
        """An item with an attribute for each name that texts have."""
        return self.pick(self._items)

    def value(self, depth: int) -> dict[str, Any]:
        """A canonical value."""
        kind = self.below(4) if depth else 0
        if kind < 2:
            return dict(self.pick(SCALARS))
        if kind == 2:
            return {"L": [self.value(depth - 1) for _ in range(self.below(4))]}
        return {"M": {self.pick("abcdefghij"): self.value(depth - 1) for _ in range(self.below(4))}}

    # The languages

    def path(self) -> str:
        text: str = self.pick(NAMES)
        while self.chance() < 0.4:
            text += self.pick(["[0]", "[1]", "[7]", ".a", ".b", ".e", ".#x"])
        return text

    def operand(self) -> str:
        if self.chance() < 0.4:
            return self.pick(REFERENCES)
        return f"size({self.path()})" if self.chance() < 0.1 else self.path()

    def condition(self, depth: int = 3) -> str:
        kind = self.below(12)
        if depth and kind < 4:
            return (
                f"{self.condition(depth - 1)} {self.pick(['AND', 'OR', 'and'])} {self.condition(depth - 1)}"
            )
        if depth and kind == 4:
            return f"NOT {self.condition(depth - 1)}"
        if depth and kind == 5:
            return f"({self.condition(depth - 1)})"
        match self.below(8):
            case 0:
                return f"{self.operand()} BETWEEN {self.operand()} AND {self.operand()}"
            case 1:
                return f"{self.operand()} IN ({', '.join(self.operand() for _ in range(1 + self.below(4)))})"
            case 2:
                return f"attribute_{self.pick(['', 'not_'])}exists({self.path()})"
            case 3:
                return f"attribute_type({self.path()}, {self.pick([':s', ':t'])})"
            case 4 | 5:
                return f"{self.pick(['contains', 'begins_with'])}({self.operand()}, {self.operand()})"
            case _:
                return f"{self.operand()} {self.pick(COMPARATORS)} {self.operand()}"

    def key_condition(self) -> str:
        terms = [f"{self.pick('abc')} = {self.pick(REFERENCES)}"]
        if self.chance() < 0.7:
            reference = self.pick(REFERENCES)
            terms.append(
                self.pick(
                    [
                        f"d {self.pick(COMPARATORS)} {reference}",
                        f"d BETWEEN {reference} AND {self.pick(REFERENCES)}",
                        f"begins_with(d, {reference})",
                        self.condition(1),
                    ]
                )
            )
        return " AND ".join(terms)

    def term(self, depth: int = 2) -> str:
        kind = self.below(6) if depth else 0
        if kind == 4:
            return f"if_not_exists({self.path()}, {self.term(depth - 1)})"
        if kind == 5:
            return f"list_append({self.term(depth - 1)}, {self.term(depth - 1)})"
        return str(self.pick(REFERENCES)) if kind % 2 else self.path()

    def update(self) -> str:
        clauses = []
        for verb in ("SET", "REMOVE", "ADD", "DELETE"):
            if self.chance() < 0.45:
                clauses.append(f"{verb} {', '.join(self.action(verb) for _ in range(1 + self.below(3)))}")
        return " ".join(clauses) or "SET a = b"

    def action(self, verb: str) -> str:
        if verb == "REMOVE":
            return self.path()
        if verb != "SET":
            return f"{self.path()} {self.pick(REFERENCES)}"
        more = f" {self.pick('+-')} {self.term()}" if self.chance() < 0.3 else ""
        return f"{self.path()} = {self.term()}{more}"

    def projection(self) -> str:
        return ", ".join(self.path() for _ in range(1 + self.below(5)))

    def spoiled(self, text: str) -> str:
        """The text with something in it changed."""
        at = self.below(len(text) + 1)
        match self.below(5):
            case 0:
                return f"{text[:at]}{self.pick(ODD)}{text[at:]}"
            case 1:
                return text[:at] + text[at + 1 :]
            case 2:
                return text[:at]
            case 3:
                between: str = self.pick(["", " ", ", ", " AND "])
                return (text + between) * int(self.pick([2, 3, 40]))
            case _:
                start = self.below(at + 1)
                return text[:start] + text[at:] + text[start:at]
