"""Changes from a file, as `foldb stream tail` prints them or as AWS Lambda receives them.

{"table", "op", "keys", "old", "new", ...}     an object, a list, or JSON Lines; missing members get defaults
{"Records": [{"eventName", "dynamodb": ...}]}  a Lambda event, for instance from its documentation

Changes from a database are rows of the first form, and are converted to a Delivery by the same code.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Final, TypeAlias

import typer

from ...log.commands import new_context
from ...materializer.fold.outcomes import Change, Tx
from ...model.errors import RequestError
from ...model.key_schema import KeyAttribute, KeySchema
from ...model.limits import MODERN
from ...model.sequence_numbers import sequence_number
from ...model.tables import table_arn
from ...model.values import Item, check_item, dump
from ...streams.formats.plain import plain
from ...streams.formats.table_view import Delivery, TableView
from .change_format import shown
from .change_sources import Row
from .durations import now
from .errors import CommandError, ExitCode
from .values import read_json, read_text, typed_item, write_json

EventFile: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--event",
        metavar="FILE",
        help="Use the changes in this file, as `foldb stream tail` prints them, or a Lambda event.",
    ),
]
KeyNames = Callable[[str], list[str]]
"""A function from a table to its key attributes, partition key first. [] if the table is unknown."""

LAST: Final = 10
"""The default number of latest changes to examine."""

_NO_LOG: Final = bytes(16)
_FIRST_NUMBER: Final = sequence_number(0, 0, 0)
_ITEMS: Final = ("keys", "old", "new")
_IMAGES: Final = {"INSERT": ("new",), "MODIFY": ("old", "new"), "REMOVE": ("old",)}
_KEY_TYPES: Final = frozenset("SNB")
_DIGITS: Final = re.compile(r"[0-9]{1,40}")
_POSITION: Final = re.compile(r"(?:([0-9]{1,3}):)?[0-9]{1,18}(?:\.[0-9]{1,5})?")


def read_events(path: str) -> list[Any]:
    """Return the events of a file, which is one JSON document or JSON Lines.

    Raises:
        CommandError: The file cannot be read, or is empty.
    """
    text, found = read_text(path), None
    try:
        found = read_json(text, path)
    except CommandError:
        lines = [line for line in text.splitlines() if line.strip()]
        if len(lines) < 2:
            raise
        found = [read_json(line, f"{path}, line {count}") for count, line in enumerate(lines, start=1)]
    if isinstance(found, dict) and isinstance(found.get("Records"), list):
        found = found["Records"]
    events = found if isinstance(found, list) else [found]
    if not events:
        raise CommandError(f"{path} has no changes", ExitCode.USAGE)
    return events


def deliveries_of(
    events: Iterable[Any], keys: KeyNames, where: str, *, typed: bool = True
) -> Iterator[Delivery]:
    """Yield events as deliveries to a sink.

    Args:
        events: The events, from JSON.
        keys: Returns the key of a table, for a change without `keys`.
        where: The source of the events, for errors.
        typed: Whether items are DynamoDB JSON. Those of Lambda events always are.

    Raises:
        CommandError: An event is not a change. The text has its index and the reason.
    """
    time_ms = now()
    for nth, event in enumerate(events, start=1):
        try:
            delivery = _delivery(_row(event, typed=typed), nth, keys, time_ms)
        except (RequestError, CommandError) as error:
            raise CommandError(f"{where}, change {nth}: {error}", ExitCode.USAGE) from None
        yield delivery


def change_row(delivery: Delivery, *, typed: bool) -> Row:
    """Return a delivery as a row. A sequence number that no foldb log assigns has no position."""
    row = shown(read_json(plain(delivery), "the change"), typed=typed)
    return row if delivery.sequence_number >= _FIRST_NUMBER else row | {"position": None}


# From an event to a row with every member, each of the right type


def _row(event: Any, *, typed: bool) -> Row:
    if isinstance(event, dict) and isinstance(event.get("dynamodb"), dict):
        event, typed = _of_lambda(event), True
    if not isinstance(event, dict) or (event.get("new") is None and event.get("old") is None):
        raise _refused(
            "a change has `new`, `old` or both, as `foldb stream tail` prints it, or is a Lambda event"
        )
    row: Row = {name: event.get(name) for name in _MEMBERS}
    for name, (is_valid, expected) in _MEMBERS.items():
        if row[name] is not None and not is_valid(row[name]):
            raise _refused(f"`{name}` must be {expected}, not {write_json(row[name])}")
    for name in _ITEMS:
        if row[name] is not None:
            row[name] = row[name] if typed else typed_item(row[name])
            check_item(row[name], MODERN)
    return row


def _of_lambda(event: Row) -> Row:
    """Return a Lambda event with the members of a row. The key replaces an image that the stream's view omits."""
    name, record = event.get("eventName"), event["dynamodb"]
    keys = record.get("Keys")
    if name not in _IMAGES:
        raise _refused(f"`eventName` must be INSERT, MODIFY or REMOVE, not {write_json(name)}")
    if not isinstance(keys, dict):
        raise _refused(f"`Keys` must be an object, not {write_json(keys)}")
    images = {"old": record.get("OldImage"), "new": record.get("NewImage")}
    return {
        **{side: dict(keys) if images[side] is None else images[side] for side in _IMAGES[name]},
        "table": str(event.get("eventSourceARN", "")).partition("table/")[2].partition("/")[0] or None,
        "keys": keys,
        "number": record.get("SequenceNumber"),
        "source": "ttl" if "userIdentity" in event else None,
    }


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | Decimal) and 0 <= value < 10**6 and value == int(value)


def _is_number(value: Any) -> bool:
    return _DIGITS.fullmatch(str(value)) is not None


def _is_position(value: Any) -> bool:
    return isinstance(value, str) and _POSITION.fullmatch(value) is not None


def _is_time(value: Any) -> bool:
    try:
        datetime.fromisoformat(value).timestamp()
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _is_transaction(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and _is_text(value.get("id"))
        and _is_whole(value.get("n"))
        and _is_whole(value.get("of"))
    )


_TEXT: Final = (_is_text, "text")
_OBJECT: Final = (_is_object, "an object")
_MEMBERS: Final[dict[str, tuple[Callable[[Any], bool], str]]] = {
    "table": _TEXT,
    "op": _TEXT,
    "keys": _OBJECT,
    "old": _OBJECT,
    "new": _OBJECT,
    "number": (_is_number, "digits"),
    "position": (_is_position, "a position such as 10482.3 or 2:10482.3"),
    "time": (_is_time, "a time such as 2026-11-20T12:00:00Z"),
    "tx": (_is_transaction, '{"id", "n", "of"}'),
    "principal": _TEXT,
    "requestId": _TEXT,
    "source": _TEXT,
    "depth": (_is_whole, "an integer of at least 0"),
}


# From the row to a delivery


def _delivery(row: Row, nth: int, keys: KeyNames, now_ms: int) -> Delivery:
    """Return a row as a delivery. A row without a sequence number gets one from its index, `nth`."""
    name, old, new, tx = row["table"] or "table", row["old"], row["new"], row["tx"]
    item: Item = old if new is None else new
    schema = _schema(name, list(row["keys"] or ()) or keys(name), item)
    pk, sk = schema.item_key(item, MODERN)
    change = Change(
        0,
        pk,
        sk,
        None if old is None else dump(old),
        None if new is None else dump(new),
        int(row["number"] or sequence_number(nth, 0, 0)),
        now_ms if row["time"] is None else round(datetime.fromisoformat(row["time"]).timestamp() * 1000),
        new_context(
            row["requestId"] or "", None, row["principal"], row["source"] or "api", int(row["depth"] or 0)
        ),
        None if tx is None else Tx(tx["id"], int(tx["n"]), int(tx["of"])),
        is_read=row["op"] == "READ",
    )
    partition, partitions = _partition_of(row["position"])
    arn = f"{table_arn(name)}/stream/test"
    return Delivery(change, partition, TableView(0, name, schema, None, arn, _NO_LOG, partitions))


def _schema(table: str, names: list[str], item: Item) -> KeySchema:
    """Return the key schema of the item.

    Raises:
        CommandError: The item has no such key.
    """
    if not names:
        raise _refused(f"the key of {table} is unknown: add `keys`")
    if len(names) > 2:
        raise _refused("`keys` must have one attribute or two")
    for each in names:
        if each not in item:
            raise _refused(f"the item has no key attribute `{each}`")
        if not _KEY_TYPES.issuperset(item[each]):
            raise _refused(f"the key attribute `{each}` must be a string, a number or a binary")
    attributes = [KeyAttribute(each, next(iter(item[each]))) for each in names]
    return KeySchema(tuple(attributes[:1]), tuple(attributes[1:]))


def _partition_of(position: str | None) -> tuple[int, int]:
    """Return the partition id of a position, and the least number of partitions."""
    match = _POSITION.fullmatch(position or "")
    if match is None or match[1] is None:
        return 0, 1
    return int(match[1]), max(2, int(match[1]) + 1)


def _refused(sentence: str) -> CommandError:
    return CommandError(sentence, ExitCode.USAGE)


def batches(deliveries: Iterable[Delivery], size: int) -> list[list[Delivery]]:
    """Return the deliveries in batches of at most `size`."""
    remaining = list(deliveries)
    return [remaining[at : at + size] for at in range(0, len(remaining), size)]
