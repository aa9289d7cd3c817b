"""A partition on another node behaves like a local one, and requests find the node that serves it now."""

import asyncio
from functools import partial
from typing import Any

import pytest

from foldb.log.commands import Delete, Position, Transact
from foldb.materializer.fold.outcomes import Applied, Failed, Transacted
from foldb.materializer.history.history import TimeCut
from foldb.materializer.history.requests import DescribeTables
from foldb.materializer.partition import FIRST_READ, Conflict, Page, QueryRequest, ScanRequest
from foldb.model.errors import (
    InternalServerError,
    ResourceNotFoundError,
    ServiceUnavailableError,
    ThrottlingError,
)
from foldb.server.cluster import link as links
from foldb.server.cluster import listener
from foldb.server.cluster.remote import PartitionRoute, RemotePartition
from tests.behaviour.cluster.peers import AT, QUICK, Told, answered, peers, until, unused_address
from tests.unit.log.samples import CONTEXT

COMMAND = Delete(7, b"car", b"", CONTEXT)
APPLIED = Applied(COMMAND, (b"{}", 2), None, 10**26, 5)


class Ways:
    """The routes of the partition, set by the test."""

    def __init__(self, way: PartitionRoute) -> None:
        self.way = way
        self.asked: list[Position | None] = []

    def remote(self) -> RemotePartition:
        return RemotePartition(3, self._now, asyncio.get_running_loop(), QUICK)

    def _now(self, number: int, seen: Position | None) -> PartitionRoute:
        self.asked.append(seen)
        return self.way


async def test_a_node_of_an_earlier_release_is_not_asked_for_the_past(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would close the connection, with all calls in flight."""
    monkeypatch.setattr(listener, "REVISION", 1)
    async with peers() as all_:
        told = Told((b"{}", 2))
        link = all_.link(await all_.listen(told))
        await until(lambda: link.is_up)
        remote = Ways(link).remote()

        error, _ = await answered(lambda done: remote.as_of(TimeCut(5), DescribeTables(()), done))
        got, _ = await answered(lambda done: remote.get(7, b"car", b"", True, done))

        assert isinstance(error, ServiceUnavailableError)
        assert "runs an earlier release" in error.message
        assert ((b"{}", 2), 1) == (got, len(told.asked))


async def test_every_call_of_the_seam_crosses() -> None:
    async with peers() as all_:
        reported = Told()
        link = all_.link(await all_.listen(reported))
        await until(lambda: link.is_up)
        remote = Ways(link).remote()

        async def ask(answer: Any, method: str, *arguments: Any) -> Any:
            reported.answer = answer
            got = await answered(lambda done: getattr(remote, method)(*arguments, done))
            assert (method, *arguments) == reported.asked[-1]
            return got

        both = Transact([COMMAND, COMMAND], CONTEXT)
        keys = [(7, b"car", b""), (7, b"cat", b"s")]
        page = Page([b"{}"], 1, 2, b"{}", 3)
        assert (APPLIED, AT) == await ask(APPLIED, "submit", COMMAND, 300)
        assert (Transacted([APPLIED] * 2), AT) == await ask(Transacted([APPLIED] * 2), "submit", both, 9)
        assert ((b"{}", 2), AT) == await ask((b"{}", 2), "get", 7, b"car", b"", True)
        assert (None, AT) == await ask(None, "get", 7, b"car", b"", False)
        assert ([None, (b"{}", 2)], AT) == await ask([None, (b"{}", 2)], "get_all", keys, True)
        assert ([Conflict(), None], AT) == await ask([Conflict(), None], "get_isolated", keys, None)
        assert ([None], AT) == await ask([None], "get_isolated", keys, FIRST_READ)
        assert ([None], AT) == await ask([None], "get_isolated", keys, Position(3, 9))
        assert (page, AT) == await ask(page, "query", QueryRequest(7, None, b"car", b"", None))
        assert (page, AT) == await ask(page, "scan", ScanRequest(7, "index", start=(b"a", b"b")))
        assert (None,) == await ask(None, "reach", Position(3, 5))
        assert ({"waiting": 0},) == await ask({"waiting": 0}, "status", 7)


async def test_errors_cross_in_place_of_results() -> None:
    async with peers() as all_:
        reported = Told(ResourceNotFoundError())
        link = all_.link(await all_.listen(reported))
        await until(lambda: link.is_up)
        remote = Ways(link).remote()
        request = ScanRequest(7, None)

        [error, place] = await answered(lambda done: remote.scan(request, done))

        assert (ResourceNotFoundError, AT) == (type(error), place)


async def test_a_request_waits_until_its_partition_has_an_owner() -> None:
    async with peers() as all_:
        ways = Ways(None)
        remote = ways.remote()
        submitted = asyncio.create_task(answered(lambda done: remote.submit(COMMAND, 1, done)))
        await until(lambda: len(ways.asked) > 3)
        not_here = all_.link(await all_.listen())
        await until(lambda: not_here.is_up)
        ways.way = not_here
        await until(lambda: len(ways.asked) > 6)
        ways.way = Told(APPLIED)

        assert (APPLIED, AT) == await submitted


async def test_a_request_for_a_partition_without_owner_is_retryable() -> None:
    remote = Ways(None).remote()
    [outcome, _], [read, _], [reached] = await asyncio.gather(
        answered(lambda done: remote.submit(COMMAND, 1, done)),
        answered(lambda done: remote.get(7, b"", b"", True, done)),
        answered(lambda done: remote.reach(AT, done)),
    )

    assert isinstance(outcome, Failed)
    assert {ServiceUnavailableError} == {type(outcome.error), type(read), type(reached)}


async def test_a_write_whose_node_is_lost_is_not_made_twice_but_a_read_is() -> None:
    async with peers() as all_:
        reported = Told()
        reported.holds = True
        link = all_.link(await all_.listen(reported))
        await until(lambda: link.is_up)
        ways = Ways(link)
        remote = ways.remote()
        written = asyncio.create_task(answered(lambda done: remote.submit(COMMAND, 1, done)))
        read = asyncio.create_task(answered(lambda done: remote.get(7, b"car", b"", True, done)))
        await until(lambda: len(reported.waiting) == 2)
        standby = Told((b"{}", 2))
        ways.way = standby
        await all_.listeners[0].close()

        [outcome, _] = await written
        assert isinstance(outcome, Failed)
        assert isinstance(outcome.error, InternalServerError)
        assert ((b"{}", 2), AT) == await read
        assert [("get", 7, b"car", b"", True)] == standby.asked


async def test_bytes_in_flight_to_one_node_are_bounded(monkeypatch: Any) -> None:
    monkeypatch.setattr(links, "MAX_IN_FLIGHT_BYTES", 200)

    async with peers() as all_:
        reported = Told(APPLIED)
        reported.holds = True
        link = all_.link(await all_.listen(reported))
        await until(lambda: link.is_up)
        remote = Ways(link).remote()
        taken = [
            asyncio.create_task(answered(lambda done: remote.submit(COMMAND, 1, done))) for _ in range(4)
        ]
        await until(lambda: len(reported.waiting) == 3)

        [outcome, _] = await answered(lambda done: remote.submit(COMMAND, 1, done))

        assert isinstance(outcome, Failed)
        assert isinstance(outcome.error, ThrottlingError)
        for done in reported.waiting:
            done(APPLIED, AT)
        assert 3 == [(await one)[0] for one in taken].count(APPLIED)


async def test_eventual_reads_carry_the_last_seen_position() -> None:
    """So the second read of a client at one node is never older than its first."""

    ways = Ways(Told())
    remote = ways.remote()
    for consistent in (False, True, False):
        await answered(partial(remote.get, 7, b"", b"", consistent))

    assert [Position(3, -1), None, Position(3, 10)] == ways.asked


async def test_a_link_that_cannot_connect_delays_no_request() -> None:
    async with peers() as all_:
        link = all_.link(unused_address())
        ways = Ways(link)
        remote = ways.remote()
        asked = asyncio.create_task(answered(lambda done: remote.submit(COMMAND, 1, done)))
        await until(lambda: link.is_down)
        ways.way = Told(APPLIED)

        assert (APPLIED, AT) == await asked
