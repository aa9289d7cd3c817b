"""A client that reads its own writes from an index.

    put ──► acknowledged at a position ──► a node reaches that position ──► the index must show the item

No other client writes its item. After a doubt it uses another item, because the write in doubt may be applied at any
time.
"""

from functools import partial
from typing import TYPE_CHECKING, Any

from foldb.materializer.fold.outcomes import Applied, Outcome
from foldb.materializer.fold.read_requests import Page, QueryRequest
from foldb.materializer.partition import ResultPosition
from foldb.model.errors import RequestError
from foldb.model.values import load
from tests.verification.simulator.clients import requests
from tests.verification.simulator.network import Asking

if TYPE_CHECKING:
    from tests.verification.simulator.world import World

_SIZE = 300


class IndexReader:
    """A client that does this `count` times."""

    def __init__(self, world: "World", number: int, count: int) -> None:
        self.left = count
        self._world = world
        self._key = f"w{number}"
        self._value = 0
        self._node = world.nodes[0]

    @property
    def idle(self) -> bool:
        """Whether it has done all its reads."""
        return self.left <= 0

    def start(self) -> None:
        """Put another item."""
        if self.left > 0:
            self._value = self._world.dice.randrange(1000)
            self._node = self._world.any_node()
            put = requests.put(self._world.table, self._key, self._value)
            self._send(lambda node, reply: node.router.submit(put, _SIZE, reply), self._written)

    def _again(self) -> None:
        self.left -= 1
        self._world.clients.call_later(self._world.think * self._world.dice.random(), self.start)

    def _written(self, outcome: Outcome | None, place: ResultPosition | None = None) -> None:
        if isinstance(outcome, Applied):
            assert place is not None
            self._send(lambda node, reply: node.router.reach(place, reply), self._reached)
        else:
            self._key += "+"
            self._again()

    def _reached(self, error: RequestError | None) -> None:
        if error is not None:
            self._again()
            return
        group = requests.group(self._value)["S"].encode()
        query = QueryRequest(self._world.table, requests.INDEX, group, b"", None, fresh=True)
        self._send(lambda node, reply: node.router.query(query, reply), self._read)

    def _read(self, page: Page | RequestError | None, place: ResultPosition | None = None) -> None:
        if isinstance(page, Page):
            shown = {item["pk"]["S"]: item for item in map(load, page.items)}
            assert len(shown) == len(page.items), f"an index shows an item twice: {page.items}"
            mine = shown.get(self._key)
            assert mine is not None, (
                f"{self._key} is not in the index, which has reached it: {shown.keys()} at {place}"
            )
            assert int(mine["v"]["N"]) == self._value, f"the index shows {mine}, not {self._value}"
            self._world.index_reads += 1
        self._again()

    def _send(self, ask: Any, received: Any) -> None:
        world = self._world
        silence = (requests.SILENCE,)
        Asking(world.network, world.clients, self._node.process, partial(ask, self._node), received, silence)
