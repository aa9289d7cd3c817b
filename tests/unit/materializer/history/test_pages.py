"""Pages of a Query or a Scan at a cut, against the same pages of a refold up to the cut."""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from foldb.log.commands import Position
from foldb.materializer.fold.read_requests import Page, QueryRequest, ScanRequest
from foldb.materializer.fold.state import Table
from foldb.materializer.history.epochs import memory_history
from foldb.materializer.history.version_history import VersionedState
from foldb.model.values import load
from tests.support.pages import read_page
from tests.unit.materializer.history.past import ListLog, states
from tests.unit.materializer.ledger import Ledger, delete, put
from tests.unit.materializer.random_log import random_log


def requests(dice: random.Random, table: Table) -> Iterator[QueryRequest | ScanRequest]:
    """Yield random requests about a table and its indexes."""
    for name in (None, *table.indexes):
        store = table.items if name is None else table.indexes[name].store
        keys = [(pk, sk) for _, pk, sk, _ in store.scan()] or [(b"a", b"")]
        of, limit = table.definition.id, dice.choice([None, 1, 2, 5])
        pk, sk = dice.choice(keys)
        everything = name == "by-n" and dice.random() < 0.5
        yield QueryRequest(of, name, pk, b"", None, limit=limit, all_attributes=everything)
        yield QueryRequest(of, name, pk, b"", None, forward=False, start=sk, limit=limit)
        yield QueryRequest(of, name, pk, sk, None, forward=dice.random() < 0.5)
        yield QueryRequest(of, name, pk, b"", sk, forward=dice.random() < 0.5)
        yield ScanRequest(
            of, name, limit=limit, start=dice.choice([None, (pk, sk)]), all_attributes=everything
        )
        yield ScanRequest(of, name, dice.randrange(3), 3, limit=limit)


@pytest.mark.parametrize("seed", range(4))
def test_a_page_at_a_cut_is_the_page_of_a_refold(seed: int, floor: float) -> None:
    records, dice = random_log(seed, 60).records, random.Random(seed)
    follower = memory_history(ListLog(records), 0, floor=floor)
    follower.catch_up()

    pages = 0
    for offset, index, state in states(records):
        past = follower.history.at(Position(0, offset, index))
        for table in state.tables.values():
            for request in requests(dice, table):
                if request.index is not None and table.indexes[request.index].definition.backfilling:
                    continue
                expected = read_page(table, request)
                assert expected == past.read_page(request), (offset, index, request)
                pages += bool(expected.items)
    assert pages > 100, "some pages have items"


@pytest.mark.parametrize("seed", range(4))
def test_a_page_has_the_keys_and_sizes_of_its_items_if_they_are_asked_for(seed: int) -> None:
    records = random_log(seed, 60).records
    follower = memory_history(ListLog(records), 0)
    follower.catch_up()

    seen = 0
    for offset, index, state in states(records):
        past = follower.history.at(Position(0, offset, index))
        for table in state.tables.values():
            request = ScanRequest(table.definition.id, None, limit=5, keyed=True)
            stored = list(table.items.scan())[:5]
            for page in (read_page(table, request), past.read_page(request)):
                assert page.keys is not None
                keys = page.keys
                found = list(zip(keys.pks, keys.sks, keys.sizes, page.items, strict=True))
                assert [(pk, sk, size, data) for _, pk, sk, (data, size) in stored] == found
                seen += len(found)
    assert seen > 100, "some pages have items"


def queue(deleted: int, kept: int) -> tuple[Ledger, int]:
    """Return the log of a queue in one collection: items are put and deleted, the last few are kept."""
    ledger = Ledger()
    table = ledger.create("Queue", "pk:S sk:N")
    for number in range(deleted + kept):
        key: dict[str, Any] = {"pk": {"S": "q"}, "sk": {"N": str(number)}}
        ledger.fold(put(table, key))
        if number < deleted:
            ledger.fold(delete(table, key))
    return ledger, table.definition.id


def start_of(page: Page) -> bytes:
    """Return the sort key of a page's LastEvaluatedKey, as the request for the next page has it."""
    assert page.last is not None
    number = int(load(page.last)["sk"]["N"])
    ledger, _ = queue(0, number + 1)
    return max(sk for _, _, sk, _ in ledger.state.tables[1].items.scan())


@pytest.mark.parametrize("forward", [True, False])
def test_a_page_ends_after_many_deleted_keys(forward: bool) -> None:
    """A page over a million deleted keys would take seconds. The next pages continue where it ended."""
    ledger, table = queue(deleted=60, kept=3)
    follower = memory_history(ListLog(ledger.records), 0)
    follower.catch_up()
    past = follower.history.at(follower.history.position)

    found: list[bytes] = []
    sizes: list[int] = []
    start: bytes | None = None
    while True:
        page = past.read_page(
            QueryRequest(table, None, b"q", b"", None, forward=forward, start=start), looks=25
        )
        found += page.items
        sizes.append(page.count)
        if page.last is None:
            break
        start = start_of(page)

    whole = read_page(ledger.state.tables[table], QueryRequest(table, None, b"q", b"", None, forward=forward))
    assert whole.items == found
    assert 0 in sizes
    assert len(sizes) >= 3


def test_a_scan_ends_after_many_deleted_keys() -> None:
    ledger = Ledger()
    table = ledger.create("Bare")
    for number in range(60):
        ledger.fold(put(table, {"pk": {"S": str(number)}}))
        if number % 20:
            ledger.fold(delete(table, {"pk": {"S": str(number)}}))
    follower = memory_history(ListLog(ledger.records), 0)
    follower.catch_up()
    past = follower.history.at(follower.history.position)

    found, pages = scanned(past, table.definition.id, looks=10)

    assert read_page(table, ScanRequest(table.definition.id, None)).items == found
    assert pages > 5


def scanned(past: VersionedState, table: int, looks: int) -> tuple[list[bytes], int]:
    found: list[bytes] = []
    start: tuple[bytes, bytes] | None = None
    for number in range(1, 100):
        page = past.read_page(ScanRequest(table, None, start=start), looks=looks)
        found += page.items
        if page.last is None:
            return found, number
        start = load(page.last)["pk"]["S"].encode(), b""
    raise AssertionError("the scan does not end")
