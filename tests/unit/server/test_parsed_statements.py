"""The statements of a request are parsed once, and many of them in portions."""

from typing import Any

import pytest

from foldb.expressions.partiql import parse
from foldb.materializer.long_reads import LongReads
from foldb.model.errors import ValidationError
from foldb.model.limits import Limits
from foldb.server.api import parsed_statements
from foldb.server.api.operations import OPERATIONS
from foldb.server.api.parsed_statements import parsed, portions
from tests.unit.materializer.fake_loop import FakeLoop

LONG = f"DELETE FROM abc WHERE p = '{'x' * 8160}'"
MALFORMED = f"{LONG} AND"


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were parsed."""
    found: list[str] = []

    def count(text: str, limits: Limits) -> Any:
        found.append(text)
        return parse(text, limits)

    monkeypatch.setattr(parsed_statements, "parse", count)
    return found


def test_rights_and_handler_share_a_parsed_statement(texts: list[str]) -> None:
    member = {"Statement": LONG}
    demands = list(OPERATIONS["ExecuteStatement"].demands(member))

    assert ("abc", [LONG]) == (parsed(member).kind.table, texts)
    assert [("dynamodb:PartiQLDelete", "abc")] == [(demand[0], demand[2]) for demand in demands]


def test_a_malformed_statement_has_its_error_each_time(texts: list[str]) -> None:
    member = {"Statement": MALFORMED}
    for _ in range(2):
        with pytest.raises(ValidationError, match="Missing right-hand side"):
            parsed(member)

    assert [MALFORMED] == texts


def test_a_turn_parses_one_statement_of_8_kb(texts: list[str]) -> None:
    loop, parsed_before = FakeLoop(), []
    members = [{"Statement": text} for text in (LONG, MALFORMED, *["DELETE FROM abc"] * 3)]
    LongReads(loop).add(portions(members, lambda: parsed_before.append(len(texts))))
    each_turn = []
    while not parsed_before:
        loop.turn()
        each_turn.append(len(texts))

    assert ([1, 2, 5], [5]) == (each_turn, parsed_before)
