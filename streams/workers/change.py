"""A change as a function of the user's gets it: plain Python values, as boto3's resource gives them.

    def send_receipt(change: Change) -> None:
        change.new["total"]          Decimal('42')

A Change can be made by hand too, so that a function is tested by calling it.
"""

from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import orjson

Value: TypeAlias = Any  # str | Decimal | bytes | bool | None | set | list | dict
PlainItem: TypeAlias = dict[str, Value]

_NEVER: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Tx(NamedTuple):
    """Which transaction a change was made in: its id, the change's place in it from 0, and how many it made."""

    id: str
    n: int
    of: int


@dataclass(frozen=True, slots=True)
class Change:
    """One item before and after a write.

    Attributes:
        op: INSERT, MODIFY, REMOVE; READ where the item was only found, as part of a snapshot.
        keys: The item's key attributes.
        old: The item before, None where there was none.
        new: The item after, None where it was removed.
        table: Its table's name.
        sequence_number: Its sequence number: rises with every change of an item.
        position: Where the write stands in the log, `2:10482.3`.
        time: Log time.
        tx: The transaction that it was part of, if any.
        principal: Whose credentials wrote it; None where nobody is asked for any.
        request_id: The write's x-amzn-RequestId.
        source: api, ttl, trigger or restore.
        depth: How many triggers led to it.
        replay: Whether it was delivered before, and is again because somebody asked for that.
        subscription: Whose delivery it is.
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
    """Says which change of a batch failed: what stands before it is done, it and what stands behind it is not.

    raise ChangeError(change, "no such customer")
    """

    def __init__(self, change: Change, reason: str = "") -> None:
        super().__init__(reason)
        self.change = change


@dataclass(slots=True)
class Window:
    """A tumbling window: what a batch function with a second argument gets.

    Attributes:
        start: Log time from which its changes are.
        end: Log time before which they are.
        state: What the function left here for the window's last batch; plain JSON. Change it, or return another. What
            is here when it raises ChangeError stays too: it is that of the changes before the one.
        is_final: Whether this is the window's last call; such a call has no changes.
    """

    start: datetime
    end: datetime
    state: dict[str, Any] = field(default_factory=dict)
    is_final: bool = False


def read_changes(lines: bytes, subscription: str) -> list[Change]:
    """Changes from the lines that streams/formats/plain.py makes."""
    return [_change(orjson.loads(line), subscription) for line in lines.split(b"\n") if line]


def time_of(milliseconds: int) -> datetime:
    """Log time as an aware datetime."""
    seconds, rest = divmod(milliseconds, 1000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest * 1000)


def _change(told: dict[str, Any], subscription: str) -> Change:
    old, new, tx = told["old"], told["new"], told["tx"]
    return Change(
        told["op"],
        plain_item(told["keys"]),
        None if old is None else plain_item(old),
        None if new is None else plain_item(new),
        told["table"],
        int(told["number"]),
        told["position"],
        datetime.fromisoformat(told["time"]),
        None if tx is None else Tx(tx["id"], tx["n"], tx["of"]),
        told["principal"],
        told["requestId"],
        told["source"],
        told["depth"],
        told["replay"],
        subscription,
    )


def plain_item(item: Mapping[str, Mapping[str, Any]]) -> PlainItem:
    """An item in Python's values.

    >>> plain_item({"id": {"S": "o-1"}, "tags": {"SS": ["a"]}, "price": {"N": "1.50"}})
    {'id': 'o-1', 'tags': {'a'}, 'price': Decimal('1.50')}
    """
    found = {}
    for name, value in item.items():
        for kind, content in value.items():  # there is one
            found[name] = _READ[kind](content)
    return found


def plain_value(value: Mapping[str, Any]) -> Value:
    """One attribute value in Python's."""
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
