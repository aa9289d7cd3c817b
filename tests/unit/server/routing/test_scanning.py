"""A scan over several partitions has the same pages as a scan of one partition with all items."""

import random
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from foldb.materializer.fold.index_entries import entry_key
from foldb.materializer.fold.state import PartitionState, Table
from foldb.materializer.long_reads import LongReads
from foldb.materializer.partition import Page, ScanRequest
from foldb.model.errors import InternalServerError, RequestError, ValidationError
from foldb.model.values import load
from foldb.server.routing import InstantReads, Router, instant_reads
from tests.support.pages import read_page
from tests.unit.materializer.fake_loop import FakeLoop
from tests.unit.materializer.ledger import Ledger, index_request, put
from tests.unit.server.routing.fake_partitions import FakePartition, spread

KB = 1024


def filled(sizes: list[int], seed: int) -> tuple[Ledger, Table]:
    """Return a table with a local and a global index, and items of about these sizes under few partition keys."""
    dice = random.Random(seed)
    ledger = Ledger()
    table = ledger.create(
        "Things",
        "pk:S sk:S",
        LocalSecondaryIndexes=[index_request("local", "pk", "at", projection="KEYS_ONLY")],
        GlobalSecondaryIndexes=[index_request("global", "kind", "at")],
    )
    for n, size in enumerate(sizes):
        item = {
            "pk": {"S": f"p{dice.randrange(len(sizes))}"},
            "sk": {"S": f"{n:05}"},
            "at": {"S": f"{dice.randrange(1000)}"},
            "kind": {"S": f"k{dice.randrange(40)}"},
            "d": {"S": "x" * size},
        }
        ledger.fold(put(table, item))
    return ledger, table


def over(ledger: Ledger, partitions: int) -> tuple[Router, FakeLoop, list[FakePartition]]:
    loop, fakes = FakeLoop(), spread(ledger.state, partitions)
    return Router([*fakes], ledger.state, loop), loop, fakes


def at_an_instant(ledger: Ledger, partitions: int) -> tuple[Router, FakeLoop]:
    """Return a router whose partitions are folded in this process, and whose pages are read in short portions."""
    loop = FakeLoop()
    workers: list[Any] = []
    for fake in spread(ledger.state, partitions):
        state = PartitionState(limits=ledger.state.limits)
        state.tables = fake.tables
        workers.append(SimpleNamespace(state=state, position=fake.position))
    instant = InstantReads(workers, LongReads(loop))
    return Router([*spread(ledger.state, partitions)], ledger.state, loop, instant=instant), loop


def asked(router: Router, loop: FakeLoop, request: ScanRequest) -> Page | RequestError:
    answers: list[Any] = []
    router.scan(request, lambda page, _: answers.append(page))
    loop.settle()
    assert len(answers) == 1
    return answers[0]  # type: ignore[no-any-return]


def place(table: Table, index: str | None, last: bytes) -> tuple[bytes, bytes]:
    """Return the position of a LastEvaluatedKey in the scanned store."""
    key = load(last)
    pk, sk = table.definition.key.pk(key), table.definition.key.sk(key)
    assert pk is not None
    assert sk is not None
    if index is None:
        return pk, sk
    found = entry_key(table.indexes[index], key, pk, sk)
    assert found is not None
    return found


def pages(table: Table, read: Any, **choices: Any) -> list[tuple[Any, ...]]:
    """Return the items and the cost of all pages of a scan."""
    reported = []
    start = None
    while True:
        page = read(ScanRequest(table.definition.id, start=start, **choices))
        reported.append(
            (page.items, page.count, page.scanned, page.last, page.table_half_units, page.index_half_units)
        )
        if page.last is None:
            return reported
        start = place(table, choices.get("index"), page.last)


SIZES = {
    "small": [10] * 300,
    "large": [300 * KB] * 12,
    "mixed": [100, 390 * KB, 20 * KB] * 10,
    "few": [10] * 2,
    "none": [],
}


@pytest.mark.parametrize("partitions", [2, 8, 100])
@pytest.mark.parametrize("limit", [None, 1, 7])
@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize("index", [None, "global"])
def test_each_page_is_that_of_one_partition(
    partitions: int, limit: int | None, kind: str, index: str | None
) -> None:
    ledger, table = filled(SIZES[kind], seed=7)
    router, loop, _ = over(ledger, partitions)
    choices = {"index": index, "limit": limit, "consistent": index is None}

    alone = pages(table, lambda request: read_page(table, request), **choices)

    assert alone == pages(table, lambda request: asked(router, loop, request), **choices)


@pytest.mark.parametrize("portion_bytes", [500, 1 << 20])
@pytest.mark.parametrize("limit", [None, 7])
@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize("index", [None, "global"])
def test_each_page_at_an_instant_is_that_of_one_partition(
    monkeypatch: pytest.MonkeyPatch, portion_bytes: int, limit: int | None, kind: str, index: str | None
) -> None:
    monkeypatch.setattr(instant_reads, "PORTION_BYTES", portion_bytes)
    ledger, table = filled(SIZES[kind], seed=7)
    router, loop = at_an_instant(ledger, 8)
    choices = {"index": index, "limit": limit, "consistent": index is None}

    alone = pages(table, lambda request: read_page(table, request), **choices)

    assert alone == pages(table, lambda request: asked(router, loop, request), **choices)


@pytest.mark.parametrize("segments", [2, 5, 64])
@pytest.mark.parametrize("index", [None, "global"])
def test_each_segment_is_that_of_one_partition(segments: int, index: str | None) -> None:
    ledger, table = filled(SIZES["small"], seed=11)
    router, loop, _ = over(ledger, 8)
    for segment in range(segments):
        choices = {"index": index, "limit": 9, "segment": segment, "segments": segments}

        alone = pages(table, lambda request: read_page(table, request), **choices)

        assert alone == pages(table, lambda request: asked(router, loop, request), **choices)


@pytest.mark.parametrize("segments", [1, 3])
@pytest.mark.parametrize("all_attributes", [False, True])
def test_a_local_index_is_scanned_on_every_partition(segments: int, all_attributes: bool) -> None:
    ledger, table = filled(SIZES["mixed"], seed=13)
    router, loop, _ = over(ledger, 8)
    choices = {"index": "local", "limit": 4, "segments": segments, "all_attributes": all_attributes}
    alone: list[bytes] = []
    several: list[bytes] = []
    for segment in range(segments):
        for read, into in (
            (lambda request: read_page(table, request), alone),
            (lambda request: asked(router, loop, request), several),
        ):
            into += [item for page in pages(table, read, segment=segment, **choices) for item in page[0]]

    assert len(SIZES["mixed"]) == len(several)
    assert sorted(alone) == sorted(several)


def test_partitions_that_a_segment_has_no_part_in_are_not_asked() -> None:
    ledger, table = filled(SIZES["small"], seed=17)
    router, loop, fakes = over(ledger, 8)
    asked(router, loop, ScanRequest(table.definition.id, None, segment=1, segments=4))

    assert [3, 4] == [fake.number for fake in fakes if fake.asked]


def test_partitions_behind_the_end_of_a_page_are_not_asked() -> None:
    ledger, table = filled(SIZES["small"], seed=17)
    router, loop, fakes = over(ledger, 8)
    asked(router, loop, ScanRequest(table.definition.id, None, limit=50))

    assert [1, 2] == [fake.number for fake in fakes if fake.asked]


def test_a_start_from_another_segment_is_refused_as_ever() -> None:
    ledger, table = filled(SIZES["small"], seed=19)
    router, loop, _ = over(ledger, 8)
    page = asked(router, loop, ScanRequest(table.definition.id, None, limit=1))
    assert isinstance(page, Page)
    assert page.last is not None
    start = place(table, None, page.last)

    with pytest.raises(ValidationError, match="with correct Segment"):
        asked(router, loop, ScanRequest(table.definition.id, None, start=start, segment=3, segments=4))


def test_a_partition_that_cannot_answer_ends_the_page_with_its_error() -> None:
    ledger, table = filled(SIZES["small"], seed=23)
    router, loop, fakes = over(ledger, 8)
    fakes[4].error = InternalServerError()

    assert isinstance(asked(router, loop, ScanRequest(table.definition.id, None)), InternalServerError)


def test_between_two_partitions_others_have_their_turn() -> None:
    ledger, table = filled(SIZES["small"], seed=29)
    router, loop, fakes = over(ledger, 8)
    router.scan(ScanRequest(table.definition.id, None), lambda *_: None)
    for turn in range(1, 8):
        assert turn == sum(len(fake.asked) for fake in fakes)
        loop.turn()


def test_a_page_counts_items_as_it_gives_them() -> None:
    ledger, table = filled(SIZES["small"], seed=31)
    router, loop, _ = over(ledger, 8)
    page = asked(router, loop, ScanRequest(table.definition.id, None))
    assert isinstance(page, Page)

    assert (300, 300) == (len(page.items), page.count)
    assert 300 == len({orjson.loads(item)["sk"]["S"] for item in page.items})
