"""The cache of records: cached records equal new ones, and the cache has a limit."""

import random
import zlib
from collections.abc import Iterable

from foldb.log.commands import new_context
from foldb.materializer.fold.outcomes import Change
from foldb.model.key_schema import KeySchema
from foldb.server.api.checksums import SummedText
from foldb.server.api.long_answers import Piece, bytes_of
from foldb.server.api.record_cache import RecordCache, ShardKey
from foldb.streams.formats.dynamodb import record
from foldb.streams.formats.table_view import Delivery, TableView
from tests.unit.materializer.fake_loop import FakeLoop

VIEW = TableView(1, "Cars", KeySchema.from_json([["pk", "S", "HASH"]]), "NEW_IMAGE", "arn", bytes(16))


def change(number: int) -> Change:
    image = b'{"n":{"N":"%d"},"pk":{"S":"a"}}' % number
    return Change(1, b"a", b"", None, image, number, 0, new_context("r"))


def record_of(number: int, partition: int = 0) -> bytes:
    return record(Delivery(change(number), partition, VIEW))


class Pages:
    """Requests pages of a cache, on a loop that the test turns."""

    def __init__(self, records: RecordCache) -> None:
        self.loop = FakeLoop()
        self.pieces = list[list[Piece]]()
        self._records = records

    @property
    def answers(self) -> list[bytes]:
        return [b"".join(map(bytes_of, pieces)) for pieces in self.pieces]

    def read(self, numbers: Iterable[int], partition: int = 0) -> None:
        shard = ShardKey(partition, 1, 7, 0, 0)
        self._records.page(list(map(change, numbers)), shard, VIEW, self.loop, self.pieces.append)


def text_of(numbers: Iterable[int], partition: int = 0) -> bytes:
    """Return records, each behind a comma."""
    return b"".join(b"," + record_of(number, partition) for number in numbers)


def counted(made: list[int], size: int = 100, limit: int = 2000) -> RecordCache:
    """Return a cache of records of N bytes that lists the sequence numbers of those it makes."""

    def make(each: Delivery) -> bytes:
        made.append(each.sequence_number)
        return b"x" * size

    return RecordCache(limit=limit, encode=make)


def test_a_record_is_made_once_while_it_is_recent() -> None:
    made: list[int] = []
    pages = Pages(counted(made))
    for _ in range(8):
        pages.read(range(5))
    assert [*range(5)] == made

    pages.read(range(5, 100))
    pages.read([0])
    assert [*range(100), 0] == made


def test_the_cache_keeps_the_records_that_fit_its_limit() -> None:
    made: list[int] = []
    pages = Pages(counted(made, limit=2010))
    for number in range(20):
        pages.read([number])

    for number in range(10, 20):
        pages.read([number])
    assert [*range(20)] == made
    pages.read([9])
    assert [*range(20), 9] == made


def test_a_record_larger_than_the_cache_is_answered() -> None:
    pages = Pages(RecordCache(limit=10))
    pages.read(range(3))
    pages.read(range(3))

    assert [text_of(range(3))] * 2 == pages.answers


def test_partitions_are_kept_apart() -> None:
    pages = Pages(RecordCache())
    for partition in (1, 2, 1, 2):
        pages.read([7], partition)

    assert [text_of([7], partition) for partition in (1, 2, 1, 2)] == pages.answers


def test_pages_that_overlap_have_the_bytes_of_new_records() -> None:
    dice = random.Random(20261127)
    made: list[int] = []

    def make(each: Delivery) -> bytes:
        made.append(each.sequence_number)
        return record(each)

    pages = Pages(RecordCache(limit=400_000, encode=make))
    expected = []
    for _ in range(200):
        begin = dice.randrange(3_000)
        numbers = range(begin, begin + dice.choice((0, 1, 5, 250)))
        expected.append(text_of(numbers))
        pages.read(numbers)
        pages.loop.advance(10)

    assert expected == pages.answers
    assert len(made) < sum(map(len, expected)) // len(text_of([1000]))


def test_a_shard_with_other_changes_than_before_has_its_records() -> None:
    """The log was folded again with another result."""
    pages = Pages(RecordCache())
    for numbers in (range(10), range(0, 20, 2), range(1, 20, 3), range(20)):
        pages.read(numbers)
        assert text_of(numbers) == pages.answers[-1]


def test_a_whole_run_is_not_summed_again() -> None:
    pages = Pages(RecordCache())
    pages.read(range(250))
    pages.read(range(1, 250))
    whole = [piece for piece in pages.pieces[1] if isinstance(piece, SummedText)]

    assert pages.pieces[0][1:] == whole
    assert len(whole) > 0
    sum_ = 0
    for piece in pages.pieces[1]:
        sum_ = piece.sum_after(sum_) if isinstance(piece, SummedText) else zlib.crc32(piece, sum_)
    assert zlib.crc32(pages.answers[1]) == sum_


def test_a_page_lets_others_have_their_turn_before_it_is_whole() -> None:
    pages = Pages(RecordCache())

    pages.read(range(20))
    assert [text_of(range(20))] == pages.answers
    pages.read([])
    assert b"" == pages.answers[-1]
    pages.read(range(20, 900))
    pages.loop.settle()
    assert 2 == len(pages.answers)
    pages.loop.advance(5)
    assert [text_of(range(20, 900))] == pages.answers[2:]


def test_readers_of_one_new_page_make_its_records_once() -> None:
    made: list[int] = []
    pages = Pages(counted(made, size=400, limit=1_000_000))
    for _ in range(8):
        pages.read(range(1000))

    pages.loop.advance(10)

    assert [*range(1000)] == sorted(made)
    assert 8 == len(pages.answers)
