"""A change in the form that user functions receive: plain Python values, like those of boto3's resource.

    def send_receipt(change: Change) -> None:
        change.new["total"]          Decimal('42')

A test can make a Change by hand and call the function with it.
"""

from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import orjson

from ...model.lazy_dataclass import dataclass

Value: TypeAlias = Any  # str | Decimal | bytes | bool | None | set | list | dict
PlainItem: TypeAlias = dict[str, Value]

_NEVER: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Tx(NamedTuple):
    """The transaction of a change: its id, the change's index in it from 0, and its number of changes."""

    id: str
    n: int
    of: int


@dataclass(frozen=True, slots=True)
class Change:
    """One item before and after a write.

    Attributes:
        op: INSERT, MODIFY, REMOVE; READ for an item of a snapshot.
        keys: The item's key attributes.
        old: The item before the write; None for an INSERT.
        new: The item after the write; None for a REMOVE.
        table: Name of the table.
        sequence_number: Sequence number: rises with every change of an item.
        position: Position of the write in the log, `2:10482.3`.
        time: Log time.
        tx: The transaction, if the change is part of one.
        principal: The access key of the writer; None without authentication.
        request_id: The x-amzn-RequestId of the write.
        source: api, ttl, trigger, restore or undo.
        depth: Number of triggers in the chain that led to the change.
        replay: Whether a replay delivers the change again.
        subscription: Name of the subscription that delivers it.
    """

    op: Literal["INSERT", "MODIFY", "REMOVE", "READ"]
    keys: PlainItem
    old: PlainItem | None = None
    new: PlainItem | None = None
    table: str = ""
    sequence_number: int = 0
    position: str = ""
    time: datetime = _NEVER
    tx: Tx | None = None
    principal: str | None = None
    request_id: str = ""
    source: str = "api"
    depth: int = 0
    replay: bool = False
    subscription: str = ""
    _is_counted: bool = field(
        default=False, init=False, repr=False, compare=False
    )  # see streams/idempotent.py


class ChangeError(Exception):
    """Names the failed change of a batch: the changes before it are handled, it and those after it are not.

    raise ChangeError(change, "no such customer")
    """

    def __init__(self, change: Change, reason: str = "") -> None:
        super().__init__(reason)
        self.change = change


@dataclass(slots=True)
class Window:
    """A tumbling window: the second argument of a batch function.

    Attributes:
        start: Start of the window in log time, inclusive.
        end: End of the window in log time, exclusive.
        state: The state that the last call of the window left, as plain JSON. Change it, or return another. The state
            at a ChangeError is kept too: it belongs to the changes before the failed one.
        is_final: Whether this is the window's last call, which has no changes.
    """

    start: datetime
    end: datetime
    state: dict[str, Any] = field(default_factory=dict)
    is_final: bool = False


def read_changes(lines: bytes, subscription: str) -> list[Change]:
    """Parse changes from the lines that streams/formats/plain.py writes."""
    return [_change(orjson.loads(line), subscription) for line in lines.split(b"\n") if line]


def time_of(milliseconds: int) -> datetime:
    """Return a log time as an aware datetime."""
    seconds, rest = divmod(milliseconds, 1000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest * 1000)


def _change(row: dict[str, Any], subscription: str) -> Change:
    old, new, tx = row["old"], row["new"], row["tx"]
    return Change(
        row["op"],
        plain_item(row["keys"]),
        None if old is None else plain_item(old),
        None if new is None else plain_item(new),
        row["table"],
        int(row["number"]),
        row["position"],
        datetime.fromisoformat(row["time"]),
        None if tx is None else Tx(tx["id"], tx["n"], tx["of"]),
        row["principal"],
        row["requestId"],
        row["source"],
        row["depth"],
        row["replay"],
        subscription,
    )


def plain_item(item: Mapping[str, Mapping[str, Any]]) -> PlainItem:
    """Return an item as Python values.

    >>> plain_item({"id": {"S": "o-1"}, "tags": {"SS": ["a"]}, "price": {"N": "1.50"}})
    {'id': 'o-1', 'tags': {'a'}, 'price': Decimal('1.50')}
    """
    found = {}
    for name, value in item.items():
        for kind, content in value.items():  # exactly one
            found[name] = _READ[kind](content)
    return found


def plain_value(value: Mapping[str, Any]) -> Value:
    """Return one attribute value as a Python value."""
    [(kind, content)] = value.items()
    return _READ[kind](content)


def _same(content: Any) -> Any:
    return content


_READ: Final[dict[str, Callable[[Any], Value]]] = {
    "S": _same,
    "N": Decimal,
    "B": b64decode,
    "BOOL": _same,
    "NULL": lambda _: None,
    "SS": set,
    "NS": lambda content: set(map(Decimal, content)),
    "BS": lambda content: set(map(b64decode, content)),
    "L": lambda content: [plain_value(element) for element in content],
    "M": plain_item,
}
