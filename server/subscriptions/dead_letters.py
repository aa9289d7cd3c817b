"""Dead letters as items of a table of ours: whoever can read and write tables can read, mend and drop them.

key (S)          subscription, table and the item's key, as text: letters of one key stand in their order
number (S)       the change's sequence number
payload (M)      the change in plain JSON: what is edited here is what is delivered again
error, traceback, attempts, first, last, version, partition, subscription

Subscriptions may share a table. By the key, which alone cannot be edited, each finds its own.
"""

import hashlib
import logging
import uuid
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, TypeAlias

import orjson

from ...log.commands import Context, DefineTable, Delete, Expression, Put
from ...materializer.fold.outcomes import Change, Tx
from ...materializer.fold.read_requests import QueryRequest, ScanRequest
from ...model.descriptions import stream_label
from ...model.errors import ConditionalCheckFailedError, ValidationError
from ...model.key_schema import KeyAttribute
from ...model.values import Item, dump, item_size
from ...streams.delivery.dead_letters import DeadLetter, ItemKey
from ...streams.formats.plain import plain
from ...streams.formats.table_view import Delivery, TableView
from .async_partition import page_of, submitted
from .context import SubscriptionContext

_DEFINITION: Final = {
    "KeySchema": [
        {"AttributeName": "key", "KeyType": "HASH"},
        {"AttributeName": "number", "KeyType": "RANGE"},
    ],
    "AttributeDefinitions": [
        {"AttributeName": "key", "AttributeType": "S"},
        {"AttributeName": "number", "AttributeType": "S"},
    ],
    "BillingMode": "PAY_PER_REQUEST",
}

_ATTRIBUTES: Final = (KeyAttribute("key", "S"), KeyAttribute("number", "S"))
_KEY_MOST: Final = 1024
_KEY_SHOWN: Final = _KEY_MOST // 2
_IMAGES: Final = ("keys", "old", "new")
_ABSENT: Final = Expression(condition="attribute_not_exists(#key)", names={"#key": "key"})
_OURS: Final = Context("dead-letter", source="trigger")

Place: TypeAlias = tuple[str, str]
"""The key of a letter: its `key` and its `number`."""

UNREADABLE: Final = (KeyError, TypeError, ValueError, AttributeError)
"""What reading a letter raises that was edited into something else."""

logger = logging.getLogger(__name__)


class DeadLetterTable:
    """The dead letters of one subscription."""

    def __init__(self, node: SubscriptionContext, table: str, subscription: str) -> None:
        self._node = node
        self._table = table
        self._subscription = subscription

    async def keys(self) -> dict[ItemKey, int]:
        """As of Letters."""
        found: dict[ItemKey, int] = {}
        async for letter in self.letters():
            try:
                key, number = self._item_key(letter), int(letter["number"]["S"])
            except UNREADABLE as error:
                where = f"{letter['key']['S']}, number {letter['number']['S']}"
                logger.warning(
                    "what comes later of its key will not wait for the letter %s: %r", where, error
                )
                continue
            if key is not None:
                found[key] = min(number, found.get(key, number))
        return found

    async def first(self, delivery: Delivery) -> int | None:
        """As of Letters."""
        letter = await self._one(self._key_text(delivery).encode())
        return None if letter is None else int(letter["number"]["S"])

    async def write(self, letters: Sequence[DeadLetter]) -> None:
        """As of Letters; the table is made for the first where nobody has made it."""
        await self.make(_OURS)
        for letter in letters:
            key = self._key_text(letter.delivery)
            await self._put(item_of(letter, key, self._subscription), _ABSENT)  # or it is there already

    async def letters(self, key: str | None = None) -> AsyncIterator[Item]:
        """Every letter, or those of one key, page after page; those of a key in their order."""
        start: Item | None = None
        while self._is_there:
            page = await page_of(self._node.partition, self._page_after(key, start))
            for item in page.items:
                letter = orjson.loads(item)
                if letter["key"]["S"].startswith(f"{self._subscription} "):
                    yield letter
            if page.last is None:
                return
            start = orjson.loads(page.last)

    async def places(self, key: str | None = None) -> list[Place]:
        """Where they are, by key; those of a key in their order."""
        found = [(letter["key"]["S"], letter["number"]["S"]) async for letter in self.letters(key)]
        return sorted(found, key=lambda place: (place[0], len(place[1]), place[1]))

    async def at(self, place: Place) -> Item | None:
        """The letter as it is now, if it is there still."""
        key, number = (part.encode() for part in place)
        return await self._one(key, number, number + b"\0")

    async def drop(self, place: Place, as_read: Item | None = None) -> bool:
        """Remove a letter; False if it has been edited or dropped since it was read."""
        pk, sk = (part.encode() for part in place)
        if as_read is None:
            return await self._done(Delete(self._id, pk, sk, _OURS), len(pk) + len(sk))
        return await self._done(Delete(self._id, pk, sk, _OURS, _unchanged(as_read)), len(dump(as_read)))

    async def edit(self, place: Place, before: Item, after: Item) -> bool:
        """Put members of `after` into a letter's payload; False if those of `before` are not there any more."""
        letter = await self.at(place)
        payload = {} if letter is None else letter.get("payload", {}).get("M", {})
        if letter is None or any(payload.get(name) != value for name, value in before.items()):
            return False
        return await self._put({**letter, "payload": {"M": payload | after}}, _unchanged(letter))

    async def failed_again(self, letter: Item, error: str, traceback: str | None, now_ms: int) -> bool:
        """Note that it was tried once more; False if it has been edited or dropped since it was read."""
        attempts = attempts_of(letter) + 1
        changed = {**letter, "error": {"S": error}, "attempts": {"N": str(attempts)}, "last": _time(now_ms)}
        if traceback is not None:
            changed["traceback"] = {"S": traceback}
        return await self._put(changed, _unchanged(letter))

    async def make(self, context: Context) -> None:
        """Have the table, made anew if it is not there.

        Raises:
            ValidationError: There is one of that name that is no table of letters.
        """
        node = self._node
        if node.state.table_named(self._table) is not None:
            if not self._is_there:
                raise ValidationError(f"DeadLetterTable {self._table} is a table of something else")
            return
        request = orjson.dumps({"TableName": self._table, **_DEFINITION}, option=orjson.OPT_SORT_KEYS)
        drawn = str(uuid.UUID(bytes=node.random_bytes(16), version=4))
        settles_later = node.settings.table_delay_ms > 0
        command = DefineTable("CreateTable", 0, request, drawn, context, settles_later)
        await submitted(node.partition, command, len(request))

    @property
    def _is_there(self) -> bool:
        """Whether there is a table of letters; one of something else has none of ours."""
        table = self._node.state.table_named(self._table)
        return table is not None and table.definition.key.attributes == _ATTRIBUTES

    @property
    def _id(self) -> int:
        return self._node.table(self._table).definition.id

    async def _one(self, key: bytes, low: bytes = b"", high: bytes | None = None) -> Item | None:
        """The first letter of a key with a number in a range, if there is one."""
        if not self._is_there:
            return None
        request = QueryRequest(self._id, None, key, low, high, limit=1, consistent=True)
        items = (await page_of(self._node.partition, request)).items
        return orjson.loads(items[0]) if items else None

    def _page_after(self, key: str | None, start: Item | None) -> QueryRequest | ScanRequest:
        last = None if start is None else (start["key"]["S"].encode(), start["number"]["S"].encode())
        if key is None:
            return ScanRequest(self._id, None, start=last, consistent=True)
        return QueryRequest(self._id, None, key.encode(), b"", None, start=last and last[1], consistent=True)

    def _key_text(self, delivery: Delivery) -> str:
        """The partition key of a change's letters."""
        change, table = delivery.change, delivery.table
        text = b"%b %b %b" % (
            self._subscription.encode(),
            table.name.encode(),
            table.key.write(change.pk, change.sk),
        )
        if len(text) <= _KEY_MOST:
            return text.decode()
        digest = hashlib.blake2b(text, digest_size=16).hexdigest()
        return f"{text[:_KEY_SHOWN].decode(errors='ignore')}... {digest}"

    def _item_key(self, letter: Item) -> ItemKey | None:
        """The key of the item that the letter is about; None if its table is gone, or another of its name is there."""
        _, name, text = letter["key"]["S"].split(" ", 2)
        table = self._node.state.table_named(name)
        if table is None:
            return None
        try:
            keys = orjson.loads(text)
        except orjson.JSONDecodeError:  # it was too long to be kept whole
            keys = letter["payload"]["M"]["keys"]["M"]
        definition = table.definition
        pk, sk = definition.key.pk(keys), definition.key.sk(keys)
        return None if pk is None or sk is None else (definition.id, pk, sk)

    async def _put(self, item: Item, condition: Expression) -> bool:
        data, limits = dump(item), self._node.limits
        pk, sk = item["key"]["S"].encode(), item["number"]["S"].encode()
        size = item_size(item, limits)
        # A condition may hold as much once more.
        return await self._done(Put(self._id, pk, sk, data, size, _OURS, condition), 2 * len(data))

    async def _done(self, command: Put | Delete, size: int) -> bool:
        try:
            await submitted(self._node.partition, command, size)
        except ConditionalCheckFailedError:
            return False
        return True


def attempts_of(letter: Item) -> int:
    """How often it was tried; 0 where that was edited into something else."""
    text = letter.get("attempts", {}).get("N", "")
    return int(text) if text.isdecimal() else 0


def _unchanged(letter: Item) -> Expression:
    """Holds while the letter is there with the payload that was read."""
    names = {"#key": "key", "#payload": "payload"}
    if "payload" not in letter:
        return Expression(condition="attribute_exists(#key) AND attribute_not_exists(#payload)", names=names)
    values = {":payload": letter["payload"]}
    return Expression(condition="#payload = :payload", names={"#payload": "payload"}, values=values)


def item_of(letter: DeadLetter, key: str, subscription: str) -> Item:
    """The letter as an item."""
    delivery = letter.delivery
    item: Item = {
        "key": {"S": key},
        "number": {"S": str(delivery.sequence_number)},
        "payload": {"M": _payload(delivery)},
        "error": {"S": letter.error},
        "attempts": {"N": str(letter.attempts)},
        "first": _time(letter.first_ms),
        "last": _time(letter.last_ms),
        "version": {"S": letter.version},
        "partition": {"N": str(delivery.partition)},
        "subscription": {"S": subscription},
    }
    if letter.traceback is not None:
        item["traceback"] = {"S": letter.traceback}
    return item


def delivery_of(letter: Item, view: TableView) -> Delivery:
    """The change that a letter is about, as it is in the letter now.

    Raises:
        KeyError, TypeError, ValueError: The payload was edited into something else.
    """
    payload = letter["payload"]["M"]
    keys = payload["keys"]["M"]
    old, new = (payload[name].get("M") for name in ("old", "new"))
    pk, sk = view.key.pk(keys), view.key.sk(keys)
    if pk is None or sk is None:
        raise ValueError("its keys are none of the table's")
    context = Context(
        _text(payload["requestId"]) or "",
        None,
        _text(payload["principal"]),
        payload["source"]["S"],
        int(payload["depth"]["N"]),
    )
    change = Change(
        view.id,
        pk,
        sk,
        None if old is None else dump(old),
        None if new is None else dump(new),
        int(letter["number"]["S"]),
        int(payload["milliseconds"]["N"]),
        context,
        _tx(payload["tx"]),
        is_read=payload["op"]["S"] == "READ",
    )
    return Delivery(change, int(letter["partition"]["N"]), view)


def _payload(delivery: Delivery) -> Item:
    """Plain JSON as a map; the images in it are maps already."""
    told: dict[str, Any] = orjson.loads(plain(delivery))
    images = {name: {"NULL": True} if told[name] is None else {"M": told[name]} for name in _IMAGES}
    time = {"milliseconds": {"N": str(delivery.change.time)}}
    return {**{name: _value(each) for name, each in told.items() if name not in _IMAGES}, **images, **time}


def _value(plain_value: Any) -> dict[str, Any]:
    match plain_value:
        case None:
            return {"NULL": True}
        case bool():
            return {"BOOL": plain_value}
        case int():
            return {"N": str(plain_value)}
        case dict():
            return {"M": {name: _value(each) for name, each in plain_value.items()}}
    return {"S": str(plain_value)}


def _tx(value: dict[str, Any]) -> Tx | None:
    """Which transaction a change is part of, as `_value` told it."""
    if "NULL" in value:
        return None
    told = value["M"]
    return Tx(told["id"]["S"], int(told["n"]["N"]), int(told["of"]["N"]))


def _text(value: dict[str, Any]) -> str | None:
    return value.get("S")


def _time(time_ms: int) -> dict[str, str]:
    return {"S": stream_label(time_ms) + "Z"}
