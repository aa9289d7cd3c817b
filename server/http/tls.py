"""TLS between a socket and a connection.

    socket ──► Tls.data_received ──► decrypted ──► Connection.data_received
    socket ◄── encrypted ◄── Tls.write ◄── Connection

A connection counts and has a deadline from its accept, so that a client that never finishes the handshake times out and
can be evicted like any other. asyncio's own TLS would report a connection only after the handshake, and would buffer
256 KiB for each.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, cast

from ...model.errors import CertificateError
from .protocol import FIRST_TICKS, Connection

HANDSHAKE_TICKS = 10

_RECORD_BYTES = 16 * 1024  # the maximum of TLS
# The ciphers of TLS 1.2 with forward secrecy and authentication. TLS 1.3 has no others.
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"


class Certificate:
    """The server's certificate and private key.

    Attributes:
        context: The context of new connections.
    """

    def __init__(self, certificate: Path, key: Path | None) -> None:
        """Read the files.

        Raises:
            CertificateError: A file cannot be read, or the key does not belong to the certificate.
        """
        self._certificate = certificate
        self._key = key
        self.context = self._read()

    def reload(self) -> None:
        """Read the files again. Open connections keep their certificate.

        Raises:
            CertificateError: The files cannot be used; new connections keep the previous certificate.
        """
        self.context = self._read()

    def _read(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.set_ciphers(_CIPHERS)
        context.set_alpn_protocols(["http/1.1"])
        try:
            # A key with a password is refused: the server cannot ask for it.
            context.load_cert_chain(self._certificate, self._key, password="")
        except (OSError, ValueError) as error:  # OSError includes the errors of ssl
            reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
            files = " and ".join(str(path) for path in (self._certificate, self._key) if path is not None)
            raise CertificateError(f"cannot use the certificate in {files}: {reason}") from error
        return context


class Shared(Protocol):
    """The part of the listener that TLS uses."""

    tick: int

    def call_soon(self, callback: Callable[[], object]) -> None: ...


class Tls(asyncio.Protocol, asyncio.Transport):
    """The protocol of the socket and the transport of the connection."""

    def __init__(self, connection: Connection, context: ssl.SSLContext, listener: Shared) -> None:
        self._connection = connection
        self._listener = listener
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._socket: asyncio.Transport | None = None
        self._is_open = False  # the handshake is complete
        self._is_reading = True
        self._is_read = False  # the client has sent its end
        self._is_ended = False  # this side has sent its end

    # Called by the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast(asyncio.Transport, transport)
        self._connection.connection_made(self)
        if self._connection.deadline > self._listener.tick + HANDSHAKE_TICKS:
            self._connection.deadline = self._listener.tick + HANDSHAKE_TICKS

    def connection_lost(self, exc: Exception | None) -> None:
        self._socket = None
        self._connection.connection_lost(exc)

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()

    def eof_received(self) -> bool:
        stays = self._is_open and self._ended_by_client()
        if not stays:
            self._end()
        return stays

    def data_received(self, data: bytes) -> None:
        self._incoming.write(data)
        if self._is_open or self._handshake():
            self._read()

    def _handshake(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
        except ssl.SSLError:  # not TLS, or no version or cipher in common
            self._flush()  # the alert says which
            self.close()
        else:
            self._is_open = True
            self._flush()
            self._connection.deadline = self._listener.tick + FIRST_TICKS
        return self._is_open

    def _read(self) -> None:
        """Pass decrypted bytes to the connection, until it pauses."""
        try:
            while self._is_reading and self._socket is not None:
                data = self._tls.read(_RECORD_BYTES)
                if not data:
                    self._close_notified()
                    break
                self._connection.data_received(data)
        except ssl.SSLWantReadError:
            self._flush()  # TLS may have bytes of its own to send
        except ssl.SSLZeroReturnError:
            self._close_notified()
        except ssl.SSLError:  # the record was tampered with
            self.abort()

    def _close_notified(self) -> None:
        if not self._ended_by_client():
            self.close()

    def _ended_by_client(self) -> bool:
        """Notify the connection once; return whether it stays open to answer."""
        if self._is_read:
            return True
        self._is_read = True
        return self._connection.eof_received()

    # Called by the connection

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default if self._socket is None else self._socket.get_extra_info(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if self._socket is not None:
            self._socket.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return 0 if self._socket is None else self._socket.get_write_buffer_size()

    def is_reading(self) -> bool:
        return self._is_reading

    def pause_reading(self) -> None:
        self._is_reading = False
        if self._socket is not None:
            self._socket.pause_reading()

    def resume_reading(self) -> None:
        self._is_reading = True
        if self._socket is not None:
            self._socket.resume_reading()
            self._listener.call_soon(self._read)  # no socket event reports bytes that are decrypted already

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_open and not self._is_ended:
            self._tls.write(data)
            self._flush()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        """Send the end of this side, and continue to read."""
        self._end()
        if self._socket is not None and self._socket.can_write_eof():
            self._socket.write_eof()

    def close(self) -> None:
        self._end()
        if self._socket is not None:
            self._socket.close()

    def abort(self) -> None:
        if self._socket is not None:
            self._socket.abort()

    def _end(self) -> None:
        if not self._is_open or self._is_ended:
            return
        self._is_ended = True
        with contextlib.suppress(ssl.SSLError):  # it would wait for the end of the client
            self._tls.unwrap()
        self._flush()

    def _flush(self) -> None:
        data = self._outgoing.read()
        if data and self._socket is not None:
            self._socket.write(data)
