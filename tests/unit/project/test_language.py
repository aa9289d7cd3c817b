"""The product's prose is plain technical English: words of the old idiom may only become fewer.

Prose is docstrings, comments and help texts. Each count below is the most that the product may hold. When a change
lowers a count, lower its number here.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.unit.project.source import ROOT, modules

WORDS = {"what": 10} | dict.fromkeys(
    (
        "whoever",
        "whatever",
        "nobody",
        "somebody",
        "anybody",
        "anew",
        "told",
        "tells",
        "hears",
        "heard",
        "stands",
        "stand",
        "besides",
        "meanwhile",
        "for good",
        "no more",
        "any more",
        "so many",
        "so much",
        "in its place",
        "gives up",
        "given up",
    ),
    3,
)
"""The most occurrences of each word in product files."""

PRONOUN_ALONE = 4
"""The most `Raises:` entries whose only subject is a pronoun."""

_PRONOUN = re.compile(
    r"\s*\w+(?:Error|Exception|Interrupt|Exit)\w*: (?:It|They|One|That|This|So|Neither|None|Some|There|He|What)\b"
)


@cache
def prose() -> list[str]:
    """Return every line of docstrings, comments and help texts."""
    return [line for path in modules().values() for line in _prose_of(path.read_text())]


def _prose_of(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(found))):
                yield from found.splitlines()
            case ast.keyword(arg="help", value=ast.Constant(value=str(found))):
                yield found
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


@pytest.mark.parametrize("word", WORDS)
def test_a_word_of_the_old_idiom_becomes_rarer(word: str) -> None:
    pattern = re.compile(rf"\b{word}\b", re.IGNORECASE)
    lines = [line.strip() for line in prose() if pattern.search(line)]

    assert len(lines) <= WORDS[word], "\n".join(lines)


def test_a_raises_entry_names_the_input_at_fault() -> None:
    lines = [line.strip() for line in prose() if _PRONOUN.match(line)]

    assert len(lines) <= PRONOUN_ALONE, "\n".join(lines)


def test_documents_use_plain_words() -> None:
    """At most 8 of 10,000 words in documents are listed words."""
    pages = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").glob("*.md"))]
    text = "\n".join(_without_code(page) for page in pages)
    found = re.findall(rf"\b({'|'.join(WORDS.keys() - {'what'})})\b", text, re.IGNORECASE)

    assert len(found) * 10_000 <= len(text.split()) * 8, sorted(found)


def _without_code(page: Path) -> str:
    return re.sub(r"`[^`]*`", "", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL))
