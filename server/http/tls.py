"""TLS between a socket and a connection.

    socket ──► Tls.data_received ──► decrypted ──► Connection.data_received
    socket ◄── encrypted ◄── Tls.write ◄── Connection

A connection is counted, and has a deadline, from the moment that it is accepted, so that whoever begins to shake hands
and goes no further is hung up on, and makes room, like any other. asyncio's own TLS would show it to us only when the
hands are shaken, and would keep a quarter of a mebibyte for each.
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

_RECORD_BYTES = 16 * 1024  # TLS has none that is larger
# Of TLS 1.2 what is left when ciphers without forward secrecy or authentication are gone. TLS 1.3 has no others.
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"


class Certificate:
    """The server's certificate and private key, as they are in their files.

    Attributes:
        context: For connections that begin now.
    """

    def __init__(self, certificate: Path, key: Path | None) -> None:
        """Read them.

        Raises:
            CertificateError: They cannot be read, or are not each other's.
        """
        self._certificate = certificate
        self._key = key
        self.context = self._read()

    def reload(self) -> None:
        """Read them anew: connections that are open stay as they are.

        Raises:
            CertificateError: They cannot be used; those from before go on being used.
        """
        self.context = self._read()

    def _read(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.set_ciphers(_CIPHERS)
        context.set_alpn_protocols(["http/1.1"])
        try:
            # A key that wants a password is refused: a server has nobody to ask.
            context.load_cert_chain(self._certificate, self._key, password="")
        except (OSError, ValueError) as error:  # ssl's own errors are among them
            why = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
            files = " and ".join(str(path) for path in (self._certificate, self._key) if path is not None)
            raise CertificateError(f"cannot use the certificate in {files}: {why}") from error
        return context


class Shared(Protocol):
    """What is needed of the listener."""

    tick: int

    def next_turn(self, do: Callable[[], object]) -> None: ...


class Tls(asyncio.Protocol, asyncio.Transport):
    """To the socket it is the protocol, to the connection the transport."""

    def __init__(self, connection: Connection, context: ssl.SSLContext, listener: Shared) -> None:
        self._connection = connection
        self._listener = listener
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._socket: asyncio.Transport | None = None
        self._is_open = False  # hands are shaken
        self._is_reading = True
        self._is_read = False  # the client has said that nothing more comes
        self._is_ended = False  # we have

    # What the socket calls

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
        if self._is_open or self._shake_hands():
            self._read()

    def _shake_hands(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
        except ssl.SSLError:  # it speaks no TLS, or none that we do
            self._flush()  # says which
            self.close()
        else:
            self._is_open = True
            self._flush()
            self._connection.deadline = self._listener.tick + FIRST_TICKS
        return self._is_open

    def _read(self) -> None:
        """Hand over what came. Who asks us to pause gets the rest when he goes on."""
        try:
            while self._is_reading and self._socket is not None:
                data = self._tls.read(_RECORD_BYTES)
                if not data:
                    self._close_notified()
                    break
                self._connection.data_received(data)
        except ssl.SSLWantReadError:
            self._flush()  # TLS may have something to say of its own
        except ssl.SSLZeroReturnError:
            self._close_notified()
        except ssl.SSLError:  # somebody has changed what was sent
            self.abort()

    def _close_notified(self) -> None:
        if not self._ended_by_client():
            self.close()

    def _ended_by_client(self) -> bool:
        """Tell the connection, once; whether it stays open to answer."""
        if self._is_read:
            return True
        self._is_read = True
        return self._connection.eof_received()

    # What the connection calls

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
            self._listener.next_turn(self._read)  # what was decrypted no socket tells of

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_open and not self._is_ended:
            self._tls.write(data)
            self._flush()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        """Say that nothing more comes, and go on reading."""
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
        with contextlib.suppress(ssl.SSLError):  # it would wait for the client to say the same
            self._tls.unwrap()
        self._flush()

    def _flush(self) -> None:
        data = self._outgoing.read()
        if data and self._socket is not None:
            self._socket.write(data)
