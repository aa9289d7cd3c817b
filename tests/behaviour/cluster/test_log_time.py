"""An answer of several partitions, or of another node, carries log time at its position."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from foldb.log.commands import Cut, Position
from foldb.materializer.fold import fold
from foldb.materializer.fold.state import PartitionState, Table
from foldb.materializer.partition import ResultPosition, ScanRequest
from foldb.model.errors import RequestError
from foldb.server.cluster import listener
from foldb.server.cluster.handshake import NONCE_BYTES, hello, proof, read_hello
from foldb.server.cluster.remote import RemotePartition
from foldb.server.cluster.wire import GET, LENGTH, REVISION, frame, unpacked
from foldb.server.routing import Router
from tests.behaviour.cluster.peers import AT, IDENTITY, QUICK, Told, answered, peers, until
from tests.unit.materializer.ledger import put
from tests.unit.materializer.several_partitions.database import Database, transact

PARTITIONS = (1, 2, 3)
ROUNDS = 5


class Passing:
    """A partition at its owner, where log time passes with each call."""

    def __init__(self, database: Database, number: int) -> None:
        self._database = database
        self._partition = database.partitions[number]

    def __getattr__(self, name: str) -> Callable[..., None]:
        def call(*arguments: Any) -> None:
            getattr(self._partition, name)(*arguments)
            self._database.loop.advance(0.037)

        return call


async def ask_all(database: Database, table: Table, partitions: Sequence[Any]) -> list[ResultPosition]:
    """Send all kinds of requests, and return the positions of the answers."""
    router = Router(partitions, database.catalog, asyncio.get_running_loop())
    places: list[ResultPosition] = []

    async def ask(method: str, *arguments: Any) -> None:
        result, place = await answered(lambda done: getattr(router, method)(*arguments, done))
        assert not isinstance(result, RequestError)
        places.append(place)

    for nth in range(ROUNDS):
        items = [database.key_in(number, table, nth) for number in PARTITIONS]
        puts = [put(table, item) for item in items]
        keys = [(each.table, each.pk, each.sk) for each in puts]
        await ask("submit", puts[0], 100)
        await ask("submit", transact(*puts), 100)
        await ask("get", *keys[0], True)
        await ask("get_all", keys, False)
        await ask("get_isolated", keys, None)
        await ask("scan", ScanRequest(table.definition.id, None, consistent=True))
    return places


def log_times(database: Database) -> dict[tuple[int, int], int]:
    """Return log time after each record, from a refold of the log."""
    times = {}
    for number in range(len(database.workers)):
        state = PartitionState()
        for record in database.log.read(number):
            fold(state, record)
            times[number, record.offset] = state.log_time
    return times


def expected(times: dict[tuple[int, int], int], place: ResultPosition) -> int:
    positions = place.positions if isinstance(place, Cut) else (place,)
    return max(times[each.partition, each.offset] for each in positions)


async def test_an_answer_of_another_node_carries_log_time_there() -> None:
    """This holds for puts, transactions and reads of one partition and of several."""

    database = Database(data=len(PARTITIONS))
    table = database.create()
    async with peers() as all_:
        remote: list[Any] = [database.partitions[0]]
        for number in PARTITIONS:
            link = all_.link(await all_.listen(Passing(database, number), number=number))
            await until(lambda link=link: link.is_up)  # type: ignore[misc]
            loop = asyncio.get_running_loop()
            remote.append(RemotePartition(number, lambda *_, link=link: link, loop, QUICK))
        places = await ask_all(database, table, remote)

    times = log_times(database)
    assert [expected(times, place) for place in places] == [place.time_ms for place in places]
    assert {Position, Cut} == set(map(type, places))
    assert len({place.time_ms for place in places}) > ROUNDS


@pytest.mark.parametrize(("revision", "members"), [([], 4), ([REVISION], 5)], ids=["before", "now"])
async def test_a_caller_gets_the_answer_that_it_reads(revision: list[int], members: int) -> None:
    """A node of the previous release sends no revision in its hello, and reads exactly four members."""

    async with peers() as all_:
        address = await all_.listen(Told((b"{}", 2)))
        reader, writer = await asyncio.open_connection(*address)
        nonce = bytes(NONCE_BYTES)

        async def read() -> Any:
            (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
            return unpacked(await reader.readexactly(length))

        writer.write(frame([*hello(IDENTITY, nonce), *revision]))
        _, _, _, theirs, *_ = await read()
        writer.write(frame([proof(IDENTITY, "caller", nonce, theirs)]))
        writer.write(frame([1, GET.code, AT.partition, [7, b"car", b"", True]]))

        assert members == len(await read())
        writer.close()


async def test_an_answer_of_the_release_before_has_no_log_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a listener ignores the revision in a hello."""
    monkeypatch.setattr(listener, "read_hello", lambda plain, identity: (read_hello(plain, identity)[0], []))

    async with peers() as all_:
        at = replace(AT, time_ms=5)
        link = all_.link(await all_.listen(Told((b"{}", 2), at)))
        await until(lambda: link.is_up)
        [answer] = await answered(lambda done: link.call(GET, 3, (7, b"car", b"", True), done))

        assert (AT, None) == (answer.position, answer.position.time_ms)
