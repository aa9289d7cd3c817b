"""A partition's log in a list, for tests of the fold."""

from typing import Any

import orjson

from foldb.log.commands import (
    Command,
    DefineSubscription,
    DefineTable,
    Delete,
    Entry,
    Expression,
    Genesis,
    Put,
    Record,
    SubscriptionOperation,
    Update,
    new_context,
)
from foldb.materializer.fold import LEVEL, fold
from foldb.materializer.fold.outcomes import Outcome, TableDefined
from foldb.materializer.fold.state import PartitionState, Table
from foldb.model.limits import limits_named
from foldb.model.subscriptions.settings import check
from foldb.model.values import Item, check_item, dump

CONTEXT = new_context(request_id="R")
START = 1_700_000_000_000  # milliseconds


class Ledger:
    """Folds each command as an entry of its own and keeps the records."""

    def __init__(self, limits: str = "modern", level: int = LEVEL) -> None:
        self.state = PartitionState()
        self.records: list[Record] = []
        self.now = START
        self.origin = bytes(16)
        self.number = 0
        self.limits = limits_named(limits)
        self.fold(Genesis(bytes(16), 0, 1, 0, level, "blake2b-64", limits))

    def fold(self, *commands: Command) -> Outcome:
        """Fold one entry and return the outcome of its last command."""
        record = self.record(*commands)
        self.records.append(record)
        return fold(self.state, record)[-1]

    def record(self, *commands: Command) -> Record:
        """Return the next record of this ledger's origin, not folded yet."""
        entry = Entry(self.origin, self.number, commands)
        self.number += 1
        return Record(0, self.state.next_offset, self.now, entry)

    def create(self, name: str, key: str = "pk:S", **settings: Any) -> Table:
        """Create a table whose key is written like "pk:S sk:N"."""
        outcome = self.fold(define("CreateTable", 0, table_request(name, key, **settings)))
        assert isinstance(outcome, TableDefined), outcome
        return self.state.tables[outcome.definition.id]


def subscribe(name: str, *tables: str, **settings: Any) -> DefineSubscription:
    """Return the command that creates a subscription to these tables."""
    request = check(name, {"TableNames": list(tables), "Sink": {"Kind": "python"}, **settings})
    return about(name, "Create", **request)


def about(name: str, operation: SubscriptionOperation, **request: Any) -> DefineSubscription:
    """Return a command about a subscription."""
    return DefineSubscription(operation, name, orjson.dumps(request), "uuid", CONTEXT)


def define(operation: str, table: int, request: dict[str, Any], *, settle: bool = False) -> DefineTable:
    return DefineTable(operation, table, orjson.dumps(request), "uuid", CONTEXT, settle)


def table_request(name: str, key: str = "pk:S", **settings: Any) -> dict[str, Any]:
    parts = [part.split(":") for part in key.split()]
    roles = ["HASH", "RANGE"]
    attributes = dict(parts)
    for index in (
        *settings.get("LocalSecondaryIndexes", ()),
        *settings.get("GlobalSecondaryIndexes", ()),
    ):
        for element in index["KeySchema"]:
            attributes.setdefault(element["AttributeName"], "S")
    return {
        "TableName": name,
        "KeySchema": [
            {"AttributeName": part[0], "KeyType": role} for part, role in zip(parts, roles, strict=False)
        ],
        "AttributeDefinitions": [
            {"AttributeName": attribute, "AttributeType": kind} for attribute, kind in attributes.items()
        ],
        "BillingMode": "PAY_PER_REQUEST",
        **settings,
    }


def index_request(name: str, *key: str, projection: str = "ALL") -> dict[str, Any]:
    return {
        "IndexName": name,
        "KeySchema": [
            {"AttributeName": attribute, "KeyType": role}
            for attribute, role in zip(key, ["HASH", "RANGE"], strict=False)
        ],
        "Projection": {"ProjectionType": projection},
    }


def put(table: Table, item: Item, *, when: str | None = None, **choices: Any) -> Put:
    """Return a put of an item; `when` is a condition without placeholders."""
    limits = limits_named("modern")
    size = check_item(item, limits)
    pk, sk = table.definition.key.item_key(item, limits)
    return Put(
        table.definition.id,
        pk,
        sk,
        dump(item),
        size,
        CONTEXT,
        expression=None if when is None else Expression(condition=when),
        **choices,
    )


def update(table: Table, key: Item, text: str, values: Item | None = None, **choices: Any) -> Update:
    pk, sk = table.definition.key.read_key(key, limits_named("modern"))
    expression = Expression(update=text, values=values, condition=choices.pop("when", None))
    return Update(table.definition.id, pk, sk, CONTEXT, expression, **choices)


def delete(table: Table, key: Item, **choices: Any) -> Delete:
    pk, sk = table.definition.key.read_key(key, limits_named("modern"))
    when = choices.pop("when", None)
    return Delete(
        table.definition.id, pk, sk, CONTEXT, None if when is None else Expression(condition=when), **choices
    )
