"""The cache of records: cached records equal new ones, and the cache has a limit."""

from collections.abc import Iterable

from foldb.log.commands import Context
from foldb.materializer.fold.outcomes import Change
from foldb.model.key_schema import KeySchema
from foldb.server.api.record_cache import RecordCache
from foldb.streams.formats.dynamodb import record
from foldb.streams.formats.table_view import Delivery, TableView
from tests.unit.materializer.fake_loop import FakeLoop

VIEW = TableView(1, "Cars", KeySchema.from_json([["pk", "S", "HASH"]]), "NEW_IMAGE", "arn", bytes(16))


def change(number: int) -> Change:
    image = b'{"n":{"N":"%d"},"pk":{"S":"a"}}' % number
    return Change(1, b"a", b"", None, image, number, 0, Context("r"))


def record_of(number: int, partition: int = 0) -> bytes:
    return record(Delivery(change(number), partition, VIEW))


class Pages:
    """Requests pages of a cache, on a loop that the test turns."""

    def __init__(self, records: RecordCache) -> None:
        self.loop = FakeLoop()
        self.answers = list[bytes]()
        self._records = records

    def read(self, numbers: Iterable[int], partition: int = 0) -> None:
        self._records.page(list(map(change, numbers)), partition, VIEW, self.loop, self.answers.append)


def counted(made: list[int]) -> RecordCache:
    """Return a cache of records of 100 bytes that lists the sequence numbers of those it makes."""

    def make(each: Delivery) -> bytes:
        made.append(each.sequence_number)
        return b"x" * 100

    return RecordCache(limit=1000, encode=make)


def test_a_record_is_made_once_while_it_is_recent() -> None:
    made: list[int] = []
    pages = Pages(counted(made))
    for _ in range(8):
        pages.read(range(5))
    assert [*range(5)] == made

    pages.read(range(5, 100))
    pages.read([0])
    assert [*range(100), 0] == made


def test_a_record_of_the_older_generation_is_not_made_again() -> None:
    made: list[int] = []
    pages = Pages(counted(made))
    pages.read(range(15))  # the first 11 are the older generation

    pages.read(range(15))

    assert [*range(15)] == made


def test_partitions_are_kept_apart() -> None:
    pages = Pages(RecordCache())
    for partition in (1, 2, 1, 2):
        pages.read([7], partition)

    assert [record_of(7, partition) for partition in (1, 2, 1, 2)] == pages.answers


def test_a_page_lets_others_have_their_turn_before_it_is_whole() -> None:
    pages = Pages(RecordCache())

    pages.read(range(20))
    assert [b",".join(map(record_of, range(20)))] == pages.answers
    pages.read([])
    assert b"" == pages.answers[-1]
    pages.read(range(500))
    pages.loop.settle()
    assert 2 == len(pages.answers)
    pages.loop.advance(1)
    assert [b",".join(map(record_of, range(500)))] == pages.answers[2:]


def test_readers_of_one_new_page_make_its_records_once() -> None:
    made: list[int] = []
    cache = RecordCache(encode=lambda each: made.append(each.sequence_number) or b"record")  # type: ignore[func-returns-value]
    pages = Pages(cache)
    for _ in range(8):
        pages.read(range(1000))

    pages.loop.advance(10)

    assert [*range(1000)] == sorted(made)
    assert 8 == len(pages.answers)
