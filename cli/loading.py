"""Many items by BatchWriteItem, until the server has taken them all or will not."""

import time
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import orjson

from ..model.values import Item
from .client import Client
from .failures import CommandError, ExitCode
from .output import counted
from .session import consumed
from .shapes import Shape

_PAUSES_S = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)


class Loader:
    """Counts what was written, what it cost, and what the server did not take."""

    BATCH = 25

    def __init__(self, client: Client, shape: Shape, sleep: Callable[[float], None] = time.sleep) -> None:
        self.written = 0
        self.unprocessed = 0
        self.units = Decimal(0)
        self._client = client
        self._table = shape.name
        self._keys = shape.key_names()
        self._sleep = sleep

    def put(self, items: Sequence[Item]) -> None:
        """Write up to BATCH items. A batch may not name a key twice, so of two items with one key the last goes."""
        last = {orjson.dumps([item.get(name) for name in self._keys]): item for item in items}
        waiting: list[Any] = [{"PutRequest": {"Item": item}} for item in last.values()]
        self.written += len(items)
        for pause in (*_PAUSES_S, None):
            waiting = self._send(waiting)
            if not waiting:
                return
            if pause is not None:
                self._sleep(pause)
        self.written -= len(waiting)
        self.unprocessed += len(waiting)

    def _send(self, requests: list[Any]) -> list[Any]:
        body = {"RequestItems": {self._table: requests}, "ReturnConsumedCapacity": "TOTAL"}
        answer = self._client.call("BatchWriteItem", body)
        self.units += consumed(answer)
        left: list[Any] = answer.get("UnprocessedItems", {}).get(self._table, [])
        return left

    def check(self) -> None:
        """Fail if anything was left."""
        if self.unprocessed:
            raise CommandError(
                f"{counted(self.unprocessed, 'item')} not taken, retries included; putting them again is harmless",
                ExitCode.PARTLY,
            )
