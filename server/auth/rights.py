"""The rights of a key, and the check of the rights that a request needs.

    operation.demands(body)  ──►  (action, right, table), ...  ──►  check: all of them, or AccessDeniedException
                                                                      │
                         the key's patterns and policy ──────────────►│◄────── the table's policy

The patterns of a key give it for each table none, read, write or admin, each of which includes those before it: they
are short forms of policies (policy_document.py), with a cache. A demand is met if no policy denies its action
explicitly, and the key's patterns, its policy or the policy of the table allow it.

Every operation declares its demands (api/operation.py). For the patterns an index belongs to its table, for a policy it
is a resource of its own. An operation on no table or on all tables demands a right on the table `*`, which only the
pattern `*` matches. A read of the past demands the right `history` on the name before the cut (check_history). The
status and the metrics of a node demand a right on NODE, which the right `monitor` grants, and the right to administer
all tables.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from enum import Enum, IntEnum
from fnmatch import translate
from functools import cache, partial
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from ...materializer.fold.state import Table
from ...model.errors import AccessDeniedError, ResourceNotFoundError
from ...model.limits import Limits
from ...model.tables import ACCOUNT_ARN, ARN_PREFIX, TableDefinition, name_of, relative_id
from .conditions import Facts
from .policy_document import Access, Holder, Policy, parse_policy, stored_policy
from .policy_text import user_arn, variables_of

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
        policy: The policy of the key; None if it has only patterns.
    """

    def __init__(
        self,
        read: Iterable[str] = (),
        write: Iterable[str] = (),
        admin: Iterable[str] = (),
        *,
        history: Iterable[str] = (),
        monitor: bool = False,
        policy: str | None = None,
    ) -> None:
        """Parse the policy.

        Raises:
            PolicyError: The policy is malformed, or has an element that foldb does not support.
        """
        self.policy: Policy | None = None if policy is None else parse_policy(policy, Holder.KEY)
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

    def grant(self, right: "Right | Past", table: str | None) -> bool:
        """Return whether the patterns include a right on a table, or on NODE."""
        if isinstance(right, Past):
            assert table is not NODE, "a read of the past names tables"
            return self.has_history(table)
        return self.on(table) >= right

    def has_history(self, table: str) -> bool:
        """Return whether the key may read the past of a table. A key that administers all tables may."""
        return self.on(EVERYTHING) >= Right.ADMIN or any(
            re.fullmatch(translate(pattern), table) for pattern in self.history
        )


def is_pattern(text: str) -> bool:
    """Return whether the text is a pattern that can match the name of a table."""
    return bool(_PATTERN.fullmatch(text))


class ItemDemand(NamedTuple):
    """A demand of an operation on items, whose request has facts that conditions of policies test.

    Attributes:
        action: An IAM action.
        right: The right that it needs.
        table: The name or ARN of its table.
        request: The request, or its part about this table or item.
        facts: Returns the facts of the request, or None for an operation without any.
        index_name: The name of the index that it reads.
        enclosing: The whole request; the same as `request` where it has one part.
        operation: The operation that encloses the action, if it is another one.
    """

    action: str
    right: "Right | Past"
    table: str
    request: Any
    facts: "FactsOf"
    index_name: str | None = None
    enclosing: dict[str, Any] | None = None
    operation: str | None = None


FactsOf: TypeAlias = Callable[[ItemDemand, TableDefinition, Limits], Facts]
"""Returns the facts of a request to a table. May raise the ValidationError of a malformed request."""

Demand: TypeAlias = tuple[str, Right | Past, str | None] | ItemDemand
"""An IAM action, the right that it needs, and its table or NODE."""

Demands: TypeAlias = Callable[[dict[str, Any]], Iterable[Demand]]
"""Returns the rights that a request needs."""


class Bearer(Protocol):
    """The holder of rights: a key."""

    @property
    def id(self) -> str: ...

    @property
    def rights(self) -> Rights: ...


class Catalog(Protocol):
    """The tables and their policies, as the fold's state has them."""

    @property
    def limits(self) -> Limits: ...

    def table_named(self, name: str) -> Table | None: ...


_READ_HISTORY: Final = "foldb:ReadHistory"
_DYNAMODB: Final = "dynamodb:"


def has_right(bearer: Bearer, right: Right, table: str, catalog: Catalog) -> bool:
    """Return whether `check` would pass for a right on a table, where that takes patterns alone.

    This is the path of most requests: neither the key nor the table has a policy, and the table is named by its name.
    """
    rights, found = bearer.rights, catalog.table_named(table)
    return (
        found is not None
        and rights.policy is None
        and not found.definition.policies
        and rights.on(table) >= right
    )


def check(bearer: Bearer, demands: Iterable[Demand], catalog: Catalog) -> None:
    """Check that a key has all the rights that a request needs.

    Raises:
        AccessDeniedError: The key lacks a right, or a policy denies an action.
        ResourceNotFoundError: A condition of a policy needs the key of a table that does not exist.
        ValidationError: A condition of a policy needs the facts of a malformed request.
    """
    rights = bearer.rights
    for demand in demands:
        right, table = demand[1], demand[2]
        name = NODE if table is NODE else name_of(table)
        found = None if name is NODE else catalog.table_named(name)
        if right is Right.NONE:
            continue
        if rights.policy is not None or (found is not None and found.definition.policies):
            _check_policies(bearer, demand, found, catalog.limits)
        elif not rights.grant(right, name):
            raise _denied(bearer, demand)


def check_history(bearer: Bearer, demands: Iterable[Demand], catalog: Catalog) -> None:
    """Check that a key may read the past of all tables of a read, whose names have no cut.

    Raises:
        AccessDeniedError: The key may not.
    """
    check(bearer, map(_of_the_past, demands), catalog)


def may_put_policy(bearer: Bearer, arn: str, text: str, catalog: Catalog) -> bool:
    """Return whether a key could replace the policy of a resource again if `text` were its policy."""
    demand = ("dynamodb:PutResourcePolicy", Right.ADMIN, arn)
    table = catalog.table_named(name_of(arn))
    access = _access(bearer, demand, table, catalog.limits)
    policy = stored_policy(text, _holder_of(arn))
    identity = bearer.rights.policy
    if policy.denies(access) or (identity is not None and identity.denies(access)):
        return False
    return (
        bearer.rights.grant(Right.ADMIN, name_of(arn))
        or (identity is not None and identity.allows(access))
        or policy.allows(access)
    )


def _of_the_past(demand: Demand) -> Demand:
    if isinstance(demand, ItemDemand):
        return demand._replace(right=Past.READ)
    return (_READ_HISTORY, Past.READ, demand[2])


def _check_policies(bearer: Bearer, demand: Demand, table: Table | None, limits: Limits) -> None:
    """Check a demand with the policies of the key and the resource: a deny wins, then one of them must allow.

    The policy of a table denies any action, and allows those of DynamoDB: foldb's own reach behind the table's data.
    """
    right, name = demand[1], demand[2]
    identity, resource = bearer.rights.policy, _policy_of(demand, table)
    access = wanted = _access(bearer, demand, table, limits)
    if isinstance(right, Past):
        # The action itself must not be denied, and the right to the past is the one that is allowed.
        wanted = Access(_READ_HISTORY, access.resource, access.key_id, access.facts)
    for policy, kind in ((identity, "an identity"), (resource, "a resource")):
        if policy is not None and (policy.denies(access) or policy.denies(wanted)):
            raise _denied(bearer, demand, f"with an explicit deny in {kind}-based policy")
    if (
        bearer.rights.grant(right, NODE if name is NODE else name_of(name))
        or (identity is not None and identity.allows(wanted))
        or (resource is not None and wanted.action.startswith(_DYNAMODB) and resource.allows(wanted))
    ):
        return
    raise _denied(bearer, demand)


def _access(bearer: Bearer, demand: Demand, table: Table | None, limits: Limits) -> Access:
    return Access(
        demand[0], _resource(demand), bearer.id, cache(partial(_facts, bearer, demand, table, limits))
    )


def _facts(bearer: Bearer, demand: Demand, table: Table | None, limits: Limits) -> Facts:
    own: dict[str, tuple[str, ...]] = {name: (value,) for name, value in variables_of(bearer.id).items()}
    if not isinstance(demand, ItemDemand):
        return own
    if table is None:
        raise ResourceNotFoundError
    return {**own, **demand.facts(demand, table.definition, limits)}


def _policy_of(demand: Demand, table: Table | None) -> Policy | None:
    """Return the policy of the resource of a demand: that of a stream, or of the table of any other resource."""
    if table is None:
        return None
    assert demand[2] is not NODE, "a node has no table"
    holder = _holder_of(demand[2])
    slot = relative_id(demand[2]) if holder is Holder.STREAM else ""
    found = table.definition.policies.get(slot)
    return None if found is None else stored_policy(found.text, holder)


def _holder_of(table: str) -> Holder:
    return Holder.STREAM if relative_id(table).startswith("stream/") else Holder.TABLE


def _resource(demand: Demand) -> str:
    """Return the ARN of the table, index, stream or backup that a demand is about, or of the node."""
    table = demand[2]
    if table is NODE:
        return f"{ACCOUNT_ARN}node"
    relative = relative_id(table)
    if isinstance(demand, ItemDemand) and demand.index_name is not None:
        relative = f"index/{demand.index_name}"
    return f"{ARN_PREFIX}{name_of(table)}{'/' if relative else ''}{relative}"


def _denied(bearer: Bearer, demand: Demand, reason: str | None = None) -> AccessDeniedError:
    action = demand[0]
    if isinstance(demand[1], Past) and reason is None:
        action = _READ_HISTORY
    reason = reason or f"because no identity-based policy allows the {action} action"
    return AccessDeniedError(
        f"User: {user_arn(bearer.id)} is not authorized to perform: {action} on resource: {_resource(demand)} {reason}"
    )


def each_table(operation: str, right: Right, facts: FactsOf) -> Demands:
    """Return the demands of a batch operation: `right` on every table of the request."""
    action = f"dynamodb:{operation}"

    def demands(body: dict[str, Any]) -> Iterator[Demand]:
        for table, request in body["RequestItems"].items():
            yield ItemDemand(action, right, table, request, facts, None, body)

    return demands


def metrics_demands() -> Iterator[Demand]:
    """Yield the demand of GET /metrics. Metrics name tables and contain no data of items."""
    yield "foldb:Metrics", Right.READ, NODE
