"""A trigger that writes to foldb itself, and whose every change counts once however often it delivers it.

    @trigger("orders")
    def total(change: Change) -> None:
        with once(change) as writes:
            writes.update(
                TableName="totals",
                Key={"customer": change.keys["customer"]},
                UpdateExpression="ADD spent :n",
                ExpressionAttributeValues={":n": change.new["price"]},
            )

All writes of the block go into one TransactWriteItems, with a mark: the number of the change, kept for its item in the
table `<subscription>.once`. Where the mark is there already the transaction has happened, so it is not done again, and
that is no error. What is done beside the transaction (a mail, a file) is done each time.

That holds after a crash, for retries, letters and a reset. A replay is a subscription of its own and so has its own
marks: what it delivers counts anew, once. It is for making anew what was emptied before; onto what is there it adds.

A block costs twice what its writes cost, holds 99 of them, and keeps one small item for each item of the source. A call
has one for each of its changes: another would find the mark of the first.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from decimal import Context
from functools import cache
from hashlib import blake2b
from typing import Any, Final

from .workers.change import Change, PlainItem

WRITES_MOST: Final = 99
_KEY: Final = "key"
_DIGITS: Final = Context(prec=38)  # as many as a number in DynamoDB has


class Writes:
    """The writes of one block, in boto3's words and with Python's values: the parameters of TransactWriteItems."""

    def __init__(self) -> None:
        self.actions: list[dict[str, Any]] = []

    def put(self, **parameters: Any) -> None:
        """Put an item: TableName, Item, and a condition if you like."""
        self._add("Put", parameters)

    def update(self, **parameters: Any) -> None:
        """Update an item: TableName, Key, UpdateExpression."""
        self._add("Update", parameters)

    def delete(self, **parameters: Any) -> None:
        """Delete an item: TableName, Key."""
        self._add("Delete", parameters)

    def check(self, **parameters: Any) -> None:
        """Have a condition hold for an item: TableName, Key, ConditionExpression."""
        self._add("ConditionCheck", parameters)

    def _add(self, kind: str, parameters: Mapping[str, Any]) -> None:
        if len(self.actions) == WRITES_MOST:
            raise ValueError(f"one change can make {WRITES_MOST} writes: a transaction holds no more")
        self.actions.append({kind: dict(parameters)})


@contextmanager
def once(change: Change, *, resource: Any = None) -> Iterator[Writes]:
    """Do the block's writes, all of them and once for this change; a block that raises writes nothing.

    Args:
        change: What the trigger was called with.
        resource: boto3's resource for DynamoDB; one for the server that called the trigger if left out.

    Raises:
        ValueError: There was such a block for this change: all its writes go into one.
        botocore.exceptions.ClientError: The transaction was cancelled for another reason than that it is done.
    """
    if change._is_counted:
        raise ValueError("a change has one block of `once`: put all its writes into that")
    writes = Writes()
    yield writes
    if writes.actions:
        _write((resource or _resource()).meta.client, change, writes.actions)
        object.__setattr__(change, "_is_counted", True)  # for all others it is frozen


def mark_table(subscription: str) -> str:
    """The table that keeps how far each item's changes have been counted."""
    return f"{subscription}.once"


def _write(client: Any, change: Change, actions: list[dict[str, Any]]) -> None:
    table = mark_table(change.subscription)
    mark = {
        "Put": {
            "TableName": table,
            "Item": {_KEY: _place(change), "number": change.sequence_number},
            "ConditionExpression": "attribute_not_exists(#n) OR #n < :n",
            "ExpressionAttributeNames": {"#n": "number"},
            "ExpressionAttributeValues": {":n": change.sequence_number},
        }
    }
    try:
        try:
            client.transact_write_items(TransactItems=[mark, *actions])
        except client.exceptions.ResourceNotFoundException:
            if _is_there(client, table):
                raise  # it is one of the block's own
            _make(client, table)
            client.transact_write_items(TransactItems=[mark, *actions])
    except client.exceptions.TransactionCanceledException as error:
        reasons = error.response.get("CancellationReasons", [])
        if not reasons or reasons[0].get("Code") != "ConditionalCheckFailed":
            raise


def _place(change: Change) -> str:
    """Names the item that changed, in its partition: numbers are one order there, and nowhere else.

    A table that is made anew under its name may have the same key in another partition. A database of one has none to
    name.
    """
    named = (change.table, sorted(_texts(change.keys).items()))
    partition, among_others, _ = change.position.partition(":")
    told = repr((*named, partition) if among_others else named)
    return blake2b(told.encode(), digest_size=16).hexdigest()


def _texts(keys: PlainItem) -> dict[str, str]:
    """Keys as text: 1 and 1.0 are one number, and a text is none."""
    return {
        name: repr(value) if isinstance(value, str | bytes) else f"{value.normalize(_DIGITS):f}"
        for name, value in keys.items()
    }


@cache
def _resource() -> Any:
    import boto3  # of the extra foldb[boto3]

    return boto3.resource("dynamodb")


def _is_there(client: Any, table: str) -> bool:
    try:
        client.describe_table(TableName=table)
    except client.exceptions.ResourceNotFoundException:
        return False
    return True


def _make(client: Any, table: str) -> None:
    with suppress(client.exceptions.ResourceInUseException):  # another lane was faster
        client.create_table(
            TableName=table,
            AttributeDefinitions=[{"AttributeName": _KEY, "AttributeType": "S"}],
            KeySchema=[{"AttributeName": _KEY, "KeyType": "HASH"}],
            BillingMode="PAY_PER_REQUEST",
        )
    client.get_waiter("table_exists").wait(TableName=table, WaiterConfig={"Delay": 1})
