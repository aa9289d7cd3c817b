"""Links and listeners: authentication, calls, and lost connections."""

import asyncio
import hmac
import logging
import ssl
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from foldb.log.commands import Position
from foldb.model.errors import CertificateError
from foldb.server.cluster.bootstrap import _tls
from foldb.server.cluster.handshake import NONCE_BYTES, Identity, hello, proof
from foldb.server.cluster.link import Answered, Lost, NotHere, Unsent, _Connection
from foldb.server.cluster.wire import GET, LENGTH, NODE, REACH, STATUS, frame, unpacked
from foldb.server.settings import Settings
from tests.behaviour.auth.certificates import Files, make_certificates
from tests.behaviour.cluster.peers import (
    AT,
    IDENTITY,
    LOG_ID,
    QUICK,
    Told,
    answered,
    peers,
    run,
    until,
    unused_address,
)

KEY = (7, b"car", b"", True)


async def test_a_call_is_answered_with_the_result_and_its_position() -> None:
    async with peers() as all_:
        reported = Told((b"{}", 2))
        link = all_.link(await all_.listen(reported))
        await until(lambda: link.is_up)

        assert (Answered((b"{}", 2), AT),) == await answered(lambda done: link.call(GET, 3, KEY, done))
        assert [("get", *KEY)] == reported.asked
        await until(lambda: link.positions == {3: 11})


async def test_a_link_is_closed_in_the_turn_in_which_it_would_come_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The hello of the other node is no answer to a call."""
    received = _Connection.data_received
    async with peers() as all_:
        link = all_.link(await all_.listen(Told()))
        closing = link._task
        begun = asyncio.Event()

        def close_first(connection: _Connection, data: bytes) -> None:
            closing.cancel()
            received(connection, data)
            begun.set()

        monkeypatch.setattr(_Connection, "data_received", close_first)
        await begun.wait()
        await asyncio.wait([closing])
        assert closing.cancelled()
        assert not link.is_up


async def test_calls_without_a_position_are_answered_too() -> None:
    async with peers() as all_:
        reported = Told()
        link = all_.link(await all_.listen(reported))
        await until(lambda: link.is_up)

        assert (Answered(None, None),) == await answered(
            lambda done: link.call(REACH, 3, (Position(3, 5),), done)
        )
        reported.answer = {"items": {7: 1}}
        assert (Answered({"items": {7: 1}}, None),) == await answered(
            lambda done: link.call(STATUS, 3, (None,), done)
        )
        assert (Answered({"here": [3]}, None),) == await answered(lambda done: link.call(NODE, 0, (), done))


async def test_many_calls_are_under_way_and_answered_in_any_order() -> None:
    async with peers() as all_:
        reported = Told()
        reported.holds = True
        link = all_.link(await all_.listen(reported))
        await until(lambda: link.is_up)
        fates: dict[int, object] = {}
        for number in range(300):
            link.call(GET, 3, (number, b"", b"", False), lambda fate, n=number: fates.update({n: fate}))  # type: ignore[misc]
        await until(lambda: len(reported.waiting) == 300)
        for number, done in reversed(list(enumerate(reported.waiting))):
            done((b"%d" % number, number), AT)
        await until(lambda: len(fates) == 300)

        assert {n: Answered((b"%d" % n, n), AT) for n in range(300)} == fates


async def test_a_partition_that_is_not_here_is_said_to_be() -> None:
    async with peers() as all_:
        link = all_.link(await all_.listen())
        await until(lambda: link.is_up)

        assert (NotHere(),) == await answered(lambda done: link.call(GET, 3, KEY, done))


@pytest.mark.guarantee("SEC9")
@pytest.mark.parametrize(
    ("identity", "said"),
    [
        (Identity(b"another secret", LOG_ID), "does not know the cluster's secret"),
        (Identity(IDENTITY.secret, b"some other log  "), "serves another log"),
    ],
    ids=["secret", "log"],
)
def test_a_peer_of_another_cluster_is_refused_both_ways(
    identity: Identity, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with peers() as all_:
            reported = Told()
            stranger = all_.link(await all_.listen(reported), identity)
            false_friend = all_.link(await all_.listen(reported, identity=identity))
            await until(lambda: stranger.is_down and false_friend.is_down)
            await until(lambda: said in caplog.text)

            assert (Unsent(),) == await answered(lambda done: stranger.call(GET, 3, KEY, done))
            assert [] == reported.asked

    with caplog.at_level(logging.WARNING):
        run(scenario())


@pytest.mark.guarantee("SEC9")
async def test_with_tls_only_peers_of_the_same_authority_connect(tmp_path: Path) -> None:
    ours, theirs = make_certificates(tmp_path, "ours"), make_certificates(tmp_path, "theirs")

    def contexts(shown: Files, believed: Files) -> tuple[ssl.SSLContext, ssl.SSLContext]:
        found = _tls(Settings(node_ca=believed.ca, tls_cert=shown.cert, tls_key=shown.key))
        assert found is not None
        return found

    async with peers() as all_:
        calling, called = contexts(ours, ours)
        strange, _ = contexts(theirs, ours)
        reported = Told((b"{}", 2))
        address = await all_.listen(reported, tls=called)
        link = all_.link(address, tls=calling)
        stranger, plain = all_.link(address, tls=strange), all_.link(address)
        await until(lambda: link.is_up and stranger.is_down and plain.is_down)

        assert (Answered((b"{}", 2), AT),) == await answered(lambda done: link.call(GET, 3, KEY, done))
        assert [] == [link for link in (stranger, plain) if link.is_up]


def test_tls_without_a_certificate_to_show_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CertificateError, match="--tls-cert"):
        _tls(Settings(node_ca=tmp_path / "ca.pem"))


async def test_the_proof_of_the_listener_does_not_prove_the_caller() -> None:
    """An attacker who sends the listener's proof back is not authenticated."""

    async with peers() as all_:
        reported = Told()
        reader, writer = await asyncio.open_connection(*await all_.listen(reported))
        nonce = bytes(NONCE_BYTES)
        writer.write(frame(hello(IDENTITY, nonce)))
        data = await reader.read(1000)
        _, _, _, theirs, shown, *_ = unpacked(data[LENGTH.size :])
        assert hmac.compare_digest(shown, proof(IDENTITY, "listener", nonce, theirs))
        writer.write(frame([shown]) + frame([1, 1, 3, list(KEY)]))

        assert b"" == await reader.read(1000)
        assert [] == reported.asked
        writer.close()


@pytest.mark.guarantee("SEC9")
@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff\xff\xff\xff",
        frame(None),
        frame([0]),
        frame([1, 1, 3, []]),
        b"\0\0\0\0",
    ],
    ids=repr,
)
async def test_a_stranger_is_cut_off_at_its_first_word(sent: bytes) -> None:
    async with peers() as all_:
        reader, writer = await asyncio.open_connection(*await all_.listen(Told()))
        writer.write(sent)

        async with asyncio.timeout(2):
            assert b"" == await reader.read(100)
        writer.close()


@pytest.mark.guarantee("SEC9")
async def test_a_crowd_of_strangers_is_not_listened_to() -> None:
    async with peers() as all_:
        address = await all_.listen(Told())
        crowd = [await asyncio.open_connection(*address) for _ in range(64)]
        reader, writer = await asyncio.open_connection(*address)

        assert b"" == await reader.read(100)
        for _, one in (*crowd, (reader, writer)):
            one.close()
        await until(lambda: all_.listeners[0].unauthenticated == 0)


async def test_calls_fail_with_their_connection_and_the_link_reconnects() -> None:
    async with peers() as all_:
        reported = Told()
        reported.holds = True
        address = await all_.listen(reported)
        link = all_.link(address)
        await until(lambda: link.is_up)
        lost = asyncio.create_task(answered(lambda done: link.call(GET, 3, KEY, done)))
        await until(lambda: reported.waiting)
        await all_.listeners[0].close()

        assert (Lost(),) == await lost
        assert (Unsent(),) == await answered(lambda done: link.call(GET, 3, KEY, done))
        await all_.listen(Told((b"back", 4)), address=address)
        await until(lambda: link.is_up)
        assert (Answered((b"back", 4), AT),) == await answered(lambda done: link.call(GET, 3, KEY, done))


async def test_one_that_shows_no_sign_of_life_is_taken_for_lost() -> None:
    """A stopped process is in this state: its sockets stay open and silent."""

    async with peers() as all_:
        reported = Told()
        reported.holds = True
        link = all_.link(await all_.listen(reported))
        await until(lambda: link.is_up)
        lost = asyncio.create_task(answered(lambda done: link.call(GET, 3, KEY, done)))
        await until(lambda: reported.waiting)
        for caller in all_.listeners[0].callers:
            assert caller._transport is not None
            caller._transport.pause_reading()

        assert (Lost(),) == await lost
        await until(lambda: not link.is_up)


async def test_an_unanswered_call_times_out() -> None:
    async with peers() as all_:
        reported = Told()
        reported.holds = True
        link = all_.link(await all_.listen(reported))
        await until(lambda: link.is_up)

        assert (Lost(),) == await answered(lambda done: link.call(GET, 3, KEY, done))
        reported.waiting[0]((b"late", 4), AT)
        assert link.is_up


async def test_a_link_is_down_until_its_peer_listens() -> None:
    async with peers() as all_:
        address = unused_address()
        link = all_.link(address)
        await until(lambda: link.is_down)
        await all_.listen(Told(), address=address)

        await until(lambda: link.is_up)


async def test_closing_a_link_ends_its_unfinished_handshake() -> None:
    """The other end accepts the connection and never answers."""
    ended = asyncio.Event()
    asked = asyncio.Event()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        asked.set()
        with suppress(ConnectionError):
            while await reader.read(1_000):
                pass
        ended.set()
        writer.close()

    async with peers() as all_:
        silent = await asyncio.start_server(accept, "127.0.0.1", 0)
        link = all_.link(silent.sockets[0].getsockname()[:2], timeouts=replace(QUICK, connect=10))
        await asked.wait()

        await link.close()

        await until(ended.is_set)
        silent.close()
