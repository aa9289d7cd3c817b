"""Changes out of a file: as `foldb stream tail` prints them, or as AWS Lambda gets them.

{"table", "op", "keys", "old", "new", ...}     one, a list, or JSON Lines; what is left out is made up
{"Records": [{"eventName", "dynamodb": ...}]}  an event of Lambda's, for instance out of its documentation
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from ...log.commands import Context
from ...materializer.fold.outcomes import Change, Tx, sequence_number
from ...model.key_schema import KeyAttribute, KeySchema
from ...model.limits import MODERN
from ...model.tables import table_arn
from ...model.values import Item, check_item, dump
from ...streams.formats.delivery import Delivery, TableView
from ..failures import CommandError, ExitCode
from ..values import read_json, typed_item
from .reading import Row

KeyNames = Callable[[str], list[str]]
"""The key attributes of a table, partition key first; [] if that is unknown."""

_NO_LOG: Final = bytes(16)
_ITEMS: Final = ("keys", "old", "new")


def read_events(path: str, *, typed: bool) -> list[Row]:
    """The changes in a file as rows, items in DynamoDB JSON.

    Raises:
        CommandError: It cannot be read, or is something else.
    """
    try:
        text = Path(path).read_text("utf-8")
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror}", ExitCode.USAGE) from None
    except UnicodeDecodeError:
        raise CommandError(f"{path} is not UTF-8", ExitCode.USAGE) from None
    return [_row(event, path, typed=typed) for event in _events(text, path)]


def _events(text: str, path: str) -> list[Any]:
    """All that a file holds: it is one document, or one a line."""
    found: Any
    try:
        found = read_json(text, path)
    except CommandError:
        lines = [line for line in text.splitlines() if line.strip()]
        if len(lines) < 2:
            raise
        found = [read_json(line, f"{path}, line {number}") for number, line in enumerate(lines, start=1)]
    if isinstance(found, dict) and isinstance(found.get("Records"), list):
        found = found["Records"]
    return found if isinstance(found, list) else [found]


def _row(event: Any, path: str, *, typed: bool) -> Row:
    if isinstance(event, dict) and isinstance(event.get("dynamodb"), dict):
        row = _of_lambda(event)
    elif isinstance(event, dict) and ("new" in event or "old" in event):
        row = {
            name: event.get(name)
            for name in ("table", "keys", "old", "new", "number", "time", "tx", "principal")
        }
        row |= {name: event[name] for name in ("op", "requestId", "source", "depth") if name in event}
        if not typed:
            row |= {name: typed_item(row[name]) for name in _ITEMS if isinstance(row[name], dict)}
    else:
        raise CommandError(
            f"{path} holds no change: one has `new`, `old` or both, as `foldb stream tail` prints it, or is an event "
            "of Lambda's",
            ExitCode.USAGE,
        )
    return row


def _of_lambda(event: Row) -> Row:
    told = event["dynamodb"]
    arn = str(event.get("eventSourceARN", ""))
    row: Row = {
        "table": arn.partition("table/")[2].partition("/")[0] or None,
        "keys": told.get("Keys"),
        "old": told.get("OldImage"),
        "new": told.get("NewImage"),
        "number": told.get("SequenceNumber"),
        "time": None,
        "tx": None,
        "principal": None,
    }
    if row["new"] is None and event.get("eventName") in ("INSERT", "MODIFY"):
        row["new"] = row["keys"]
    if "userIdentity" in event:
        row["source"] = "ttl"
    return row


def delivery_of(row: Row, nth: int, keys: KeyNames, now_ms: int) -> Delivery:
    """A row as a sink is given it; `nth` makes a number where it has none.

    Raises:
        ValidationError: Its items are none.
        CommandError: Nothing tells what its key is.
    """
    name = row["table"] or "table"
    images = {side: row[side] for side in _ITEMS if row[side] is not None}
    for image in images.values():
        check_item(image, MODERN)
    item: Item = images.get("new") or images["old"]
    names = keys(name) or list(images.get("keys", ()))
    if not names or any(each not in item for each in names):
        raise CommandError(
            f"a change of {name} has no `keys`, and no table tells what they are: write them", ExitCode.USAGE
        )
    schema = KeySchema(*_parts([KeyAttribute(each, next(iter(item[each]))) for each in names]))
    pk, sk = schema.item_key(item, MODERN)
    tx = row["tx"]
    change = Change(
        0,
        pk,
        sk,
        dump(images["old"]) if "old" in images else None,
        dump(images["new"]) if "new" in images else None,
        int(row["number"] or sequence_number(nth, 0, 0)),
        now_ms if row["time"] is None else _milliseconds(row["time"]),
        Context(
            row.get("requestId") or "",
            None,
            row["principal"],
            row.get("source") or "api",
            int(row.get("depth") or 0),
        ),
        None if tx is None else Tx(tx["id"], int(tx["n"]), int(tx["of"])),
        is_read=row.get("op") == "READ",
    )
    partition = (
        int((row.get("position") or "0:").partition(":")[0]) if ":" in (row.get("position") or "") else 0
    )
    return Delivery(
        change, partition, TableView(0, name, schema, None, f"{table_arn(name)}/stream/test", _NO_LOG)
    )


def _parts(attributes: list[KeyAttribute]) -> tuple[tuple[KeyAttribute, ...], tuple[KeyAttribute, ...]]:
    return tuple(attributes[:1]), tuple(attributes[1:])


def _milliseconds(text: str) -> int:
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except (TypeError, ValueError):
        raise CommandError(f"`{text}` is no time such as 2026-11-20T12:00:00Z", ExitCode.USAGE) from None


def batches(deliveries: Iterable[Delivery], size: int) -> list[list[Delivery]]:
    """The deliveries in calls of at most so many."""
    everything = list(deliveries)
    return [everything[at : at + size] for at in range(0, len(everything), size)]
