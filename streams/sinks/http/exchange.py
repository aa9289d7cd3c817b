"""One connection of a webhook, and the requests that go over it one after the other.

The standard library's client reads for as long as a server drips, others resolve a name where they please and follow
where they are sent. This one connects to an address that was looked at (`targets.py`), follows nothing, and reads a
bounded answer; whoever calls bounds the time of all of it with one deadline. httptools, which parses requests in the
server, parses the answers.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final, TypeAlias

import httptools

from .targets import Network, Target, may_be_called, not_public

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""From a host and a port to addresses, as texts."""

MAX_ANSWER: Final = 64 * 1024
"""Head and body together. Of a body nobody reads more than a line."""
_READ: Final = 16 * 1024
_FINAL: Final = 200


class CallError(Exception):
    """The request may or may not have arrived; there is no answer to it."""


class _SilenceError(CallError):
    """The connection ended before a byte of the answer came."""


@dataclass(slots=True)
class Answer:
    """What a server said; of its body no more than the beginning."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


class Exchange:
    """Requests to one target."""

    def __init__(
        self, target: Target, allowed: Sequence[Network], resolve: Resolve, tls: ssl.SSLContext | None
    ) -> None:
        self._target = target
        self._allowed = allowed
        self._resolve = resolve
        self._tls = tls
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def post(self, headers: Mapping[str, str], body: bytes) -> Answer:
        """Send one request and read its answer; connected where it is not.

        A server may close a connection that it has said would stay, just when the next request comes. That one is sent
        once more, on a new connection.

        Raises:
            CallError: There is no whole answer, or nothing to connect to.
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
            # Whatever comes next on this connection answers something else.
            self.close()
            raise

    def close(self) -> None:
        """Let the connection go, without a word."""
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
        assert self._tls or not self._target.is_tls, "started"
        tls = {"ssl": self._tls, "server_hostname": host} if self._target.is_tls else {}
        for address in permitted:
            try:
                self._reader, self._writer = await asyncio.open_connection(address, port, **tls)  # type: ignore[arg-type]
                return
            except OSError as error:
                trouble = error
        raise CallError(f"cannot connect to {self._target.authority}: {trouble}") from None

    async def _post(self, headers: Mapping[str, str], body: bytes) -> Answer:
        assert self._reader is not None
        assert self._writer is not None
        lines = "".join(f"{name}: {text}\r\n" for name, text in headers.items())
        head = (
            f"POST {self._target.path} HTTP/1.1\r\nhost: {self._target.authority}\r\n"
            f"content-length: {len(body)}\r\n{lines}\r\n"
        )
        answer = _Answers()
        try:
            self._writer.write(head.encode("ascii") + body)
            # A server may answer before it has read everything, and never read the rest.
            while not answer.is_over:
                data = await self._reader.read(_READ)
                answer.feed(data)
        except OSError as error:
            kind = CallError if answer.size else _SilenceError
            raise kind(f"the connection to {self._target.authority} broke: {error}") from None
        except httptools.HttpParserError as error:
            raise CallError(f"{self._target.authority} does not speak HTTP: {error}") from None
        if not answer.stays:
            self.close()
        return answer.final


class _Answers:
    """Parses what a server says until its final answer; informational ones before it are passed over.

    Attributes:
        final: The answer, once `is_over`.
        stays: Whether the connection can be used for another request.
        size: How many bytes came.
    """

    def __init__(self) -> None:
        self.final = Answer()
        self.is_over = False
        self.stays = False
        self.size = 0
        self._answer = Answer()
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        """Take what has come; nothing is the end of the connection."""
        self.size += len(data)
        if data:
            self._parse(data)
        if self.is_over or (data and self.size <= MAX_ANSWER):
            return
        if not self.size:
            raise _SilenceError("the connection ended without an answer")
        if self._answer.status < _FINAL:
            raise CallError("the answer has no end" if data else "the connection ended without an answer")
        self.final, self.is_over = self._answer, True  # what it says is known, and nobody needs the rest

    def _parse(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            if not self.is_over:
                raise
            self.stays = False  # behind the answer somebody says what is none: nobody listens any more

    def on_message_begin(self) -> None:
        self._answer = Answer()
        self.stays = False  # if the final answer is there, somebody says more than was asked

    def on_header(self, name: bytes, value: bytes) -> None:
        self._answer.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self._answer.status = self._parser.get_status_code()

    def on_body(self, data: bytes) -> None:
        self._answer.body += data

    def on_message_complete(self) -> None:
        if self._answer.status >= _FINAL and not self.is_over:
            self.final, self.is_over = self._answer, True
            self.stays = self._parser.should_keep_alive()
