"""Pages of Query and Scan: their ends, their contents, their cost."""

import sys
from collections.abc import Iterator
from typing import cast

import orjson
import pytest

from foldb import expressions
from foldb.materializer.fold.index_entries import entry_key
from foldb.materializer.fold.reads import segment_bounds
from foldb.materializer.fold.state import Table
from foldb.materializer.fold.storage import HASHES, Store, Stored, WriteObserver
from foldb.materializer.fold.view import StoreView
from foldb.materializer.partition import Page, QueryRequest, ScanRequest
from foldb.model.errors import ValidationError
from foldb.model.keys import key_hash
from foldb.model.values import Item, load
from tests.support.pages import read_page
from tests.unit.materializer.ledger import Ledger, index_request, put

KB = 1024


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


def filled(ledger: Ledger, sizes: list[int], name: str = "Sized") -> Table:
    """Create a collection `p` of items 0000, 0001, ... of exactly these sizes."""
    table = ledger.create(name, "pk:S sk:S")
    for number, size in enumerate(sizes):
        item = {"pk": {"S": "p"}, "sk": {"S": f"{number:04}"}, "d": {"S": ""}}
        empty = put(table, {**item}).size
        ledger.fold(put(table, {**item, "d": {"S": "x" * (size - empty)}}))
    return table


def collection(table: Table, **choices: object) -> QueryRequest:
    return QueryRequest(table.definition.id, None, b"p", b"", None, **choices)  # type: ignore[arg-type]


def sort_keys(page: Page) -> list[str]:
    return [orjson.loads(item)["sk"]["S"] for item in page.items]


def pages(table: Table, request: QueryRequest) -> Iterator[Page]:
    """Follow LastEvaluatedKey to the end."""
    while True:
        page = read_page(table, request)
        yield page
        if page.last is None:
            return
        request.start = place(table, request.index, load(page.last))[1]


def place(table: Table, index: str | None, key: Item) -> tuple[bytes, bytes]:
    """Return a start key as the store orders it."""
    pk, sk = table.definition.key.pk(key), table.definition.key.sk(key)
    assert pk is not None
    assert sk is not None
    if index is None:
        return pk, sk
    found = entry_key(table.indexes[index], key, pk, sk)
    assert found is not None
    return found


def test_a_query_goes_either_way(ledger: Ledger) -> None:
    table = filled(ledger, [50] * 3)

    assert ["0000", "0001", "0002"] == sort_keys(read_page(table, collection(table)))
    assert ["0002", "0001", "0000"] == sort_keys(read_page(table, collection(table, forward=False)))


@pytest.mark.parametrize("forward", [True, False])
@pytest.mark.parametrize("limit", [1, 2, 3, 7, None])
def test_pages_put_together_are_the_whole(ledger: Ledger, forward: bool, limit: int | None) -> None:
    table = filled(ledger, [50] * 7)

    request = collection(table, forward=forward, limit=limit)
    seen = [key for page in pages(table, request) for key in sort_keys(page)]

    assert [f"{number:04}" for number in range(7)][:: 1 if forward else -1] == seen


def test_a_page_resumes_after_an_item_that_is_gone(ledger: Ledger) -> None:
    table = filled(ledger, [50] * 3)
    table.items.remove(b"p", b"0001")

    assert ["0002"] == sort_keys(read_page(table, collection(table, start=b"0001")))
    assert ["0000"] == sort_keys(read_page(table, collection(table, start=b"0001", forward=False)))


def test_a_start_before_the_range_does_not_widen_it(ledger: Ledger) -> None:
    table = filled(ledger, [50] * 4)
    request = collection(table, start=b"0000")
    request.low, request.high = b"0002", b"0003"

    assert ["0002"] == sort_keys(read_page(table, request))


def test_a_page_that_ends_at_its_limit_always_has_a_last_key(ledger: Ledger) -> None:
    table = filled(ledger, [50] * 2)

    assert read_page(table, collection(table, limit=2)).last == b'{"pk":{"S":"p"},"sk":{"S":"0001"}}'
    assert read_page(table, collection(table, limit=3)).last is None
    assert read_page(table, collection(table)).last is None


def test_a_page_ends_at_or_before_one_megabyte(ledger: Ledger) -> None:
    table = filled(ledger, [256 * KB] * 5)

    page = read_page(table, collection(table))

    assert page.scanned == 4
    assert page.last == b'{"pk":{"S":"p"},"sk":{"S":"0003"}}'
    assert page.table_half_units == 256


def test_one_byte_more_and_the_item_goes_to_the_next_page(ledger: Ledger) -> None:
    table = filled(ledger, [256 * KB] * 3 + [256 * KB + 1, 100])

    assert [3, 2] == [page.scanned for page in pages(table, collection(table))]


def test_a_page_has_at_least_one_item(ledger: Ledger) -> None:
    table = filled(ledger, [300, 300])

    assert read_page(table, collection(table), page_bytes=100).scanned == 1


def test_sizes_are_summed_and_then_rounded(ledger: Ledger) -> None:
    table = filled(ledger, [64] * 1500)  # 96,000 bytes are 24 blocks of 4 KB

    assert read_page(table, collection(table)).table_half_units == 24
    assert read_page(table, collection(table, consistent=True)).table_half_units == 48


def test_an_empty_page_costs_one_block(ledger: Ledger) -> None:
    table = ledger.create("Empty", "pk:S sk:S")

    page = read_page(table, collection(table))

    assert (page.items, page.count, page.scanned, page.last) == ([], 0, 0, None)
    assert page.table_half_units == 1


def test_counting_filtering_and_projecting_change_no_cost(ledger: Ledger) -> None:
    table = filled(ledger, [5000] * 10)
    drop_all = expressions.compile(filter="attribute_not_exists(d)")
    only_key = expressions.compile(projection="sk")

    plain = read_page(table, collection(table))
    counted = read_page(table, collection(table, count_only=True))
    filtered = read_page(table, collection(table, plan=drop_all, values={}))
    projected = read_page(table, collection(table, plan=only_key))

    assert plain.table_half_units == 13
    assert {13} == {page.table_half_units for page in (counted, filtered, projected)}
    assert (counted.items, counted.count, counted.scanned) == ([], 10, 10)
    assert (filtered.items, filtered.count, filtered.scanned) == ([], 0, 10)
    assert projected.items[3] == b'{"sk":{"S":"0003"}}'


def test_a_limit_counts_items_before_the_filter(ledger: Ledger) -> None:
    table = filled(ledger, [50] * 6)
    values: dict[str, Item] = {":s": {"S": "0003"}}  # type: ignore[dict-item]
    plan = expressions.compile(filter="sk >= :s", values=values)

    page = read_page(table, collection(table, limit=4, plan=plan, values=values))

    assert ["0003"] == sort_keys(page)
    assert (page.count, page.scanned) == (1, 4)
    assert page.last == b'{"pk":{"S":"p"},"sk":{"S":"0003"}}'


def test_a_count_with_a_filter_counts_matching_items(ledger: Ledger) -> None:
    table = filled(ledger, [50] * 6)
    values: dict[str, Item] = {":s": {"S": "0003"}}  # type: ignore[dict-item]
    plan = expressions.compile(filter="sk >= :s", values=values)

    page = read_page(table, collection(table, count_only=True, plan=plan, values=values))

    assert (page.items, page.count, page.scanned) == ([], 3, 6)


def scattered(ledger: Ledger, count: int = 40) -> Table:
    table = ledger.create("Scattered", "pk:S")
    for number in range(count):
        ledger.fold(put(table, {"pk": {"S": f"{number}"}}))
    return table


def scan(table: Table, **choices: object) -> list[str]:
    """Return all partition keys of a scan over all pages."""
    request = ScanRequest(table.definition.id, None, **choices)  # type: ignore[arg-type]
    seen: list[str] = []
    while True:
        page = read_page(table, request)
        seen += [orjson.loads(item)["pk"]["S"] for item in page.items]
        if page.last is None:
            return seen
        request.start = place(table, None, load(page.last))


@pytest.mark.parametrize("limit", [1, 3, None])
def test_a_scan_meets_every_item_once_in_the_same_order(ledger: Ledger, limit: int | None) -> None:
    table = scattered(ledger)

    seen = scan(table, limit=limit)

    assert {f"{number}" for number in range(40)} == set(seen)
    assert [pk.decode() for _, pk, _, _ in table.items.scan()] == seen


@pytest.mark.parametrize("segments", [1, 2, 3, 7, 1_000])
def test_segments_are_disjoint_and_complete(ledger: Ledger, segments: int) -> None:
    table = scattered(ledger)

    parts = [scan(table, segment=segment, segments=segments, limit=2) for segment in range(segments)]

    assert scan(table) == [pk for part in parts for pk in part]


def test_a_million_segments_leave_no_hash_out() -> None:
    bounds = [segment_bounds(segment, 1_000_000) for segment in (0, 1, 2, 999_999)]

    assert bounds[0][0] == 0
    assert bounds[0][1] == bounds[1][0]
    assert bounds[1][1] == bounds[2][0]
    assert bounds[3][1] == HASHES


def test_a_segment_does_not_start_in_another(ledger: Ledger) -> None:
    table = scattered(ledger)
    foreign = scan(table, segment=1, segments=2)[0].encode()

    with pytest.raises(ValidationError, match=r"with correct Segment\. TotalSegments: 2 Segment: 0"):
        read_page(table, ScanRequest(table.definition.id, None, 0, 2, start=(foreign, b"")))


def indexed(ledger: Ledger, projection: str = "ALL") -> Table:
    """Create five items with one index sort key, each of a bit more than 1,000 bytes."""
    table = ledger.create(
        "Indexed",
        "pk:S sk:S",
        LocalSecondaryIndexes=[index_request("local", "pk", "l", projection=projection)],
        GlobalSecondaryIndexes=[index_request("global", "l", projection=projection)],
    )
    for number in range(5):
        ledger.fold(
            put(
                table,
                {
                    "pk": {"S": "p"},
                    "sk": {"S": f"{number}"},
                    "l": {"S": "same"},
                    "d": {"S": "x" * 1000},
                },
            )
        )
    return table


def of_index(table: Table, name: str, pk: bytes, **choices: object) -> QueryRequest:
    return QueryRequest(table.definition.id, name, pk, b"", None, **choices)  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "pk"), [("local", b"p"), ("global", b"same")])
@pytest.mark.parametrize("forward", [True, False])
def test_pages_of_equal_index_keys_neither_lose_nor_repeat(
    ledger: Ledger, name: str, pk: bytes, forward: bool
) -> None:
    table = indexed(ledger)

    request = of_index(table, name, pk, limit=2, forward=forward)
    seen = [key for page in pages(table, request) for key in sort_keys(page)]

    assert list("01234")[:: 1 if forward else -1] == seen


def test_the_last_key_of_an_index_holds_the_keys_of_table_and_index(ledger: Ledger) -> None:
    page = read_page(table := indexed(ledger), of_index(table, "global", b"same", limit=1))

    assert page.last == b'{"l":{"S":"same"},"pk":{"S":"p"},"sk":{"S":"0"}}'


def test_an_index_returns_and_charges_its_projection(ledger: Ledger) -> None:
    table = indexed(ledger, projection="KEYS_ONLY")

    page = read_page(table, of_index(table, "local", b"p"))

    assert page.items[0] == b'{"l":{"S":"same"},"pk":{"S":"p"},"sk":{"S":"0"}}'
    assert (page.table_half_units, page.index_half_units) == (0, 1)


def test_a_local_index_fetches_unprojected_attributes_item_by_item(ledger: Ledger) -> None:
    table = indexed(ledger, projection="KEYS_ONLY")

    page = read_page(table, of_index(table, "local", b"p", all_attributes=True))

    assert all(b"xxx" in item for item in page.items)
    assert (page.table_half_units, page.index_half_units) == (5, 1)


def test_a_filter_sees_fetched_attributes(ledger: Ledger) -> None:
    table = indexed(ledger, projection="KEYS_ONLY")
    plan = expressions.compile(filter="attribute_exists(d)")

    assert read_page(table, of_index(table, "local", b"p", plan=plan, values={})).count == 0
    fetched = read_page(table, of_index(table, "local", b"p", plan=plan, values={}, all_attributes=True))
    assert fetched.count == 5


def test_fetched_items_count_towards_the_page(ledger: Ledger) -> None:
    table = indexed(ledger, projection="KEYS_ONLY")

    request = of_index(table, "local", b"p", all_attributes=True)

    assert read_page(table, request, page_bytes=2500).scanned == 2


def test_an_index_that_is_not_there_is_named(ledger: Ledger) -> None:
    table = indexed(ledger)

    with pytest.raises(ValidationError, match="The table does not have the specified index: nope"):
        read_page(table, of_index(table, "nope", b"p"))


@pytest.mark.parametrize("size", [2_000, 100_000])
def test_the_last_page_of_a_collection_costs_as_much_as_the_first(ledger: Ledger, size: int) -> None:
    """Steps are calls, of Python and of C. A search takes a few more of them in a larger collection."""
    table = ledger.create("Long", "pk:S sk:S")
    for number in range(size):
        table.items.put(b"p", b"%08d" % number, (b'{"pk":{"S":"p"},"sk":{"S":"%08d"}}' % number, 13))

    first, last = (steps(table, after) for after in (None, b"%08d" % (size - 101)))

    assert last <= first + 25


@pytest.mark.parametrize("is_overlaid", [False, True])
def test_a_portion_takes_only_its_own_entries_from_a_view(is_overlaid: bool) -> None:
    """Otherwise each portion of a page costs as much as the rest of the collection."""
    taken: list[bytes] = []

    class Counted:
        def __init__(self) -> None:
            self.views: list[WriteObserver] = []

        def hash_of(self, pk: bytes) -> int:
            return key_hash(1, pk)

        def range(self, pk: bytes, *_: object) -> Iterator[tuple[bytes, Stored]]:
            for number in range(1000):
                taken.append(b"%03d" % number)
                yield taken[-1], (b"{}", 2)

    view = StoreView(cast(Store, Counted()))
    if is_overlaid:
        view.keep(b"p", b"500", None)
    entries = view.range(b"p", b"", None, False)

    assert [b"000", b"001", b"002"] == [next(entries)[2] for _ in range(3)]
    assert 3 == len(taken)


def steps(table: Table, after: bytes | None) -> int:
    """Return the number of calls to read a hundred items after `after`."""
    taken = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal taken
        taken += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        page = read_page(table, collection(table, start=after, limit=100))
    finally:
        sys.setprofile(None)
    assert 100 == page.count
    return taken
