"""The rights of a key: for each table none, read, write or admin, each of which includes those before it.

    operation.demands(body)  ──►  (action, right, table), ...  ──►  check: all of them, or AccessDeniedException

Every operation declares its demands (api/operation.py). An index belongs to its table. An operation on no table or on
all tables demands a right on the table `*`, which only the pattern `*` matches. A read of the past demands the right
`history` on the name before the cut (check_history). The status and the metrics of a node
demand a right on NODE, which the right `monitor` grants, and the right to administer all tables.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from enum import Enum, IntEnum
from fnmatch import translate
from typing import Any, Protocol, TypeAlias

from ...model.errors import AccessDeniedError
from ...model.tables import name_of

EVERYTHING = "*"
NODE = None
"""The node itself, as a resource; no request can name it."""

_PATTERN = re.compile(r"[A-Za-z0-9_.*-]{1,255}")
_TABLES_MAX = 1000  # cached rights


class Right(IntEnum):
    """A right on a table. Each includes the lower ones."""

    NONE = 0
    READ = 1
    WRITE = 2
    ADMIN = 3


class Past(Enum):
    """The right to read the past of a table, which no Right on the present includes."""

    READ = "history"


class Rights:
    """The tables that a key may read, write and administer, as patterns in which `*` matches any text.

    Attributes:
        history: The patterns of the tables whose past the key may read. The past has deleted items, so this is a right
            of its own, which a right to the present does not include.
        monitor: Whether the key may read the status and the metrics of a node, which name all tables.
    """

    def __init__(
        self,
        read: Iterable[str] = (),
        write: Iterable[str] = (),
        admin: Iterable[str] = (),
        *,
        history: Iterable[str] = (),
        monitor: bool = False,
    ) -> None:
        self.history = tuple(history)
        self.monitor = monitor
        self.patterns = {Right.READ: tuple(read), Right.WRITE: tuple(write), Right.ADMIN: tuple(admin)}
        self._levels = [
            (right, re.compile("|".join(translate(pattern) for pattern in patterns)))
            for right, patterns in reversed(self.patterns.items())
            if patterns
        ]
        self._cache: dict[str | None, Right] = {}
        if self.on(EVERYTHING) < Right.ADMIN:
            self._cache[NODE] = Right.READ if monitor else Right.NONE
        else:
            self._cache[NODE] = Right.ADMIN

    def on(self, table: str | None) -> Right:
        """Return the highest right on a table, or on NODE."""
        right = self._cache.get(table)
        if right is None:
            assert table is not NODE
            right = next((right for right, names in self._levels if names.fullmatch(table)), Right.NONE)
            if len(self._cache) < _TABLES_MAX:
                self._cache[table] = right
        return right

    def has_history(self, table: str) -> bool:
        """Return whether the key may read the past of a table. A key that administers all tables may."""
        return self.on(EVERYTHING) >= Right.ADMIN or any(
            re.fullmatch(translate(pattern), table) for pattern in self.history
        )


def is_pattern(text: str) -> bool:
    """Return whether the text is a pattern that can match the name of a table."""
    return bool(_PATTERN.fullmatch(text))


Demand: TypeAlias = tuple[str, Right | Past, str | None]
"""An IAM action, the right that it needs, and its table or NODE."""

Demands: TypeAlias = Callable[[dict[str, Any]], Iterable[Demand]]
"""Returns the rights that a request needs."""


class Bearer(Protocol):
    """The holder of rights: a key."""

    @property
    def id(self) -> str: ...

    @property
    def rights(self) -> Rights: ...


def check(bearer: Bearer, demands: Iterable[Demand]) -> None:
    """Check that a key has all the rights that a request needs.

    Raises:
        AccessDeniedError: The key lacks a right.
    """
    for action, right, table in demands:
        name = NODE if table is NODE else name_of(table)
        if isinstance(right, Past):
            assert name is not NODE, "a read of the past names tables"
            is_allowed = bearer.rights.has_history(name)
        else:
            is_allowed = bearer.rights.on(name) >= right
        if not is_allowed:
            raise _denied(bearer, action, "node" if name is NODE else f"table/{name}")


def check_history(bearer: Bearer, demands: Iterable[Demand]) -> None:
    """Check that a key may read the past of all tables of a read, whose names have no cut.

    Raises:
        AccessDeniedError: The key may not.
    """
    check(bearer, (("foldb:ReadHistory", Past.READ, table) for _, _, table in demands))


def _denied(bearer: Bearer, action: str, resource: str) -> AccessDeniedError:
    return AccessDeniedError(
        f"User: arn:aws:iam::000000000000:user/{bearer.id} is not authorized to perform: {action} on resource: "
        f"arn:aws:dynamodb:us-east-1:000000000000:{resource} "
        f"because no identity-based policy allows the {action} action"
    )


def each_table(operation: str, right: Right) -> Demands:
    """Return the demands of a batch operation: `right` on every table of the request."""
    action = f"dynamodb:{operation}"

    def demands(body: dict[str, Any]) -> Iterator[Demand]:
        for table in body["RequestItems"]:
            yield action, right, table

    return demands


def metrics_demands() -> Iterator[Demand]:
    """Yield the demand of GET /metrics. Metrics name tables and contain no data of items."""
    yield "foldb:Metrics", Right.READ, NODE
