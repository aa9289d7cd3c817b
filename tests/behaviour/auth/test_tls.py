"""HTTP over TLS has the limits of plain HTTP for slow, malformed and numerous connections."""

import os
import signal
import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import foldb
from foldb.model.errors import CertificateError
from foldb.server.http.tls import Certificate
from tests.behaviour.auth.certificates import Files, make_certificates
from tests.behaviour.http.wire import Wire, head, request, served_by
from tests.support.served import served
from tests.support.tables import table_request

TICK_MS = 20


class TlsWire(Wire):
    """A connection that speaks TLS."""

    def __init__(self, endpoint: str, ca: Path, *, receive_bytes: int = 0) -> None:
        super().__init__(endpoint, receive_bytes=receive_bytes)
        context = ssl.create_default_context(cafile=ca)
        self.socket = context.wrap_socket(
            self.socket, server_hostname="localhost", suppress_ragged_eofs=False
        )
        self._file = self.socket.makefile("rb")

    def send_for_ever(self, data: bytes) -> None:
        while True:
            self.send(data)

    def end(self) -> None:
        """Send nothing more. TCP says so; TLS itself does not."""
        socket.socket.shutdown(self.socket, socket.SHUT_WR)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return make_certificates(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def url(files: Files) -> Iterator[str]:
    with foldb.serve(tick_ms=TICK_MS, tls_cert=files.cert, tls_key=files.key) as server:
        with TlsWire(server.endpoint_url, files.ca) as wire:
            wire.send(request("CreateTable", table_request("Cars", "pk:S")))
            assert 200 == wire.answer()[0]
        yield server.endpoint_url


def put(key: str, size: int = 0) -> bytes:
    return request("PutItem", {"TableName": "Cars", "Item": {"pk": {"S": key}, "data": {"S": "x" * size}}})


def get(key: str) -> bytes:
    return request("GetItem", {"TableName": "Cars", "Key": {"pk": {"S": key}}})


def test_requests_sent_ahead_are_answered_in_their_order(url: str, files: Files) -> None:
    with TlsWire(url, files.ca) as wire:
        wire.send(b"".join(put(f"key-{n}") + get(f"key-{n}") for n in range(50)))
        answers = [wire.answer() for _ in range(100)]

    assert {200} == {status for status, _, _ in answers}
    assert all(b"key-%d" % n in answers[2 * n + 1][2] for n in range(50))


def test_a_request_may_come_a_byte_a_record(url: str, files: Files) -> None:
    with TlsWire(url, files.ca) as wire:
        wire.send(*(bytes([byte]) for byte in get("nobody")))

        status, _, body = wire.answer()
        assert (200, b"{}") == (status, body)


def test_large_bodies_go_both_ways(url: str, files: Files) -> None:
    with TlsWire(url, files.ca) as wire:
        wire.send(put("large", 390_000))
        assert 200 == wire.answer()[0]
        wire.send(get("large") * 20)

        assert all(len(wire.answer()[2]) > 390_000 for _ in range(20))


def test_a_half_closed_connection_gets_its_answers(url: str, files: Files) -> None:
    with TlsWire(url, files.ca) as wire:
        wire.send(put("last") + get("last"))
        wire.end()

        assert [200, 200] == [wire.answer()[0], wire.answer()[0]]
        assert wire.is_closed()


@pytest.mark.guarantee("SEC8")
@pytest.mark.parametrize("sent", [b"", b"\x16", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"])
def test_a_client_without_a_handshake_is_disconnected(url: str, sent: bytes) -> None:
    with Wire(url) as wire:
        wire.send(sent)

        assert wire.is_closed()


@pytest.mark.parametrize(
    "sent", [b"GET / HTTP/1.1\r\n\r\n", b"\0" * 100, b"\x16\x03\x01\xff\xff" + b"x" * 70_000]
)
def test_plaintext_ends_a_tls_connection_at_once(url: str, sent: bytes) -> None:
    with Wire(url) as wire:
        wire.send(sent)

        with suppress(ConnectionResetError):
            wire.line()  # an alert, perhaps
        assert wire.is_closed()


def test_deadlines_are_those_of_http(url: str, files: Files) -> None:
    with TlsWire(url, files.ca) as wire:
        wire.send(head()[:-2])

        assert b"HTTP/1.1 408 Request Timeout" == wire.line()
    with TlsWire(url, files.ca) as wire:
        assert wire.is_closed()


def test_a_refused_client_can_read_the_reason(url: str, files: Files) -> None:
    with TlsWire(url, files.ca) as wire:
        wire.send(b"POST / HTTP/1.1\r\nHost: evil.example\r\n\r\n" + b"x" * 100_000)

        assert 403 == wire.answer()[0]
        assert wire.is_closed()


def test_a_client_that_does_not_read_is_disconnected(url: str, files: Files) -> None:
    """Megabytes of answers, until neither socket takes more: then no request is read, and half a minute later none."""
    with TlsWire(url, files.ca, receive_bytes=4096) as wire:
        wire.send(put("huge", 390_000))
        assert 200 == wire.answer()[0]
        with pytest.raises(OSError, match=r"Broken pipe|reset by peer|EOF|timed out") as caught:
            wire.send_for_ever(get("huge") * 1000)

        assert not isinstance(caught.value, TimeoutError)


@pytest.mark.guarantee("SEC8")
def test_a_connection_in_a_long_handshake_can_be_evicted(files: Files) -> None:
    """Each counts from the moment that it is accepted, or a thousand half handshakes would take all descriptors."""
    with foldb.serve(connections=4, tls_cert=files.cert, tls_key=files.key) as server:
        begun = [Wire(server.endpoint_url) for _ in range(4)]
        with TlsWire(server.endpoint_url, files.ca) as wire:
            wire.send(request())
            assert 200 == wire.answer()[0]
        assert any(one.is_closed() for one in begun)
        for one in begun:
            one.close()


def test_a_byte_that_was_changed_on_the_way_ends_the_connection(url: str, files: Files) -> None:
    address = urlsplit(url)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context(cafile=files.ca)
    tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with socket.create_connection((address.hostname, address.port), timeout=20) as plain:
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                plain.sendall(outgoing.read())
                incoming.write(plain.recv(10_000))
        plain.sendall(outgoing.read())
        tls.write(put("changed"))
        record = bytearray(outgoing.read())
        record[len(record) // 2] ^= 1
        plain.sendall(record)
        while plain.recv(10_000):
            pass

    with TlsWire(url, files.ca) as wire:
        wire.send(get("changed"))
        assert b"{}" == wire.answer()[2]


@pytest.mark.guarantee("SEC7")
def test_tls_is_1_2_or_later_with_forward_secrecy(files: Files) -> None:
    context = Certificate(files.cert, files.key).context

    assert ssl.TLSVersion.TLSv1_2 <= context.minimum_version
    assert all(
        cipher["name"].startswith(("TLS_", "ECDHE-")) and cipher["aead"] for cipher in context.get_ciphers()
    )


def test_certificate_and_key_may_be_in_one_file(files: Files, tmp_path: Path) -> None:
    both = tmp_path / "both.pem"
    both.write_bytes(files.cert.read_bytes() + files.key.read_bytes())

    assert Certificate(both, None).context
    with pytest.raises(CertificateError, match="cannot use the certificate"):
        Certificate(files.cert, None)


def test_sighup_loads_a_new_certificate_but_no_invalid_one(files: Files, tmp_path: Path) -> None:
    other = make_certificates(tmp_path, "other")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    cert.write_bytes(files.cert.read_bytes())
    key.write_bytes(files.key.read_bytes())
    folder = tmp_path / "data"
    with served(folder, "--tls-cert", str(cert), "--tls-key", str(key)) as url:
        with TlsWire(url, files.ca) as before:
            cert.write_bytes(other.cert.read_bytes())  # no longer that of the key
            os.kill(served_by(folder), signal.SIGHUP)
            assert answers(url, files.ca)
            key.write_bytes(other.key.read_bytes())
            os.kill(served_by(folder), signal.SIGHUP)
            while not answers(url, other.ca):
                pass
            before.send(request())
            assert 200 == before.answer()[0]  # open connections stay open
        assert not answers(url, files.ca)


def answers(url: str, ca: Path) -> bool:
    """Whether it has a certificate of that authority."""
    try:
        with TlsWire(url, ca) as wire:
            wire.send(request())
            return wire.answer()[0] == 200
    except ssl.SSLCertVerificationError:
        return False
