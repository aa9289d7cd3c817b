"""Each regular expression of the project matches in linear time, also if a client wrote the text.

Python's `re` backtracks. Two repetitions that can share a run of one character, such as `[a-z]+\\w*`,
try each way to divide it when the rest does not match: with three, a text of ten thousand characters stops a server
for half an hour ("Regular expression Denial of Service", OWASP). Such pairs are refused here, and a repetition inside
a repetition too. Runs of several characters, such as `(ab)*(ab)*`, are not examined.
"""

import ast
import re
from collections.abc import Iterator
from functools import reduce
from importlib import import_module
from typing import Any, NamedTuple

import orjson
import pytest

from foldb.model.service import PYTHON_PATTERNS
from tests.unit.project.source import ROOT, modules, tree

PARSER: Any = import_module("re._parser")
CHARACTERS = frozenset(map(chr, range(128))) | {"é", "\u2028"}
FUNCTIONS = {"compile", "fullmatch", "match", "search", "split", "sub", "findall", "finditer"}
LONG = 1000  # the most times that a repetition matches
NOTHING: frozenset[str] = frozenset()


class Piece(NamedTuple):
    """A part of a regular expression.

    Attributes:
        run: The characters of which it can match a run and nothing else.
        head: Those of which it can match a run of any length, first.
        tail: Those of which it can match a run of any length, last, and give back some.
        shared: Those whose run it can divide in several ways.
    """

    run: frozenset[str]
    head: frozenset[str]
    tail: frozenset[str]
    shared: frozenset[str]
    may_be_empty: bool

    def then(self, after: "Piece") -> "Piece":
        passes = CHARACTERS if self.may_be_empty else self.run
        passes_after = CHARACTERS if after.may_be_empty else after.run
        return Piece(
            (self.run & passes_after) | (passes & after.run),
            self.head | (passes & after.head),
            (self.tail & passes_after) | after.tail,
            self.shared | after.shared | (self.tail & after.head),
            self.may_be_empty and after.may_be_empty,
        )

    def either(self, other: "Piece") -> "Piece":
        return Piece(
            self.run | other.run,
            self.head | other.head,
            self.tail | other.tail,
            self.shared | other.shared,
            self.may_be_empty or other.may_be_empty,
        )


EMPTY = Piece(NOTHING, NOTHING, NOTHING, NOTHING, may_be_empty=True)


def parsed(nodes: Any) -> Piece:
    return reduce(Piece.then, (_piece(str(kind), value) for kind, value in nodes), EMPTY)


def _piece(kind: str, value: Any) -> Piece:
    match kind:
        case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN":
            return EMPTY._replace(run=_characters(kind, value), may_be_empty=False)
        case "SUBPATTERN":
            return parsed(value[-1])
        case "BRANCH":
            return reduce(Piece.either, map(parsed, value[1]))
        case "ATOMIC_GROUP":
            return parsed(value)._replace(tail=NOTHING)
        case "MAX_REPEAT" | "MIN_REPEAT":
            return _repeated(*value)
        case "AT" | "ASSERT" | "ASSERT_NOT":
            return EMPTY
    # Among them POSSESSIVE_REPEAT: CPython 3.11.2 matches such a repetition of a group wrongly.
    raise AssertionError(f"the part {kind} of a regular expression is not examined")


def _repeated(low: int, high: int, nodes: Any) -> Piece:
    body = parsed(nodes)
    long = body.run if high >= LONG else NOTHING
    shared = body.tail & body.head if high > 1 else NOTHING
    return Piece(
        body.run, body.head | long, body.tail | long, body.shared | shared, body.may_be_empty or low == 0
    )


def _characters(kind: str, value: Any) -> frozenset[str]:
    match kind:
        case "LITERAL":
            return frozenset({chr(value)})
        case "NOT_LITERAL":
            return CHARACTERS - {chr(value)}
        case "ANY":
            return CHARACTERS
        case "RANGE":
            return frozenset(each for each in CHARACTERS if value[0] <= ord(each) <= value[1])
        case "CATEGORY":
            return frozenset(filter(re.compile(CATEGORIES[str(value)]).match, CHARACTERS))
    is_negated = str(value[0][0]) == "NEGATE"
    found = NOTHING.union(*(_characters(str(one), each) for one, each in value[is_negated:]))
    return CHARACTERS - found if is_negated else found


CATEGORIES = {
    "CATEGORY_DIGIT": r"\d",
    "CATEGORY_NOT_DIGIT": r"\D",
    "CATEGORY_SPACE": r"\s",
    "CATEGORY_NOT_SPACE": r"\S",
    "CATEGORY_WORD": r"\w",
    "CATEGORY_NOT_WORD": r"\W",
}


def divided(pattern: str | bytes) -> str:
    """The characters whose run the regular expression can divide in several ways."""
    return "".join(sorted(parsed(PARSER.parse(pattern)).shared))


def of_the_source() -> Iterator[tuple[str, Any]]:
    """Yield the place and the pattern of each call of `re` whose pattern is made of constants."""
    for name, path in modules().items():
        for node in ast.walk(tree(path)):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="re"), attr=attribute), args=[first, *_]
                ) if attribute in FUNCTIONS:
                    constants = vars(import_module(f"foldb.{name}"))
                    try:
                        yield f"{name}:{node.lineno}", eval(ast.unparse(first), constants)
                    except NameError:
                        continue  # made of a variable


def test_no_pattern_of_the_source_divides_a_run() -> None:
    found = {place: divided(pattern) for place, pattern in of_the_source()}

    assert len(found) > 80
    assert {} == {place: characters for place, characters in found.items() if characters}


def test_no_pattern_of_a_member_divides_a_run() -> None:
    shapes = orjson.loads((ROOT / "model" / "service.json").read_bytes())["shapes"]
    patterns = {shape["pattern"] for shape in shapes.values() if "pattern" in shape}
    found = {pattern: divided(PYTHON_PATTERNS.get(pattern, pattern)) for pattern in patterns}

    assert len(found) > 5
    assert {} == {pattern: characters for pattern, characters in found.items() if characters}


@pytest.mark.parametrize(
    ("pattern", "shared"),
    [
        ("a+b*a+", "a"),
        ("(a|b)*a{2,}", "a"),
        ("(?:a+)*", "a"),
        ("(?:-?a*)+", "a"),
        (".*a.*", "a"),
        ("xa+a+y", "a"),
        ("a+(?>a+)b", "a"),
        ("(?:xa+)*", ""),
        ("[a-c]*(?:b?)[b-d]*", "bc"),
        ("a+-a+", ""),
        ("[^:]*:[^:]*", ""),
        ("(?>.*?a)(?>.*?a).*", ""),
        ("a{1,9}a*", ""),
        (r'"[^"\\]*(?:\\.[^"\\]*)*"', ""),
    ],
)
def test_what_divides_a_run(pattern: str, shared: str) -> None:
    assert shared == divided(pattern)
