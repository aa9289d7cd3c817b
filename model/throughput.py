"""Provisioned throughput: what may be asked for, and what changes when it is.

Nothing here throttles. These are the rules of CreateTable and UpdateTable, and the maxima that DescribeLimits
tells.
"""

from collections.abc import Iterable
from dataclasses import replace

from .errors import LimitExceededError, ValidationError
from .limits import Limits
from .tables import TableDefinition, Throughput

# The service refuses more than this before it looks at the account's limits.
_UNITS_MAX = 1_000_000_000_000
_DAY_MS = 24 * 60 * 60 * 1000


def read_throughput(request: dict[str, int] | None) -> Throughput:
    """ProvisionedThroughput; none at all is 0 and 0."""
    if request is None:
        return Throughput()
    return Throughput(request["ReadCapacityUnits"], request["WriteCapacityUnits"])


def check_bounds(request: dict[str, int] | None, index: str | None = None) -> None:
    """Refuse numbers that no account could have."""
    for member, value in (request or {}).items():
        if value > _UNITS_MAX:
            where = "" if index is None else f" for index {index}"
            raise ValidationError(f"Given value {value} for {member} is out of bounds{where}")


def with_throughput(
    current: Throughput, request: dict[str, int] | None, what: str, time_ms: int
) -> Throughput:
    """The throughput of a table or index (`what` names it) after an update.

    Raises:
        ValidationError: It is what it was.
    """
    if request is None:
        return current
    read, write = request["ReadCapacityUnits"], request["WriteCapacityUnits"]
    if (read, write) == (current.read, current.write):
        kind = what.partition(" ")[0]
        raise ValidationError(
            f"The provisioned throughput for the {what} will not change. "
            "The requested value equals the current value. "
            f"Current ReadCapacityUnits provisioned for the {kind}: {current.read}. "
            f"Requested ReadCapacityUnits: {read}. "
            f"Current WriteCapacityUnits provisioned for the {kind}: {current.write}. "
            f"Requested WriteCapacityUnits: {write}. "
            "Refer to the Amazon DynamoDB Developer Guide for current limits and how to request higher limits."
        )
    changed = replace(current, read=read, write=write)
    if read > current.read or write > current.write:
        changed = replace(changed, increased_ms=time_ms)
    if read < current.read or write < current.write:
        changed = replace(
            changed, decreased_ms=time_ms, decreases_today=decreases_today(current, time_ms) + 1
        )
    return changed


def decreases_today(throughput: Throughput, time_ms: int) -> int:
    """How often it was lowered since midnight UTC."""
    last = throughput.decreased_ms
    same_day = last is not None and last // _DAY_MS == time_ms // _DAY_MS
    return throughput.decreases_today if same_day else 0


def units_of(tables: Iterable[TableDefinition]) -> tuple[int, int]:
    """What tables and their indexes have provisioned together, read and write."""
    all_of_it = [
        throughput
        for table in tables
        for throughput in (table.throughput, *(index.throughput for index in table.indexes))
    ]
    return sum(each.read for each in all_of_it), sum(each.write for each in all_of_it)


def check_maxima(definition: TableDefinition, others: tuple[int, int], limits: Limits) -> None:
    """Refuse what is above the maxima of a table, an index or the account.

    Args:
        others: What the account's other tables have provisioned (`units_of`).
    """
    each = (definition.throughput, *(index.throughput for index in definition.indexes))
    own = units_of([definition])
    for nth, kind in enumerate(("read", "write")):
        if max((part.read, part.write)[nth] for part in each) > limits.table_capacity_units:
            raise LimitExceededError(
                "Subscriber limit exceeded: There is a limit of "
                f"{limits.table_capacity_units} {kind} capacity units per table or index"
            )
        if own[nth] and own[nth] + others[nth] > limits.account_capacity_units:
            raise LimitExceededError(
                "Subscriber limit exceeded: There is a limit of "
                f"{limits.account_capacity_units} {kind} capacity units per subscriber"
            )
