"""Dead letters as items of an ordinary table, so that any DynamoDB client can read, edit and remove them.

key (S)          subscription, table and the item's key, as text: dead letters of one key are in order
number (S)       the change's sequence number
payload (M)      the change in plain JSON: a redelivery delivers it as it was edited
error, traceback, attempts, first, last, version, partition, subscription

Subscriptions may share a table. Each finds its own dead letters by `key`, the only attribute that clients cannot edit.
"""

import hashlib
import logging
import uuid
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, TypeAlias

import orjson

from ...log.commands import Context, DefineTable, Delete, Expression, Put, new_context
from ...materializer.fold.outcomes import Change, Tx
from ...materializer.fold.read_requests import QueryRequest, ScanRequest
from ...model.descriptions import stream_label
from ...model.errors import ConditionalCheckFailedError, ValidationError
from ...model.key_schema import KeyAttribute
from ...model.sequence_numbers import parse_number
from ...model.values import Item, dump, item_size
from ...streams.delivery.dead_letters import DeadLetter, ItemKey
from ...streams.formats.plain import plain
from ...streams.formats.table_view import Delivery, TableView
from .async_partition import AsyncPartition
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
_MAX_KEY_BYTES: Final = 1024
_KEY_PREFIX_BYTES: Final = _MAX_KEY_BYTES // 2
_IMAGES: Final = ("keys", "old", "new")
_ABSENT: Final = Expression(condition="attribute_not_exists(#key)", names={"#key": "key"})
_CONTEXT: Final = new_context("dead-letter", source="trigger")

DeadLetterKey: TypeAlias = tuple[str, str]
"""The primary key of a dead letter: its `key` and its `number`."""

UNREADABLE: Final = (KeyError, TypeError, ValueError, AttributeError)
"""The exceptions of reading a dead letter that was edited into another shape."""

logger = logging.getLogger(__name__)


class DeadLetterTable:
    """The dead letters of one subscription."""

    def __init__(self, node: SubscriptionContext, table: str, subscription: str) -> None:
        self._node = node
        self._table = table
        self._subscription = subscription

    async def keys(self) -> dict[ItemKey, int]:
        """Return the item keys that have dead letters, with the lowest sequence number of each."""
        found: dict[ItemKey, int] = {}
        async for dead_letter in self.read():
            try:
                key, sequence_number = self._item_key(dead_letter), parse_number(dead_letter["number"]["S"])
            except UNREADABLE as error:
                where = f"{dead_letter['key']['S']}, number {dead_letter['number']['S']}"
                logger.warning(
                    "cannot read the dead letter %s: %r; later changes of its key do not wait for it",
                    where,
                    error,
                )
                continue
            if key is not None:
                found[key] = min(sequence_number, found.get(key, sequence_number))
        return found

    async def first(self, delivery: Delivery) -> int | None:
        """Return the sequence number of the first dead letter of a delivery's key; None without one."""
        dead_letter = await self._one(self._key_text(delivery).encode())
        return None if dead_letter is None else parse_number(dead_letter["number"]["S"])

    async def write(self, dead_letters: Sequence[DeadLetter]) -> None:
        """Persist dead letters, and create the table if it is missing. An existing dead letter is not overwritten."""
        await self.create(_CONTEXT)
        for dead_letter in dead_letters:
            key = self._key_text(dead_letter.delivery)
            await self._put(item_of(dead_letter, key, self._subscription), _ABSENT)

    async def read(self, key: str | None = None) -> AsyncIterator[Item]:
        """Yield all dead letters, or those of one key in order."""
        start: Item | None = None
        while self._exists:
            page = await AsyncPartition(self._node.partition).page(self._page_after(key, start))
            for item in page.items:
                dead_letter = orjson.loads(item)
                if dead_letter["key"]["S"].startswith(f"{self._subscription} "):
                    yield dead_letter
            if page.last is None:
                return
            start = orjson.loads(page.last)

    async def keys_in_order(self, key: str | None = None) -> list[DeadLetterKey]:
        """Return the primary keys of all dead letters, or of those of one key, ordered by key and number."""
        found = [(each["key"]["S"], each["number"]["S"]) async for each in self.read(key)]
        return sorted(found, key=lambda each: (each[0], len(each[1]), each[1]))

    async def at(self, key: DeadLetterKey) -> Item | None:
        """Return a dead letter as it is now; None if it was removed."""
        pk, sk = (part.encode() for part in key)
        return await self._one(pk, sk, sk + b"\0")

    async def drop(self, key: DeadLetterKey, as_read: Item | None = None) -> bool:
        """Remove a dead letter. Return False if it differs from `as_read`."""
        pk, sk = (part.encode() for part in key)
        if as_read is None:
            return await self._submit(Delete(self._id, pk, sk, _CONTEXT), len(pk) + len(sk))
        command = Delete(self._id, pk, sk, _CONTEXT, _unchanged(as_read))
        return await self._submit(command, len(dump(as_read)))

    async def edit(self, key: DeadLetterKey, before: Item, after: Item) -> bool:
        """Put members of `after` into a dead letter's payload. Return False if its members differ from `before`."""
        dead_letter = await self.at(key)
        payload = {} if dead_letter is None else dead_letter.get("payload", {}).get("M", {})
        if dead_letter is None or any(payload.get(name) != value for name, value in before.items()):
            return False
        return await self._put({**dead_letter, "payload": {"M": payload | after}}, _unchanged(dead_letter))

    async def failed_again(self, dead_letter: Item, error: str, traceback: str | None, now_ms: int) -> bool:
        """Record a failed attempt. Return False if the dead letter was edited or removed since it was read."""
        attempts = {"N": str(attempts_of(dead_letter) + 1)}
        changed = {**dead_letter, "error": {"S": error}, "attempts": attempts, "last": _time(now_ms)}
        if traceback is not None:
            changed["traceback"] = {"S": traceback}
        return await self._put(changed, _unchanged(dead_letter))

    async def create(self, context: Context) -> None:
        """Create the table if it does not exist.

        Raises:
            ValidationError: A table of that name has another primary key.
        """
        node = self._node
        if node.state.table_named(self._table) is not None:
            if not self._exists:
                raise ValidationError(f"DeadLetterTable {self._table} is a table of something else")
            return
        request = orjson.dumps({"TableName": self._table, **_DEFINITION}, option=orjson.OPT_SORT_KEYS)
        drawn = str(uuid.UUID(bytes=node.random_bytes(16), version=4))
        settles_later = node.settings.table_delay_ms > 0
        command = DefineTable("CreateTable", 0, request, drawn, context, settles_later)
        await AsyncPartition(node.partition).submit(command, len(request))

    @property
    def _exists(self) -> bool:
        """Whether there is a table of that name with the primary key of dead letters."""
        table = self._node.state.table_named(self._table)
        return table is not None and table.definition.key.attributes == _ATTRIBUTES

    @property
    def _id(self) -> int:
        return self._node.state.usable_table(self._table).definition.id

    async def _one(self, key: bytes, low: bytes = b"", high: bytes | None = None) -> Item | None:
        """Return the first dead letter of a key with a number in a range, if there is one."""
        if not self._exists:
            return None
        request = QueryRequest(self._id, None, key, low, high, limit=1, consistent=True)
        items = (await AsyncPartition(self._node.partition).page(request)).items
        return orjson.loads(items[0]) if items else None

    def _page_after(self, key: str | None, start: Item | None) -> QueryRequest | ScanRequest:
        last = None if start is None else (start["key"]["S"].encode(), start["number"]["S"].encode())
        if key is None:
            return ScanRequest(self._id, None, start=last, consistent=True)
        return QueryRequest(self._id, None, key.encode(), b"", None, start=last and last[1], consistent=True)

    def _key_text(self, delivery: Delivery) -> str:
        """Return the partition key of the dead letters of a change's item."""
        change, table = delivery.change, delivery.table
        text = b"%b %b %b" % (
            self._subscription.encode(),
            table.name.encode(),
            table.key.write(change.pk, change.sk),
        )
        if len(text) <= _MAX_KEY_BYTES:
            return text.decode()
        digest = hashlib.blake2b(text, digest_size=16).hexdigest()
        return f"{text[:_KEY_PREFIX_BYTES].decode(errors='ignore')}... {digest}"

    def _item_key(self, dead_letter: Item) -> ItemKey | None:
        """Return the key of a dead letter's item; None if its table was deleted or replaced."""
        _, name, text = dead_letter["key"]["S"].split(" ", 2)
        table = self._node.state.table_named(name)
        if table is None:
            return None
        try:
            keys = orjson.loads(text)
        except orjson.JSONDecodeError:  # a long key is stored as a prefix and a digest
            keys = dead_letter["payload"]["M"]["keys"]["M"]
        definition = table.definition
        pk, sk = definition.key.pk(keys), definition.key.sk(keys)
        return None if pk is None or sk is None else (definition.id, pk, sk)

    async def _put(self, item: Item, condition: Expression) -> bool:
        data, limits = dump(item), self._node.state.limits
        pk, sk = item["key"]["S"].encode(), item["number"]["S"].encode()
        size = item_size(item, limits)
        # The condition may be as large as the item.
        return await self._submit(Put(self._id, pk, sk, data, size, _CONTEXT, condition), 2 * len(data))

    async def _submit(self, command: Put | Delete, size: int) -> bool:
        try:
            await AsyncPartition(self._node.partition).submit(command, size)
        except ConditionalCheckFailedError:
            return False
        return True


def attempts_of(dead_letter: Item) -> int:
    """Return the number of attempts; 0 if the attribute was edited into something else."""
    text = dead_letter.get("attempts", {}).get("N", "")
    return int(text) if text.isdecimal() else 0


def _unchanged(dead_letter: Item) -> Expression:
    """Return the condition that the dead letter exists with the payload that was read."""
    names = {"#key": "key", "#payload": "payload"}
    if "payload" not in dead_letter:
        return Expression(condition="attribute_exists(#key) AND attribute_not_exists(#payload)", names=names)
    values = {":payload": dead_letter["payload"]}
    return Expression(condition="#payload = :payload", names={"#payload": "payload"}, values=values)


def item_of(dead_letter: DeadLetter, key: str, subscription: str) -> Item:
    """Return a dead letter as an item."""
    delivery = dead_letter.delivery
    item: Item = {
        "key": {"S": key},
        "number": {"S": str(delivery.sequence_number)},
        "payload": {"M": _payload(delivery)},
        "error": {"S": dead_letter.error},
        "attempts": {"N": str(dead_letter.attempts)},
        "first": _time(dead_letter.first_ms),
        "last": _time(dead_letter.last_ms),
        "version": {"S": dead_letter.version},
        "partition": {"N": str(delivery.partition)},
        "subscription": {"S": subscription},
    }
    if dead_letter.traceback is not None:
        item["traceback"] = {"S": dead_letter.traceback}
    return item


def delivery_of(dead_letter: Item, view: TableView) -> Delivery:
    """Return the change of a dead letter, as its payload is now.

    Raises:
        KeyError, TypeError, ValueError: The payload was edited into another shape.
    """
    payload = dead_letter["payload"]["M"]
    keys = payload["keys"]["M"]
    old, new = (payload[name].get("M") for name in ("old", "new"))
    pk, sk = view.key.pk(keys), view.key.sk(keys)
    if pk is None or sk is None:
        raise ValueError("the keys of the payload do not fit the table's key schema")
    context = new_context(
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
        parse_number(dead_letter["number"]["S"]),
        int(payload["milliseconds"]["N"]),
        context,
        _tx(payload["tx"]),
        is_read=payload["op"]["S"] == "READ",
    )
    return Delivery(change, int(dead_letter["partition"]["N"]), view)


def _payload(delivery: Delivery) -> Item:
    """Return the plain JSON of a change as a map attribute; its images are maps already."""
    members: dict[str, Any] = orjson.loads(plain(delivery))
    images = {name: {"NULL": True} if members[name] is None else {"M": members[name]} for name in _IMAGES}
    time = {"milliseconds": {"N": str(delivery.change.time)}}
    return {**{name: _value(each) for name, each in members.items() if name not in _IMAGES}, **images, **time}


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
    """Return the transaction of a change from its attribute, which `_value` made."""
    if "NULL" in value:
        return None
    members = value["M"]
    return Tx(members["id"]["S"], int(members["n"]["N"]), int(members["of"]["N"]))


def _text(value: dict[str, Any]) -> str | None:
    return value.get("S")


def _time(time_ms: int) -> dict[str, str]:
    return {"S": stream_label(time_ms) + "Z"}
