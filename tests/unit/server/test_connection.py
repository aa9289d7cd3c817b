"""A connection without a socket: the test controls time and the transport."""

import asyncio
import json
import random
from collections.abc import Callable
from typing import Any, cast

import pytest

from foldb.log.commands import Command, Position
from foldb.materializer.fold.outcomes import Failed, Outcome
from foldb.materializer.partition import ResultPosition
from foldb.model.errors import ThrottlingError
from foldb.server.http import protocol
from foldb.server.http.address import AddressRefusedError, listen_address
from foldb.server.http.listener import Listener
from foldb.server.http.protocol import Connection
from foldb.server.node import Node
from foldb.server.settings import Settings

FIELDS = (
    b"Host: localhost\r\nContent-Type: application/x-amz-json-1.0\r\n"
    b"Authorization: AWS4-HMAC-SHA256 Credential=key/20261121/us-east-1/dynamodb/aws4_request, "
    b"SignedHeaders=host, Signature=0\r\n"
)
TABLE = {
    "TableName": "Cars",
    "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
    "BillingMode": "PAY_PER_REQUEST",
}
CAR = {"TableName": "Cars", "Item": {"pk": {"S": "car"}}}


class FakeTransport(asyncio.Transport):
    """A transport that records its calls."""

    def __init__(self, peer: str) -> None:
        super().__init__({"peername": (peer, 1)})
        self.sent = b""
        self.reading = True
        self.closed = False
        self.aborted = False
        self.ended = False
        self.unread = 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return self.unread

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += data

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_reading(self) -> bool:
        return self.reading

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.ended = True

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True


class FakeLoop:
    """Runs callbacks when the test takes a turn; time never passes."""

    def __init__(self) -> None:
        self._ready: list[tuple[Callable[..., object], tuple[Any, ...]]] = []

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        self._ready.append((callback, args))

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> "FakeLoop":
        if delay == 0:
            self.call_soon(callback, *args)
        return self

    def cancel(self) -> None:
        pass

    def turn(self) -> bool:
        """One turn; False if there was nothing to do."""
        ready, self._ready = self._ready, []
        for callback, args in ready:
            callback(*args)
        return bool(ready)

    def run(self) -> None:
        while self.turn():
            pass


class Bench:
    """A node in memory with one table, and a connection to it."""

    def __init__(self, **settings: Any) -> None:
        self.loop = FakeLoop()
        loop = cast(asyncio.AbstractEventLoop, self.loop)
        self.node = Node(
            Settings(ttl_interval_ms=0, **({"connections": 2} | settings)),
            loop=loop,
            clock=lambda: 1_795_248_000_000,
            random_bytes=random.Random(1).randbytes,
            on_fatal=self._fail,
        )
        self.listener = Listener(self.node, loop)
        self.transport, self.connection = self.connect()
        self.ask("CreateTable", TABLE)
        self.loop.run()
        self.transport.sent = b""

    def connect(self, peer: str = "127.0.0.1") -> tuple[FakeTransport, Connection]:
        transport, connection = FakeTransport(peer), Connection(self.listener)
        connection.connection_made(transport)
        return transport, connection

    def ask(self, operation: str, body: object) -> None:
        self.connection.data_received(request(operation, body))

    def answers(self) -> int:
        return self.transport.sent.count(b"HTTP/1.1 200")

    def tick(self, seconds: int) -> None:
        self.listener.tick += seconds
        if self.connection.deadline < self.listener.tick:
            self.connection.expire()

    @staticmethod
    def _fail(error: BaseException) -> None:
        raise error


def request(operation: str, body: object) -> bytes:
    data = json.dumps(body).encode()
    start = (
        f"POST / HTTP/1.1\r\nX-Amz-Target: DynamoDB_20120810.{operation}\r\nContent-Length: {len(data)}\r\n"
    )
    return start.encode() + FIELDS + b"\r\n" + data


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_write_is_answered_when_it_is_folded_and_not_before(bench: Bench) -> None:
    bench.ask("PutItem", CAR)
    before = bench.answers()
    bench.loop.run()

    assert (0, 1) == (before, bench.answers())


def test_bytes_during_a_write_wait_in_the_buffer_then_the_socket(bench: Bench) -> None:
    bench.ask("PutItem", CAR)
    bench.ask("ListTables", {})
    reading = bench.transport.reading
    bench.connection.data_received(b"P" * 70_000)

    assert (0, True, False) == (bench.answers(), reading, bench.transport.reading)
    bench.loop.run()
    assert 2 == bench.answers()


def test_a_client_that_does_not_read_receives_no_more_answers(bench: Bench) -> None:
    bench.connection.pause_writing()
    bench.ask("ListTables", {})
    waiting = (bench.answers(), bench.transport.reading)
    bench.connection.resume_writing()

    assert (0, False) == waiting
    assert (1, True) == (bench.answers(), bench.transport.reading)


@pytest.mark.guarantee("G49", "SEC16")
def test_a_client_that_never_reads_is_cut_off(bench: Bench) -> None:
    bench.connection.pause_writing()
    bench.tick(protocol.STALL_TICKS)
    patient = bench.transport.aborted
    bench.tick(1)

    assert (False, True) == (patient, bench.transport.aborted)


@pytest.mark.guarantee("SEC16")
def test_a_head_has_five_seconds(bench: Bench) -> None:
    bench.connection.data_received(b"POST / HTTP/1.1\r\n")
    bench.tick(protocol.HEAD_TICKS)
    bench.connection.data_received(b"Host: localhost\r\n")
    patient = bench.transport.sent
    bench.tick(1)

    assert b"" == patient
    assert b"HTTP/1.1 408" == bench.transport.sent[:12]
    assert bench.transport.ended


@pytest.mark.guarantee("SEC16")
def test_a_body_may_pause_for_10_s_and_take_60_s_in_all(bench: Bench) -> None:
    bench.connection.data_received(request("ListTables", " " * 100)[:-90])
    for _ in range(6):
        bench.tick(protocol.BODY_TICKS)
        bench.connection.data_received(b" ")
    patient = bench.transport.sent
    bench.tick(1)

    assert b"" == patient
    assert b"HTTP/1.1 408" == bench.transport.sent[:12]


def test_an_idle_connection_closes_after_two_minutes(bench: Bench) -> None:
    bench.ask("ListTables", {})
    bench.tick(120)
    patient = bench.transport.closed
    bench.tick(1)

    assert (False, True) == (patient, bench.transport.closed)


def test_a_connection_without_a_request_closes_after_30_s(bench: Bench) -> None:
    transport, connection = bench.connect()
    bench.listener.tick += 31

    assert connection.deadline < bench.listener.tick
    connection.expire()
    assert transport.closed


def test_a_write_under_way_has_all_the_time_it_needs(bench: Bench) -> None:
    bench.ask("PutItem", CAR)
    bench.tick(10_000)
    bench.loop.run()

    assert 1 == bench.answers()


def test_a_stop_answers_requests_in_flight_and_no_later_ones(bench: Bench) -> None:
    bench.ask("PutItem", CAR)
    bench.ask("PutItem", CAR)
    bench.connection.finish()
    waited = not bench.transport.closed
    bench.loop.run()

    assert waited
    assert (1, True) == (bench.answers(), bench.transport.closed)
    assert b"Connection: close" in bench.transport.sent


def test_a_disconnected_client_gets_no_answer_and_harms_no_other(bench: Bench) -> None:
    bench.ask("PutItem", CAR)
    bench.connection.connection_lost(None)
    bench.loop.run()

    assert 0 == bench.answers()
    assert 1 == bench.node.partitions.hosted[0].worker.statistics().items


@pytest.mark.guarantee("SEC16")
def test_past_the_limit_the_next_to_expire_is_evicted(bench: Bench) -> None:
    """The bench takes two. The first has asked something lately, so it may stay longer than one that never did."""
    second, _ = bench.connect()
    third, _ = bench.connect()

    assert (False, True, False) == (bench.transport.aborted, second.aborted, third.closed)


def test_a_connection_with_a_request_in_flight_is_not_evicted(bench: Bench) -> None:
    bench.ask("PutItem", CAR)
    second, connection = bench.connect()
    connection.data_received(request("PutItem", CAR))
    third, _ = bench.connect()
    bench.loop.run()

    assert third.closed
    assert (1, False, False) == (bench.answers(), bench.transport.aborted, second.aborted)


def test_one_address_may_be_given_a_share_of_the_connections() -> None:
    bench = Bench(connections=10, connections_per_address=2)
    second, _ = bench.connect()
    third, connection = bench.connect()
    other, _ = bench.connect("10.0.0.2")
    connection.connection_lost(None)
    fourth, _ = bench.connect("10.0.0.2")

    assert (False, True) == (second.closed, third.closed)
    assert (False, False) == (other.closed, fourth.closed)


def test_of_requests_sent_ahead_one_is_done_in_a_turn(bench: Bench) -> None:
    bench.connection.data_received(request("ListTables", {}) * 5)
    counts = [bench.answers()]
    while bench.loop.turn():
        counts.append(bench.answers())

    assert [1, 2, 3, 4, 5] == counts


def test_endless_pipelining_is_not_read_until_the_next_answer(bench: Bench) -> None:
    """Each answer used to let another piece in: a thousand requests in, three hundred out."""
    one = request("PutItem", CAR)
    piece = one * (70_000 // len(one))
    bench.connection.data_received(piece)
    while bench.transport.reading:
        bench.connection.data_received(piece)
    for _ in range(10):
        bench.loop.turn()

    assert not bench.transport.reading
    assert bench.listener.buffer_budget.bytes > 64 * 1024
    bench.loop.run()
    assert bench.transport.reading
    assert (0, 2 * (70_000 // len(one))) == (bench.listener.buffer_budget.bytes, bench.answers())


def test_a_client_that_has_sent_its_last_gets_all_its_answers(bench: Bench) -> None:
    bench.connection.data_received(request("PutItem", CAR) + request("ListTables", {}))
    stays = bench.connection.eof_received()
    bench.loop.run()

    assert stays
    assert (2, True) == (bench.answers(), bench.transport.closed)


@pytest.mark.guarantee("G49", "SEC16")
def test_of_slow_clients_the_slowest_gives_way() -> None:
    """Half a body, and an answer that is not read, count alike; one that has all its answers does not."""
    bench = Bench(connections=10, client_buffer_bytes=100_000)
    reader, reading = bench.connect()
    reader.unread = 60_000
    reading.pause_writing()
    sender, sending = bench.connect()
    sending.data_received(request("ListTables", "x" * 50_000)[:40_000])
    before = reader.aborted
    bench.connection.data_received(request("ListTables", "x" * 50_000)[:40_000])

    assert (False, True) == (before, reader.aborted)
    assert (False, False) == (sender.aborted, bench.transport.aborted)
    assert bench.listener.buffer_budget.bytes < 100_000
    bench.connection.data_received(request("ListTables", "x" * 50_000)[40_000:])
    sending.connection_lost(None)
    assert 0 == bench.listener.buffer_budget.bytes


@pytest.mark.meets_bug
def test_a_bug_in_a_handler_is_a_500_without_details(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(bench.node, "table_in_any_status", None)
    bench.ask("DescribeTable", {"TableName": "Cars"})
    head, _, body = bench.transport.sent.partition(b"\r\n\r\n")

    assert b"HTTP/1.1 500" == head[:12]
    assert "InternalServerError" in json.loads(body)["__type"]
    assert b"NoneType" not in body
    assert "NoneType" in caplog.text


def test_batch_writes_that_are_turned_away_come_back(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every second write finds the queue full: the others are done, these are UnprocessedItems."""
    submit = bench.node.partition.submit
    count = 0

    def full_at_times(command: Command, size: int, done: Callable[[Outcome, ResultPosition], None]) -> None:
        nonlocal count
        count += 1
        if count % 2:
            submit(command, size, done)
        else:
            done(Failed(ThrottlingError("full")), Position(0, 0))

    monkeypatch.setattr(bench.node.partition, "submit", full_at_times)
    puts = [{"PutRequest": {"Item": {"pk": {"S": str(n)}}}} for n in range(4)]
    bench.ask("BatchWriteItem", {"RequestItems": {"Cars": puts}})
    bench.loop.run()
    body = json.loads(bench.transport.sent.partition(b"\r\n\r\n")[2])

    assert {"UnprocessedItems": {"Cars": [puts[1], puts[3]]}} == body
    assert 2 == bench.node.partitions.hosted[0].worker.statistics().items


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "::1", "localhost"])
def test_loopback_addresses_are_served(host: str) -> None:
    assert listen_address(Settings(host=host)) in (host, "127.0.0.1")


@pytest.mark.guarantee("SEC1")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.168.1.1", "example.com"])
def test_another_address_is_refused_with_the_next_step(host: str) -> None:
    with pytest.raises(AddressRefusedError, match=r"Use 127\.0\.0\.1"):
        listen_address(Settings(host=host))
