"""Clients that measure how long a cluster is without service.

Each puts one item until the put is acknowledged, over and over. The longest time that a put takes is the longest time
that a client was without service.
"""

import random
import threading
import time
from typing import Self

from tests.support.failing_servers import Addresses, Client
from tests.support.raw import ask
from tests.support.tables import table_request

TABLE = "Probed"
_TIMEOUT_S = 2.0
_RETRY_S = 0.02
_PAUSE_S = 0.05


class Probes:
    """Probing clients, from the start of the block to its end.

    Attributes:
        took: When each put was first sent, and the seconds until it was acknowledged.
    """

    def __init__(self, urls: list[str], clients: int = 12) -> None:
        self.took: list[tuple[float, float]] = []
        self._addresses = Addresses(urls)
        self._threads = [threading.Thread(target=self._probe, args=(n,)) for n in range(clients)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._addresses.stopped.set()
        for thread in self._threads:
            thread.join(timeout=60)

    def longest_since(self, time_s: float) -> float:
        """Return the seconds of the slowest put that was in progress at that time or began later."""
        return max((seconds for begun, seconds in self.took if begun + seconds > time_s), default=0.0)

    def _probe(self, number: int) -> None:
        stopped = self._addresses.stopped
        client = Client(self._addresses, random.Random(number), _TIMEOUT_S)
        request = {"TableName": TABLE, "Item": {"pk": {"S": f"probe {number}"}}}
        while not stopped.is_set():
            begun = time.monotonic()
            while client.ask("PutItem", request).fate != "acknowledged" and not stopped.is_set():
                stopped.wait(_RETRY_S)
            self.took.append((begun, time.monotonic() - begun))
            stopped.wait(_PAUSE_S)
        client.close()


def create(url: str) -> None:
    """Create the table of the probes."""
    assert ask(url, "CreateTable", table_request(TABLE, "pk:S")).status == 200
