"""A digest that is computed beside writes is that of the state at its beginning."""

import random
from collections.abc import Callable

import pytest

from foldb.materializer import digest_task as digesting_module
from foldb.materializer.digest_task import DigestTask, StateDigest
from foldb.materializer.disposer import stores_of
from foldb.materializer.fold.dump import digest, digest_of, dump, dump_table
from foldb.materializer.fold.state import Table
from tests.unit.materializer.fake_loop import FakeLoop
from tests.unit.materializer.ledger import CONTEXT, Ledger, define, delete, index_request, put

PORTION = 1000


@pytest.fixture(autouse=True)
def _small_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digesting_module, "PORTION_BYTES", PORTION)


def library(books: int = 200) -> tuple[Ledger, Table]:
    ledger = Ledger()
    table = ledger.create(
        "Books", "author:S title:S", GlobalSecondaryIndexes=[index_request("shelves", "shelf")]
    )
    for number in range(books):
        ledger.fold(put(table, book(number)))
    return ledger, table


def book(number: int, shelf: int = 0) -> dict[str, dict[str, str]]:
    key = {"author": {"S": f"a{number % 20}"}, "title": {"S": f"t{number}"}}
    return {**key, "shelf": {"S": f"s{shelf}"}}


def key_of(number: int) -> dict[str, dict[str, str]]:
    return {name: value for name, value in book(number).items() if name != "shelf"}


def run(ledger: Ledger, between: Callable[[int], object] = lambda _: None) -> tuple[StateDigest, int]:
    """Compute the digests, with `between` after each turn; return them and the number of turns."""
    loop, found = FakeLoop(), list[StateDigest]()
    DigestTask(ledger.state, loop, found.append)
    turns = 0
    while not found:
        between(turns)
        loop.turn()
        turns += 1
    return found[0], turns


@pytest.mark.guarantee("G50")
def test_a_digest_takes_a_turn_for_each_portion() -> None:
    ledger, _ = library()
    size = sum(map(len, dump(ledger.state)))

    found, turns = run(ledger)

    assert digest(ledger.state) == found.whole
    assert turns > size / (PORTION + 500), "no frame here is larger than 500 bytes"


@pytest.mark.guarantee("G50")
@pytest.mark.parametrize("seed", range(5))
def test_writes_beside_a_digest_are_not_in_it(seed: int) -> None:
    ledger, table = library()
    before, dice = digest(ledger.state), random.Random(seed)

    def write(_: int) -> None:
        number = dice.randrange(250)
        gone = dice.random() < 0.4
        ledger.fold(delete(table, key_of(number)) if gone else put(table, book(number, dice.randrange(9))))

    found, turns = run(ledger, write)

    assert before == found.whole
    assert turns > 20
    assert before != digest(ledger.state)


def test_a_table_that_is_deleted_beside_a_digest_is_in_it() -> None:
    ledger, table = library()
    before = digest(ledger.state)

    def drop(turn: int) -> None:
        if turn == 3:
            ledger.fold(define("DeleteTable", table.definition.id, {"TableName": "Books"}))
            ledger.create("Others")

    assert before == run(ledger, drop)[0].whole


def test_a_transaction_beside_a_digest_leaves_no_token_in_it() -> None:
    from foldb.log.commands import Transact

    ledger, table = library()
    before = digest(ledger.state)

    def transact(turn: int) -> None:
        token = f"token-{turn}"
        ledger.fold(Transact([put(table, book(turn, 5))], CONTEXT, token, token.encode()))

    assert before == run(ledger, transact)[0].whole


def test_no_view_stays_open_behind_a_digest() -> None:
    ledger, _ = library()

    run(ledger)

    assert [] == [store.views for store in stores_of(ledger.state) if store.views]


@pytest.mark.guarantee("G50")
def test_a_changed_item_changes_the_digest_of_its_table_alone() -> None:
    ledger, table = library()
    ledger.create("Films", "title:S")
    before, _ = run(ledger)
    _, pk, sk, (_, size) = next(iter(table.items.scan()))

    table.items.put(pk, sk, (b"{}", size))
    after, _ = run(ledger)

    names = {each.definition.name: each for each in ledger.state.tables.values()}
    assert {name: digest_of(dump_table(each)) for name, each in names.items()} == after.tables
    assert before.tables["Films"] == after.tables["Films"]
    assert before.tables["Books"] != after.tables["Books"]
    assert before.whole != after.whole
