"""Exactly-once writes of a trigger to foldb: a repeated delivery of a change has no further effect.

    @trigger("orders")
    def total(change: Change) -> None:
        with once(change) as writes:
            writes.update(
                TableName="totals",
                Key={"customer": change.keys["customer"]},
                UpdateExpression="ADD spent :n",
                ExpressionAttributeValues={":n": change.new["price"]},
            )

All writes of the block form one TransactWriteItems, with a marker: the sequence number of the change, stored for its
item in the table `<subscription>.once`. If the marker exists, the transaction was committed before: it is not repeated,
and no error is raised. Effects outside the transaction (a mail, a file) happen at every delivery.

This holds after crashes and for retries, dead letters and a reset. A replay is another subscription, with markers of
its own: it applies every change once more. Empty the target before a replay, or it is applied on top.

A block costs twice as much as its writes, holds at most 99 of them, and stores one small item per item of the source. A
call may have one block per change: a second one would find the marker of the first.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from decimal import Context
from functools import cache
from hashlib import blake2b
from typing import Any, Final

from .workers.change import Change, PlainItem

MAX_WRITES: Final = 99
_KEY: Final = "key"
_DIGITS: Final = Context(prec=38)  # the precision of DynamoDB numbers


class Writes:
    """The writes of one block: parameters of TransactWriteItems as boto3's resource takes them."""

    def __init__(self) -> None:
        self.actions: list[dict[str, Any]] = []

    def put(self, **parameters: Any) -> None:
        """Put an item: TableName, Item, optionally ConditionExpression."""
        self._add("Put", parameters)

    def update(self, **parameters: Any) -> None:
        """Update an item: TableName, Key, UpdateExpression."""
        self._add("Update", parameters)

    def delete(self, **parameters: Any) -> None:
        """Delete an item: TableName, Key."""
        self._add("Delete", parameters)

    def check(self, **parameters: Any) -> None:
        """Require a condition on an item: TableName, Key, ConditionExpression."""
        self._add("ConditionCheck", parameters)

    def _add(self, kind: str, parameters: Mapping[str, Any]) -> None:
        if len(self.actions) == MAX_WRITES:
            raise ValueError(f"one change can make {MAX_WRITES} writes: a transaction holds no more")
        self.actions.append({kind: dict(parameters)})


@contextmanager
def once(change: Change, *, resource: Any = None) -> Iterator[Writes]:
    """Commit the block's writes atomically and once for this change. A block that raises writes nothing.

    Args:
        change: The change that the trigger received.
        resource: A boto3 resource for DynamoDB. Default: one for the server that called the trigger.

    Raises:
        ValueError: The change has had a block before.
        botocore.exceptions.ClientError: The transaction was cancelled, and not because of its marker.
    """
    if change._is_counted:
        raise ValueError("a change has one block of `once`: put all its writes into that")
    writes = Writes()
    yield writes
    if writes.actions:
        _write((resource or _resource()).meta.client, change, writes.actions)
        object.__setattr__(change, "_is_counted", True)  # a Change is frozen otherwise


def marker_table(subscription: str) -> str:
    return f"{subscription}.once"


def _write(client: Any, change: Change, actions: list[dict[str, Any]]) -> None:
    table = marker_table(change.subscription)
    marker = {
        "Put": {
            "TableName": table,
            "Item": {_KEY: _marker_key(change), "number": change.sequence_number},
            "ConditionExpression": "attribute_not_exists(#n) OR #n < :n",
            "ExpressionAttributeNames": {"#n": "number"},
            "ExpressionAttributeValues": {":n": change.sequence_number},
        }
    }
    try:
        try:
            client.transact_write_items(TransactItems=[marker, *actions])
        except client.exceptions.ResourceNotFoundException:
            if _exists(client, table):
                raise  # the missing table is one of the block's
            _create(client, table)
            client.transact_write_items(TransactItems=[marker, *actions])
    except client.exceptions.TransactionCanceledException as error:
        reasons = error.response.get("CancellationReasons", [])
        if not reasons or reasons[0].get("Code") != "ConditionalCheckFailed":
            raise


def _marker_key(change: Change) -> str:
    """Return the marker's key: the changed item and its partition, in which sequence numbers are ordered.

    A table that is deleted and created again may have the same key in another partition. A database of one partition
    omits the partition.
    """
    item = (change.table, sorted(_texts(change.keys).items()))
    partition, is_one_of_several, _ = change.position.partition(":")
    identity = repr((*item, partition) if is_one_of_several else item)
    return blake2b(identity.encode(), digest_size=16).hexdigest()


def _texts(keys: PlainItem) -> dict[str, str]:
    """Return keys as text, in which 1 and 1.0 are equal and a number differs from a text."""
    return {
        name: repr(value) if isinstance(value, str | bytes) else f"{value.normalize(_DIGITS):f}"
        for name, value in keys.items()
    }


@cache
def _resource() -> Any:
    import boto3  # of the extra foldb[boto3]

    return boto3.resource("dynamodb")


def _exists(client: Any, table: str) -> bool:
    try:
        client.describe_table(TableName=table)
    except client.exceptions.ResourceNotFoundException:
        return False
    return True


def _create(client: Any, table: str) -> None:
    with suppress(client.exceptions.ResourceInUseException):  # another lane was faster
        client.create_table(
            TableName=table,
            AttributeDefinitions=[{"AttributeName": _KEY, "AttributeType": "S"}],
            KeySchema=[{"AttributeName": _KEY, "KeyType": "HASH"}],
            BillingMode="PAY_PER_REQUEST",
        )
    client.get_waiter("table_exists").wait(TableName=table, WaiterConfig={"Delay": 1})
