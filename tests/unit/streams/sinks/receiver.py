"""An HTTP server for webhooks that responds as a test asks, also in invalid ways.

    async with receiver() as there:
        there.answers = [status(503, "retry-after: 7"), drip]
        ...
        there.requests     the requests in order; there.connections     the number of connections

An answer is bytes, or an action on the connection. After the last one the server responds 204.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Answer: TypeAlias = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Request:
    line: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Receiver:
    port: int = 0
    answers: list[Answer] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a connection has ended."""

    def url(self, path: str = "/hook", scheme: str = "http", host: str = "127.0.0.1") -> str:
        return f"{scheme}://{host}:{self.port}{path}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                self.requests.append(await _request(reader))
                answer = self.answers.pop(0) if self.answers else status(204)
                if callable(answer):
                    await answer(writer)
                else:
                    writer.write(answer)
                    await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.CancelledError, OSError):
            pass  # the client closed the connection, or the test has ended
        finally:
            writer.close()
            self.ended.set()


async def _request(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("ascii")
    line, *rest = head.rstrip("\r\n").split("\r\n")
    headers = {name: text for name, _, text in (each.partition(": ") for each in rest)}
    return Request(line, headers, await reader.readexactly(int(headers["content-length"])))


@asynccontextmanager
async def receiver(tls: ssl.SSLContext | None = None) -> AsyncIterator[Receiver]:
    there = Receiver()
    server = await asyncio.start_server(there.serve, "127.0.0.1", 0, ssl=tls)
    there.port = server.sockets[0].getsockname()[1]
    try:
        yield there
    finally:
        server.close()
        tasks = [task for task in asyncio.all_tasks() if task.get_coro().__qualname__ == "Receiver.serve"]  # type: ignore[union-attr]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks)


def status(code: int, *headers: str, body: bytes = b"") -> bytes:
    """Return a complete response."""
    lines = "".join(f"{line}\r\n" for line in headers)
    length = "" if code == 204 else f"content-length: {len(body)}\r\n"
    return f"HTTP/1.1 {code} So\r\n{length}{lines}\r\n".encode() + body


async def never(_: asyncio.StreamWriter) -> None:
    """Never respond."""
    await asyncio.Event().wait()


async def drip(writer: asyncio.StreamWriter) -> None:
    """Send a few bytes repeatedly, with short pauses only."""
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        writer.write(b"x-more: 1\r\n")
        await writer.drain()
        await asyncio.sleep(0.005)


async def hang_up(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    raise ConnectionResetError


def endless(beginning: bytes, more: bytes) -> Answer:
    """Send without end, as fast as the client reads."""

    async def say(writer: asyncio.StreamWriter) -> None:
        writer.write(beginning)
        while True:
            writer.write(more)
            await writer.drain()

    return say


def then_close(answer: bytes) -> Answer:
    async def say(writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()
        raise ConnectionResetError

    return say
