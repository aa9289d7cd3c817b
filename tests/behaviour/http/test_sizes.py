"""Sixteen mebibytes are a request's most, counted as they come and as they unpack; a hundred at once are not more."""

import gzip
import threading
import zlib
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.behaviour.http.wire import Wire, chunked, head, peak_bytes, request, served_by
from tests.support.served import served

MIB = 1 << 20
MOST = 16 * MIB
BOMBS = 100
GROWTH_MAX = 64 * MIB


def bomb(mebibytes: int) -> bytes:
    """Return gzip that inflates to this many MiB of spaces."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    start = packer.compress(b" " * MIB) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(b" " * MIB) + packer.flush(zlib.Z_FULL_FLUSH)
    return start + block * (mebibytes - 1) + packer.flush()


@pytest.mark.guarantee("SEC14")
def test_a_hundred_bombs_at_once_take_the_memory_of_one(tmp_path: Path) -> None:
    packed = [bomb(17), bomb(100), bomb(16), gzip.compress(bomb(100), mtime=0), bomb(17)[:-1]]
    with served(tmp_path) as url, ExitStack() as stack:
        before = peak_bytes(served_by(tmp_path))
        wires = [stack.enter_context(Wire(url)) for _ in range(BOMBS)]
        for n, wire in enumerate(wires):
            wire.send(request("PutItem", packed[n % 5], "Content-Encoding: gzip")[:-1])
        for n, wire in enumerate(wires):
            wire.send(packed[n % 5][-1:])
        statuses = [wire.answer()[0] for wire in wires]
        growth = peak_bytes(served_by(tmp_path)) - before

    # The third is as large as a request may be, and no JSON; the fourth is unpacked once, and no JSON.
    assert [413, 413, 400, 400, 413] * (BOMBS // 5) == statuses
    assert growth < GROWTH_MAX


@pytest.mark.parametrize(
    "data",
    [
        gzip.compress(b"{}", mtime=0) + b"x",
        gzip.compress(b"{}", mtime=0) + gzip.compress(b" ", mtime=0),
        gzip.compress(b"{}", mtime=0) + b"\0" * 512,
        gzip.compress(b"{}", mtime=0)[:-1],
        gzip.compress(b"{}", mtime=0)[:-8],
        gzip.compress(b"{}", mtime=0)[:9],
        b"",
        b"{}",
        zlib.compress(b"{}"),
        b"\x1f\x8b",
        b"PK\x03\x04" + bytes(26),
        bytes(reversed(gzip.compress(b"{}", mtime=0))),
        gzip.compress(b"{}", mtime=0)[:-6] + bytes(6),
    ],
)
def test_incomplete_or_concatenated_gzip_is_refused(endpoint: str, data: bytes) -> None:
    with Wire(endpoint) as wire:
        wire.send(request("ListTables", data, "Content-Encoding: gzip"), request())

        assert [400] == wire.statuses()


@pytest.mark.parametrize(
    "coding", ["br", "deflate", "zstd", "compress", "gzip, gzip", "gzip;q=1", "x-gzip", ""]
)
def test_other_codings_are_not_read(endpoint: str, coding: str) -> None:
    with Wire(endpoint) as wire:
        wire.send(request("ListTables", gzip.compress(b"{}"), f"Content-Encoding: {coding}"), request())

        assert [415] == wire.statuses()


@pytest.mark.guarantee("SEC14")
def test_a_body_of_16_mib_is_read_and_a_larger_one_refused(endpoint: str) -> None:
    body = b"{" + b" " * (MOST - 2) + b"}"
    with Wire(endpoint) as wire:
        wire.send(request("ListTables", body))
        assert 200 == wire.answer()[0]
        wire.send(head("ListTables", f"Content-Length: {MOST + 1}"))
        assert 413 == wire.answer()[0]


def test_chunks_are_refused_as_soon_as_they_are_too_many(endpoint: str) -> None:
    """Without an end in sight, and with every chunk small."""
    piece = chunked(b" " * MIB, 64 * 1024)[:-5]
    with Wire(endpoint) as wire:
        wire.send(head("ListTables", "Transfer-Encoding: chunked"), *[piece] * 16)
        wire.send(b"1\r\n \r\n")

        assert 413 == wire.answer()[0]
        assert wire.is_closed()


def test_bytes_behind_content_length_are_the_next_request(endpoint: str) -> None:
    with Wire(endpoint) as wire:
        wire.send(head("ListTables", "Content-Length: 100"), b"{}")
        assert [] == wire.statuses()
    with Wire(endpoint) as wire:
        wire.send(head("ListTables", "Content-Length: 2"), b"{}", request())
        assert [200, 200] == wire.statuses()
    with Wire(endpoint) as wire:
        wire.send(head("ListTables", "Content-Length: 1"), b"{}", request())
        assert [400, 400] == wire.statuses()


@pytest.mark.guarantee("SEC14")
def test_halves_of_bodies_are_kept_only_up_to_a_bound(tmp_path: Path) -> None:
    """Each is within its own bound; together they would be 400 MB. The ones that hang longest are let go."""
    with served(tmp_path / "data") as url, ExitStack() as stack:
        pid = served_by(tmp_path / "data")
        before = peak_bytes(pid)
        wires = [stack.enter_context(Wire(url)) for _ in range(32)]
        piece = b" " * (12 * MIB)

        def send(wire: Wire) -> None:
            with suppress(OSError):  # released in the meantime
                wire.send(head("PutItem", f"Content-Length: {MOST}"), piece)

        senders = [threading.Thread(target=send, args=(wire,)) for wire in wires]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
        with Wire(url) as other:
            other.send(request())
            assert 200 == other.answer()[0]
        # 256 MiB, the spare capacity of a bytearray, and the piece in flight.
        assert peak_bytes(pid) - before < 400 * MIB
