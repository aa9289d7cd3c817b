"""A proxy between a client and a broker that loses responses.

It knows the frames of Kafka's protocol so far that it can tell a Produce from other requests. Brokers name their own
addresses to clients; `led_through` leads connections here all the same.
"""

import random
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

PRODUCE = 0


class Proxy:
    """Passes everything on to the broker at `port`, but for the answers to Produce requests that `loses` says.

    Attributes:
        lost: How many answers did not come back.
        port: Where it listens.
    """

    def __init__(self, port: int, loses: Callable[[], str]) -> None:
        self.lost = 0
        self._loses = loses
        self._broker = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            broker = socket.create_connection(("127.0.0.1", self._broker))
            fate: list[str] = []
            threading.Thread(target=self._requests, args=(client, broker, fate), daemon=True).start()
            threading.Thread(target=self._answers, args=(client, broker, fate), daemon=True).start()

    def _requests(self, client: socket.socket, broker: socket.socket, fate: list[str]) -> None:
        """Forward the client's requests, and decide before each one whether its response is lost."""
        for head, body in _frames(client):
            fate.append(self._loses() if struct.unpack(">h", body[:2])[0] == PRODUCE else "")
            try:
                broker.sendall(head + body)
            except OSError:
                break
        _close(client, broker)

    def _answers(self, client: socket.socket, broker: socket.socket, fate: list[str]) -> None:
        for head, body in _frames(broker):
            what = fate.pop(0)
            if what:
                self.lost += 1
            if what == "cut":
                break
            if what == "swallow":  # the connection stays open, and no data arrives
                continue
            try:
                client.sendall(head + body)
            except OSError:
                break
        _close(client, broker)


def _frames(source: socket.socket) -> Iterator[tuple[bytes, bytes]]:
    while True:
        head = _read(source, 4)
        if head is None:
            return
        body = _read(source, struct.unpack(">i", head)[0])
        if body is None:
            return
        yield head, body


def _read(source: socket.socket, size: int) -> bytes | None:
    """Read `size` bytes; return None at the end."""
    read = bytearray()
    while len(read) < size:
        try:
            more = source.recv(size - len(read))
        except OSError:
            return None
        if not more:
            return None
        read += more
    return bytes(read)


def _close(*sockets: socket.socket) -> None:
    for each in sockets:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()


def sometimes(dice: random.Random, what: str, chance: float) -> Callable[[], str]:
    return lambda: what if dice.random() < chance else ""


@contextmanager
def led_through(monkeypatch: pytest.MonkeyPatch, address: str, loses: Callable[[], str]) -> Iterator[Proxy]:
    """While the block lasts, new connections to the broker go through a proxy."""
    from kafka.net import manager

    broker = int(address.rpartition(":")[2])
    proxy = Proxy(broker, loses)
    connect: Any = manager.create_connection

    async def create_connection(net: Any, host: str, port: int, *args: Any, **options: Any) -> Any:
        return await connect(net, host, proxy.port if port == broker else port, *args, **options)

    with monkeypatch.context() as patched:
        patched.setattr(manager, "create_connection", create_connection)
        try:
            yield proxy
        finally:
            proxy.close()
