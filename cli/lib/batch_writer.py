"""Write many items with BatchWriteItem, with retries, up to the first refused item or without the refused ones."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

from ...model.values import Item
from .client import Client
from .errors import CommandError, ExitCode, RequestFailedError
from .key_arguments import KeyArguments
from .output import counted
from .progress import Advance
from .session import consumed
from .values import plain_item, write_json

Placed: TypeAlias = tuple[str, Item]
"""An item, and its source for an error: `songs.jsonl line 32`."""


class PlacedKey(NamedTuple):
    """The key of an item to delete, and its source for an error."""

    name: str
    key: Item


_PAUSES_S = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)

# Errors of one item for which the server refuses the whole batch, without naming the item.
_OF_ONE_ITEM = frozenset(
    ("ValidationException", "SerializationException", "ItemCollectionSizeLimitExceededException")
)


class BatchWriter:
    """A writer of items, in their order, that counts the acknowledged ones.

    Args:
        deletes: Delete the items with these keys, instead of putting items.

    Attributes:
        written: Acknowledged items. An item with the key of a later one in its batch counts with that one.
        unprocessed: Items that the server did not process, after all retries.
        units: Consumed write units.
    """

    BATCH = 25

    def __init__(
        self,
        client: Client,
        shape: KeyArguments,
        *,
        is_typed: bool = False,
        words: tuple[str, str] = ("written", "put them again"),
        on_refused: Callable[[CommandError], None] | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Create a writer.

        Args:
            is_typed: Whether errors show keys in DynamoDB JSON.
            words: The participle and the advice of errors.
            on_refused: Receives the error of each refused item. None: the first one ends `load`.
            sleep: Waits before a retry.
        """
        self.written = 0
        self.unprocessed = 0
        self.units = Decimal(0)
        self._client = client
        self._table = shape.name
        self._keys = shape.key_names()
        self._is_typed = is_typed
        self._done, self._again = words
        self._on_refused = on_refused
        self._sleep = sleep

    def load(self, items: Iterable[Placed | PlacedKey], advance: Advance = lambda _: None) -> None:
        """Write all items, and delete those of the keys, up to the first invalid or refused one.

        Raises:
            CommandError: `items` raised it, the server refused an item, cannot be reached or did not process all items.
                If items were written, the text has their number and the exit code is PARTLY.
        """
        rest = iter(items)
        try:
            while True:
                batch, failure = _batch(rest, self.BATCH)
                self._put(batch)
                advance(len(batch))
                if failure is not None:
                    raise failure
                if len(batch) < self.BATCH:
                    break
        except CommandError as error:
            if not self.written:
                raise
            were = "item was" if self.written == 1 else "items were"
            raise CommandError(
                f"{error.sentence.rstrip('.')}; {self.written:,} {were} {self._done} before it; "
                f"to {self._again} is harmless",
                ExitCode.PARTLY,
            ) from error
        if self.unprocessed:
            raise CommandError(
                f"{counted(self.unprocessed, 'item')} not processed after retries, and {self.written:,} {self._done}; "
                f"to {self._again} is harmless",
                ExitCode.PARTLY,
            )

    def key_text(self, item: Mapping[str, Any]) -> str:
        """Return ` (key {...})` for an item in JSON, or nothing if a key attribute is missing."""
        try:
            return f" (key {write_json({name: item[name] for name in self._keys})})"
        except (KeyError, TypeError):
            return ""

    def _put(self, batch: Sequence[Placed | PlacedKey]) -> None:
        """Write a batch. If it is refused, write its items one by one, up to the refused item."""
        try:
            self._write(batch)
        except CommandError as error:
            if not _is_of_one_item(error):
                raise
            for placed in batch:
                self._put_alone(placed)

    def _put_alone(self, placed: Placed | PlacedKey) -> None:
        try:
            self._write([placed])
        except CommandError as error:
            if not _is_of_one_item(error):
                raise
            name, item = placed
            refusal = CommandError(f"{name}{self._key_of(item)}: {error.sentence}", error.code)
            if self._on_refused is None:
                raise refusal from error
            self._on_refused(refusal)

    def _write(self, batch: Sequence[Placed | PlacedKey]) -> None:
        """Write up to BATCH items. A batch cannot hold a key twice, so the last item of a key replaces the others."""
        last = {repr([placed[1].get(name) for name in self._keys]): placed for placed in batch}
        self.send([_request(placed) for placed in last.values()])
        self.written += len(batch) - len(last)

    def send(self, waiting: list[Any]) -> None:
        """Send up to BATCH requests of BatchWriteItem, of different keys, with retries of the unprocessed ones.

        A table with little throughput processes a few of them each time, so the pauses begin again after progress.
        """
        pauses = iter(_PAUSES_S)
        while left := self._send(waiting):
            if len(left) < len(waiting):
                pauses = iter(_PAUSES_S)
            self.written += len(waiting) - len(left)
            waiting = left
            pause = next(pauses, None)
            if pause is None:
                self.unprocessed += len(waiting)
                return
            self._sleep(pause)
        self.written += len(waiting)

    def _send(self, requests: list[Any]) -> list[Any]:
        if not requests:
            return []
        body = {"RequestItems": {self._table: requests}, "ReturnConsumedCapacity": "TOTAL"}
        answer = self._client.call("BatchWriteItem", body)
        self.units += consumed(answer)
        left: list[Any] = answer.get("UnprocessedItems", {}).get(self._table, [])
        return left

    def _key_of(self, item: Item) -> str:
        return self.key_text(item if self._is_typed else plain_item(item))


def _request(placed: Placed | PlacedKey) -> dict[str, Any]:
    if isinstance(placed, PlacedKey):
        return {"DeleteRequest": {"Key": placed.key}}
    return {"PutRequest": {"Item": placed[1]}}


def _batch(
    items: Iterator[Placed | PlacedKey], size: int
) -> tuple[list[Placed | PlacedKey], CommandError | None]:
    """Return the next items, and the failure that ended `items`, if there is one."""
    batch: list[Placed | PlacedKey] = []
    try:
        while len(batch) < size and (placed := next(items, None)) is not None:
            batch.append(placed)
    except CommandError as error:
        return batch, error
    return batch, None


def _is_of_one_item(error: CommandError) -> bool:
    if isinstance(error, RequestFailedError):
        return error.name in _OF_ONE_ITEM
    return error.code is ExitCode.USAGE  # the item has no JSON
