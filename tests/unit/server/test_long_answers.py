"""A long answer takes many turns of the loop, and the client cannot see that."""

import gzip
import json
import zlib
from collections.abc import Sequence
from typing import Any

import pytest

from foldb.server.api.long_answers import LONG_BYTES, array_pieces, bytes_of, portions
from tests.unit.server.test_connection import Bench, FakeTransport, request

ITEMS = 100
NOTE = "x" * 5_000
SCAN = {"TableName": "Cars", "ReturnConsumedCapacity": "TOTAL"}


@pytest.fixture
def bench() -> Bench:
    bench = Bench(connections=10)
    for number in range(ITEMS):
        bench.ask(
            "PutItem", {"TableName": "Cars", "Item": {"pk": {"S": f"car {number}"}, "note": {"S": NOTE}}}
        )
    bench.loop.run()
    bench.transport.sent = b""
    return bench


def heads_and_bodies(sent: bytes) -> list[tuple[dict[str, str], bytes]]:
    """Return the header fields and the body of each answer."""
    found = []
    while sent:
        head, _, sent = sent.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
        size = int(fields["Content-Length"])
        body, sent = sent[:size], sent[size:]
        assert len(body) == size
        assert zlib.crc32(body) == int(fields["x-amz-crc32"])
        found.append((fields, body))
    return found


def gzip_request(operation: str, body: object) -> bytes:
    return request(operation, body).replace(b"\r\n\r\n", b"\r\nAccept-Encoding: gzip\r\n\r\n", 1)


def until_a_part_is_sent(bench: Bench) -> None:
    while not bench.transport.sent:
        bench.loop.turn()
    assert 0 < len(bench.transport.sent) < LONG_BYTES


@pytest.mark.parametrize(
    "sizes",
    [
        [0],
        [1],
        [LONG_BYTES],
        [LONG_BYTES - 1] * 3,
        [10] * 50_000,
        [1, 400_000, 1, 70_000, 70_000],
        [3_000_000],
    ],
)
def test_portions_have_all_bytes_and_less_than_the_limit(sizes: Sequence[int]) -> None:
    pieces = [bytes([place % 251]) * size for place, size in enumerate(sizes)]
    found = list(map(bytes_of, portions(pieces)))

    assert b"".join(pieces) == b"".join(found)
    assert all(len(portion) < LONG_BYTES for portion in found)
    assert len(found) <= 1 + sum(sizes) // (LONG_BYTES // 4)


@pytest.mark.parametrize(("count", "size"), [(1, 1), (10, 1_000_000), (5_000, 1_000_000), (5_000, 10)])
def test_the_pieces_of_an_array_are_its_elements(count: int, size: int) -> None:
    elements = [b'{"N":"%d"}' % number for number in range(count)]

    assert b",".join(elements) == b"".join(array_pieces(elements, size))


@pytest.mark.parametrize(
    ("operation", "body"),
    [
        ("Scan", SCAN),
        ("Scan", {**SCAN, "ProjectionExpression": "note"}),
        ("ExecuteStatement", {"Statement": 'SELECT * FROM "Cars"'}),
    ],
)
def test_a_long_page_has_its_items_length_and_checksum(
    bench: Bench, operation: str, body: dict[str, Any]
) -> None:
    bench.connection.data_received(request(operation, body))
    bench.loop.run()
    ((_, text),) = heads_and_bodies(bench.transport.sent)
    page = json.loads(text)

    assert [NOTE] * ITEMS == [item["note"]["S"] for item in page["Items"]]
    assert operation != "Scan" or [ITEMS, ITEMS, 61.5] == [
        page["Count"], page["ScannedCount"], page["ConsumedCapacity"]["CapacityUnits"]
    ]  # fmt: skip


def test_a_long_batch_has_its_items(bench: Bench) -> None:
    keys = [{"pk": {"S": f"car {number}"}} for number in range(ITEMS)]
    bench.ask("BatchGetItem", {"RequestItems": {"Cars": {"Keys": keys}}})
    bench.loop.run()
    ((_, text),) = heads_and_bodies(bench.transport.sent)
    answer = json.loads(text)

    assert keys == [{"pk": item["pk"]} for item in answer["Responses"]["Cars"]]
    assert {} == answer["UnprocessedKeys"]


def test_a_turn_sends_a_portion_and_a_get_is_answered_between(bench: Bench) -> None:
    transport, connection = bench.connect()
    bench.ask("Scan", SCAN)
    until_a_part_is_sent(bench)
    key = {"TableName": "Cars", "Key": {"pk": {"S": "car 1"}}}
    connection.data_received(request("GetItem", key))
    sent, steps = len(bench.transport.sent), []

    assert transport.sent.startswith(b"HTTP/1.1 200")
    while bench.loop.turn():
        steps.append(len(bench.transport.sent) - sent)
        sent = len(bench.transport.sent)
    assert max(steps) < LONG_BYTES
    assert len(steps) > 3


def test_two_long_answers_take_turns(bench: Bench) -> None:
    transport, connection = bench.connect()
    bench.ask("Scan", SCAN)
    connection.data_received(request("Scan", SCAN))
    until_a_part_is_sent(bench)
    while not transport.sent:
        bench.loop.turn()
    is_first_under_way = len(bench.transport.sent) < ITEMS * len(NOTE)
    bench.loop.run()

    assert is_first_under_way
    assert heads_and_bodies(transport.sent)[0][1] == heads_and_bodies(bench.transport.sent)[0][1]


def test_an_answer_behind_a_long_one_waits_for_it(bench: Bench) -> None:
    bench.connection.data_received(request("Scan", SCAN) + request("ListTables", {}))
    until_a_part_is_sent(bench)
    bench.connection.data_received(request("ListTables", {"Limit": 1}))
    bench.loop.run()
    bodies = [json.loads(body) for _, body in heads_and_bodies(bench.transport.sent)]

    assert ["Items", "TableNames", "TableNames"] == [next(iter(body)) for body in bodies]


def test_a_long_answer_is_gzipped_in_portions(bench: Bench) -> None:
    bench.connection.data_received(gzip_request("Scan", SCAN))
    bench.loop.run()
    ((fields, body),) = heads_and_bodies(bench.transport.sent)

    assert "gzip" == fields["Content-Encoding"]
    assert ITEMS == json.loads(gzip.decompress(body))["Count"]


def test_a_client_that_leaves_amid_an_answer_gets_no_more(bench: Bench) -> None:
    bench.ask("Scan", SCAN)
    until_a_part_is_sent(bench)
    sent = bench.transport.sent
    bench.connection.connection_lost(None)
    bench.loop.run()

    assert sent == bench.transport.sent
    assert not bench.node.partitions.long_reads.is_full
    transport, connection = bench.connect()
    connection.data_received(request("Scan", SCAN))
    bench.loop.run()
    assert 1 == len(heads_and_bodies(transport.sent))


def test_a_client_that_leaves_before_its_answer_gets_nothing(bench: Bench) -> None:
    bench.ask("Scan", SCAN)
    bench.connection.connection_lost(None)
    bench.loop.run()

    assert b"" == bench.transport.sent


class SlowTransport(FakeTransport):
    """A transport whose client reads nothing."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        super().write(data)
        self.unread += len(data)


def test_the_rest_of_an_answer_to_a_slow_client_is_counted(bench: Bench) -> None:
    """It is buffered at once, so that the slow client takes no turns of other pages, and it counts for the limit."""
    slow = SlowTransport("127.0.0.1")
    bench.connection.connection_made(slow)
    bench.connection.data_received(request("Scan", SCAN) + request("ListTables", {}))
    while not slow.sent:
        bench.loop.turn()
    bench.connection.pause_writing()
    bench.loop.run()

    assert 1 == len(heads_and_bodies(slow.sent))
    assert bench.listener.buffer_budget.bytes >= len(slow.sent) > ITEMS * len(NOTE)
    slow.unread = 0
    bench.connection.resume_writing()
    bench.loop.run()
    assert 2 == len(heads_and_bodies(slow.sent))
    assert 0 == bench.listener.buffer_budget.bytes


def test_a_long_answer_has_the_position_that_it_was_read_at(bench: Bench) -> None:
    """Statements of a request may have no position of their own; writes are folded while the answer is sent."""
    transport, connection = bench.connect()
    bench.ask("ExecuteStatement", {"Statement": 'SELECT * FROM "Cars"'})
    connection.data_received(request("PutItem", {"TableName": "Cars", "Item": {"pk": {"S": "later"}}}))
    bench.loop.run()
    ((read, _),), ((written, _),) = heads_and_bodies(bench.transport.sent), heads_and_bodies(transport.sent)

    assert int(read["x-foldb-position"]) < int(written["x-foldb-position"].partition(".")[0])


def test_a_stop_amid_a_long_answer_sends_all_of_it(bench: Bench) -> None:
    bench.ask("Scan", SCAN)
    until_a_part_is_sent(bench)
    bench.connection.finish()
    waits = not bench.transport.closed
    bench.loop.run()

    assert waits
    assert 1 == len(heads_and_bodies(bench.transport.sent))
    assert bench.transport.closed


def test_a_stop_before_the_head_announces_the_close(bench: Bench) -> None:
    bench.ask("Scan", SCAN)
    bench.connection.finish()
    bench.loop.run()
    ((fields, _),) = heads_and_bodies(bench.transport.sent)

    assert "close" == fields["Connection"]
    assert bench.transport.closed


def test_a_half_closed_client_gets_its_whole_long_answer(bench: Bench) -> None:
    bench.ask("Scan", SCAN)
    until_a_part_is_sent(bench)
    stays = bench.connection.eof_received()
    bench.loop.run()

    assert stays
    assert 1 == len(heads_and_bodies(bench.transport.sent))
    assert bench.transport.closed


def test_a_page_that_shows_little_is_answered_in_one_turn(bench: Bench) -> None:
    """The items of the page have half a megabyte, and its answer has none of them."""
    bench.ask("Scan", {**SCAN, "Select": "COUNT"})
    ((_, body),) = heads_and_bodies(bench.transport.sent)

    assert ITEMS == json.loads(body)["Count"]
