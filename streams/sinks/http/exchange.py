"""One HTTP connection of a webhook, with sequential requests.

The standard library's client has no overall timeout, and other clients resolve names themselves and follow redirects.
This one connects to a checked address (`targets.py`), follows no redirect, and reads a bounded response; the caller
sets one deadline for all. httptools, which also parses the server's requests, parses the responses.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from ipaddress import ip_address
from typing import Final, TypeAlias

import httptools

from ....model.lazy_dataclass import dataclass
from .targets import Network, Target, may_be_called, not_public

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the addresses of a host and a port, as texts."""

MAX_RESPONSE: Final = 64 * 1024
"""Bytes of head and body together. Callers quote the first line of a body only."""
_READ_BYTES: Final = 16 * 1024
_FINAL_STATUS: Final = 200
"""Lower status codes are informational; a final response follows them."""


class CallError(Exception):
    """A request without a response; the server may have received it."""


class _SilenceError(CallError):
    """The connection ended before the first byte of the response."""


@dataclass(slots=True)
class Response:
    """A server's response, with the beginning of its body."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


class Exchange:
    """Sends requests to one target."""

    def __init__(
        self, target: Target, allowed: Sequence[Network], resolve: Resolve, tls: ssl.SSLContext | None
    ) -> None:
        self._target = target
        self._allowed = allowed
        self._resolve = resolve
        self._tls = tls
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def post(self, headers: Mapping[str, str], body: bytes) -> Response:
        """Send one request and return its response; connect first if necessary.

        A server may close a persistent connection just when the next request arrives. The request is then sent once
        more, on a new connection.

        Raises:
            CallError: The connection fails, or ends before the response is complete.
        """
        try:
            if self._writer is not None:
                try:
                    return await self._post(headers, body)
                except _SilenceError:
                    self.close()
            await self._connect()
            return await self._post(headers, body)
        except BaseException:
            # Later bytes on this connection would belong to another response.
            self.close()
            raise

    def close(self) -> None:
        if self._writer is not None:
            self._writer.transport.abort()
        self._reader = self._writer = None

    async def _connect(self) -> None:
        host, port = self._target.host, self._target.port
        try:
            addresses = await self._resolve(host, port)
        except OSError as error:
            raise CallError(f"{host} cannot be resolved: {error}") from None
        permitted = [text for text in addresses if may_be_called(ip_address(text), self._allowed)]
        if not permitted:
            raise CallError(not_public(host, addresses))
        assert self._tls or not self._target.is_tls, "the sink is started"
        tls = {"ssl": self._tls, "server_hostname": host} if self._target.is_tls else {}
        for address in permitted:
            try:
                self._reader, self._writer = await asyncio.open_connection(address, port, **tls)  # type: ignore[arg-type]
                return
            except OSError as error:
                failure = error
        raise CallError(f"cannot connect to {self._target.authority}: {failure}") from None

    async def _post(self, headers: Mapping[str, str], body: bytes) -> Response:
        assert self._reader is not None
        assert self._writer is not None
        lines = "".join(f"{name}: {text}\r\n" for name, text in headers.items())
        head = (
            f"POST {self._target.path} HTTP/1.1\r\nhost: {self._target.authority}\r\n"
            f"content-length: {len(body)}\r\n{lines}\r\n"
        )
        parser = _ResponseParser()
        try:
            self._writer.write(head.encode("ascii") + body)
            # A server may respond before it has read the request, and never read the rest.
            while not parser.is_complete:
                data = await self._reader.read(_READ_BYTES)
                parser.feed(data)
        except OSError as error:
            kind = CallError if parser.size else _SilenceError
            raise kind(f"the connection to {self._target.authority} broke: {error}") from None
        except httptools.HttpParserError as error:
            raise CallError(f"{self._target.authority} does not speak HTTP: {error}") from None
        if not parser.is_reusable:
            self.close()
        return parser.response


class _ResponseParser:
    """Parses a response; informational responses before it are skipped.

    Attributes:
        response: The final response, once `is_complete`.
        is_reusable: Whether the connection can carry another request.
        size: The number of received bytes.
    """

    def __init__(self) -> None:
        self.response = Response()
        self.is_complete = False
        self.is_reusable = False
        self.size = 0
        self._current = Response()
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        """Parse received bytes; no bytes mean the end of the connection."""
        self.size += len(data)
        if data:
            self._parse(data)
        if self.is_complete or (data and self.size <= MAX_RESPONSE):
            return
        if not self.size:
            raise _SilenceError("the connection ended without a response")
        if self._current.status < _FINAL_STATUS:
            raise CallError(
                f"the response exceeds {MAX_RESPONSE:,} bytes"
                if data
                else "the connection ended without a response"
            )
        self.response, self.is_complete = self._current, True  # head known: the status suffices

    def _parse(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            if not self.is_complete:
                raise
            self.is_reusable = False  # bytes after the response that are no response

    def on_message_begin(self) -> None:
        self._current = Response()
        self.is_reusable = False  # a response without a request

    def on_header(self, name: bytes, value: bytes) -> None:
        self._current.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self._current.status = self._parser.get_status_code()

    def on_body(self, data: bytes) -> None:
        self._current.body += data

    def on_message_complete(self) -> None:
        if self._current.status >= _FINAL_STATUS and not self.is_complete:
            self.response, self.is_complete = self._current, True
            self.is_reusable = self._parser.should_keep_alive()
