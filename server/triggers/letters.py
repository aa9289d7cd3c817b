"""Dead letters as items of a table of ours: whoever can read and write tables can read, mend and drop them.

key (S)          the table and the item's key, as text: letters of one key stand in their order
number (S)       the change's sequence number
payload (M)      the change in plain JSON: what is edited here is what is delivered again
error, traceback, attempts, first, last, version, partition, subscription
"""

import hashlib
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import orjson

from ...log.commands import Context, DefineTable, Delete, Expression, Put
from ...materializer.fold.outcomes import Change
from ...materializer.fold.pages import QueryRequest, ScanRequest
from ...model.descriptions import stream_label
from ...model.errors import ConditionalCheckFailedError, ValidationError
from ...model.values import Item, dump, item_size
from ...streams.formats.delivery import Delivery, TableView
from ...streams.formats.plain import plain
from ...streams.subscriptions.letters import Key, Letter
from .asking import page_of, submitted

if TYPE_CHECKING:
    from ..node import Node

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

_KEY_MOST: Final = 1024
_IMAGES: Final = ("keys", "old", "new")
_ABSENT: Final = Expression(condition="attribute_not_exists(#key)", names={"#key": "key"})
_OURS: Final = Context("dead-letter", source="trigger")


class LetterTable:
    """The dead letters of one subscription."""

    def __init__(self, node: "Node", table: str, subscription: str) -> None:
        self._node = node
        self._table = table
        self._subscription = subscription

    async def keys(self) -> dict[Key, int]:
        """As of Letters."""
        found: dict[Key, int] = {}
        for letter in await self.all():
            key = self.item_key(letter)
            if key is not None:
                number = int(letter["number"]["S"])
                found[key] = min(number, found.get(key, number))
        return found

    async def first(self, delivery: Delivery) -> int | None:
        """As of Letters."""
        letters = await self.of_key(key_text(delivery), limit=1)
        return int(letters[0]["number"]["S"]) if letters else None

    async def write(self, letters: Sequence[Letter]) -> None:
        """As of Letters; the table is made for the first where nobody has made it."""
        await self.make(_OURS)
        for letter in letters:
            await self._put(item_of(letter, self._subscription), _ABSENT)

    async def all(self) -> list[Item]:
        """Every letter, those of one key in their order; none where nobody has made the table."""
        found: list[Item] = []
        if not self._is_there:
            return found
        start = None
        while True:
            request = ScanRequest(self._id, None, start=start, consistent=True)
            page = await page_of(self._node, request)
            found += [orjson.loads(item) for item in page.items]
            if page.last is None:
                return found
            last = orjson.loads(page.last)
            start = (last["key"]["S"].encode(), last["number"]["S"].encode())

    async def of_key(self, key: str, limit: int | None = None) -> list[Item]:
        """The letters of one key, in order."""
        if not self._is_there:
            return []
        request = QueryRequest(self._id, None, key.encode(), b"", None, limit=limit, consistent=True)
        return [orjson.loads(item) for item in (await page_of(self._node, request)).items]

    async def drop(self, letter: Item) -> None:
        """Remove a letter."""
        pk, sk = letter["key"]["S"].encode(), letter["number"]["S"].encode()
        await submitted(self._node, Delete(self._id, pk, sk, _OURS), len(pk) + len(sk))

    async def failed_again(self, letter: Item, error: str, traceback: str | None, now_ms: int) -> None:
        """Note that it was tried once more."""
        attempts = int(letter["attempts"]["N"]) + 1
        changed = {**letter, "error": {"S": error}, "attempts": {"N": str(attempts)}, "last": _time(now_ms)}
        if traceback is not None:
            changed["traceback"] = {"S": traceback}
        await self._put(changed)

    async def make(self, context: Context) -> None:
        """Have the table, made anew if it is not there.

        Raises:
            ValidationError: There is one of that name that is no table of letters.
        """
        node = self._node
        table = node.state.table_named(self._table)
        if table is not None:
            if table.definition.key.names != ("key", "number"):
                raise ValidationError(f"DeadLetterTable {self._table} is a table of something else")
            return
        request = orjson.dumps({"TableName": self._table, **_DEFINITION}, option=orjson.OPT_SORT_KEYS)
        drawn = str(uuid.UUID(bytes=node.random_bytes(16), version=4))
        settles_later = node.settings.table_delay_ms > 0
        command = DefineTable("CreateTable", 0, request, drawn, context, settles_later)
        await submitted(node, command, len(request))

    def item_key(self, letter: Item) -> Key | None:
        """The key of the item that the letter is about; None if its table is gone."""
        payload = letter["payload"]["M"]
        table = self._node.state.table_named(payload["table"]["S"])
        if table is None:
            return None
        definition = table.definition
        pk, sk = definition.key.pk(payload["keys"]["M"]), definition.key.sk(payload["keys"]["M"])
        return None if pk is None or sk is None else (definition.id, pk, sk)

    @property
    def _is_there(self) -> bool:
        return self._node.state.table_named(self._table) is not None

    @property
    def _id(self) -> int:
        return self._node.table(self._table).definition.id

    async def _put(self, item: Item, expression: Expression | None = None) -> None:
        data, limits = dump(item), self._node.limits
        pk, sk = item["key"]["S"].encode(), item["number"]["S"].encode()
        command = Put(self._id, pk, sk, data, item_size(item, limits), _OURS, expression)
        try:
            await submitted(self._node, command, len(data))
        except ConditionalCheckFailedError:
            assert expression is not None, "without a condition none fails"  # it is there already


def key_text(delivery: Delivery) -> str:
    """The partition key of a change's letters."""
    change, _, table = delivery
    text = f"{table.name} {dump(table.key.decode(change.pk, change.sk)).decode()}"
    if len(text.encode()) <= _KEY_MOST:
        return text
    return f"{text[: _KEY_MOST // 4]}... {hashlib.blake2b(text.encode(), digest_size=16).hexdigest()}"


def item_of(letter: Letter, subscription: str) -> Item:
    """The letter as an item."""
    delivery = letter.delivery
    item: Item = {
        "key": {"S": key_text(delivery)},
        "number": {"S": str(delivery.change.sequence_number)},
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


def _text(value: dict[str, Any]) -> str | None:
    return value.get("S")


def _time(time_ms: int) -> dict[str, str]:
    return {"S": stream_label(time_ms) + "Z"}
