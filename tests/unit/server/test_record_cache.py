"""The cache of records: cached records equal new ones, and the cache has a limit."""

from foldb.log.commands import Context
from foldb.materializer.fold.outcomes import Change
from foldb.model.key_schema import KeySchema
from foldb.server.api.record_cache import RecordCache
from foldb.streams.formats.dynamodb import record
from foldb.streams.formats.table_view import Delivery, TableView
from tests.unit.materializer.fake_loop import FakeLoop

VIEW = TableView(1, "Cars", KeySchema.from_json([["pk", "S", "HASH"]]), "NEW_IMAGE", "arn", bytes(16))


def delivery(number: int, partition: int = 0) -> Delivery:
    image = b'{"n":{"N":"%d"},"pk":{"S":"a"}}' % number
    return Delivery(Change(1, b"a", b"", None, image, number, 0, Context("r")), partition, VIEW)


def test_a_record_is_made_once_while_it_is_recent() -> None:
    made: list[Delivery] = []

    def make(each: Delivery) -> bytes:
        made.append(each)
        return b"x" * 100

    records = RecordCache(limit=1000, encode=make)
    for _ in range(8):
        for number in range(5):
            records.of(delivery(number))
    assert 5 == len(made)

    for number in range(5, 100):
        records.of(delivery(number))
    records.of(delivery(0))
    assert 101 == len(made)


def test_partitions_are_kept_apart() -> None:
    records = RecordCache()
    each = [delivery(7, partition) for partition in (1, 2, 1, 2)]

    assert [record(one) for one in each] == [records.of(one) for one in each]


def test_a_page_lets_others_have_their_turn_before_it_is_whole() -> None:
    records, loop, pages = RecordCache(), FakeLoop(), list[bytes]()
    each = [delivery(number) for number in range(300)]

    records.page(each[:20], loop, pages.append)
    assert [b",".join(map(record, each[:20]))] == pages
    records.page([], loop, pages.append)
    assert b"" == pages[-1]
    records.page(each, loop, pages.append)
    loop.settle()
    assert 2 == len(pages)
    loop.advance(1)
    assert [b",".join(map(record, each))] == pages[2:]
