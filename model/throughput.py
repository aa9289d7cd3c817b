"""The throughput settings of tables and indexes: the rules of CreateTable, UpdateTable and DescribeLimits.

    provisioned   units a second of a table or index
    on demand     upper bounds in the billing mode PAY_PER_REQUEST
    warm          units a second that the table or index can serve at once; they only grow

server/throttling/ refuses requests beyond them.
"""

from collections.abc import Iterable
from dataclasses import replace

from .capacity_partitions import PartitionMap, partitions_for
from .errors import LimitExceededError, ValidationError
from .limits import Limits
from .tables import REGION, IndexDefinition, OnDemand, TableDefinition, Throughput, Warm

# The service refuses more than this before it looks at the account's limits.
_UNITS_MAX = 1_000_000_000_000
_DAY_MS = 24 * 60 * 60 * 1000

_INVALID = "One or more parameter values were invalid: "
_ADVICE = "Refer to the Amazon DynamoDB Developer Guide for current limits and how to request higher limits."
_GUIDE = (
    "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/"
    "on-demand-capacity-mode.html#on-demand-capacity-mode-initial"
)

# The warm throughput of every table and index in the billing mode PAY_PER_REQUEST.
_WARM_BY_REQUEST = Warm(12_000, 4_000)


def read_throughput(request: dict[str, int] | None) -> Throughput:
    """Return ProvisionedThroughput, 0 and 0 if it is absent."""
    if request is None:
        return Throughput()
    return Throughput(request["ReadCapacityUnits"], request["WriteCapacityUnits"])


def check_bounds(request: dict[str, int] | None, index: str | None = None) -> None:
    """Refuse units above the maximum of any account."""
    for member, value in (request or {}).items():
        if value > _UNITS_MAX:
            where = "" if index is None else f" for index {index}"
            raise ValidationError(f"Given value {value} for {member} is out of bounds{where}")


def with_throughput(
    current: Throughput, request: dict[str, int] | None, resource: str, time_ms: int
) -> Throughput:
    """Return the throughput of a table or index after an update. `resource` names it in the error.

    Raises:
        ValidationError: The requested throughput equals the current one.
    """
    if request is None:
        return current
    read, write = request["ReadCapacityUnits"], request["WriteCapacityUnits"]
    if (read, write) == (current.read, current.write):
        kind = resource.partition(" ")[0]
        raise ValidationError(
            f"The provisioned throughput for the {resource} will not change. "
            "The requested value equals the current value. "
            f"Current ReadCapacityUnits provisioned for the {kind}: {current.read}. "
            f"Requested ReadCapacityUnits: {read}. "
            f"Current WriteCapacityUnits provisioned for the {kind}: {current.write}. "
            f"Requested WriteCapacityUnits: {write}. "
            f"{_ADVICE}"
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
    """Return the number of decreases since midnight UTC."""
    last = throughput.decreased_ms
    same_day = last is not None and last // _DAY_MS == time_ms // _DAY_MS
    return throughput.decreases_today if same_day else 0


def first_on_demand(request: dict[str, int] | None, index: str | None = None) -> OnDemand | None:
    """Return OnDemandThroughput of a new table or `index`."""
    return _on_demand(request or {}, OnDemand(), 1, index)


def next_on_demand(
    request: dict[str, int] | None, current: OnDemand | None, index: str | None = None
) -> OnDemand | None:
    """Return OnDemandThroughput of a table or `index` after an update. A bound that is absent stays; -1 removes it."""
    return _on_demand(request or {}, current or OnDemand(), -1, index)


def _on_demand(request: dict[str, int], old: OnDemand, least: int, index: str | None) -> OnDemand | None:
    for member in ("MaxReadRequestUnits", "MaxWriteRequestUnits"):
        if request.get(member, 1) < least or request.get(member) == 0:
            raise ValidationError(
                f"{_INVALID}Requested {member} for OnDemandThroughput for {_on_demand_of(index)} "
                "is outside of valid range"
            )
    read, write = request.get("MaxReadRequestUnits", old.read), request.get("MaxWriteRequestUnits", old.write)
    bounds = OnDemand(None if read == -1 else read, None if write == -1 else write)
    return None if bounds == OnDemand() else bounds


def readiness(throughput: Throughput, warm: Warm | None, *, by_request: bool) -> Warm:
    """Return the warm throughput of a table or index: its former one, and at least its provisioned throughput."""
    least = _WARM_BY_REQUEST if by_request else Warm(throughput.read, throughput.write)
    return least if warm is None else Warm(max(least.read, warm.read), max(least.write, warm.write))


def wanted_partitions(definition: TableDefinition, part: TableDefinition | IndexDefinition) -> int:
    """Return the number of capacity partitions that serve the throughput of `part`, the table or a global index."""
    by_request = definition.billing_mode == "PAY_PER_REQUEST"
    warm = readiness(part.throughput, part.warm, by_request=by_request)
    return partitions_for(warm.read, warm.write)


def partition_map(definition: TableDefinition, part: TableDefinition | IndexDefinition) -> PartitionMap:
    """Return the capacity partitions of `part`, the table or a global index: the stored map, or equal ranges."""
    return part.capacity_partitions or PartitionMap(wanted_partitions(definition, part))


def first_warm(
    request: dict[str, int] | None, throughput: Throughput, index: str | None = None, *, by_request: bool
) -> Warm | None:
    """Return WarmThroughput of a new table or `index`."""
    if request is None:
        return None
    initial = f"initial throughput for OnDemand. See: {_GUIDE}"
    lower = (
        (initial, initial)
        if by_request
        else ("ReadCapacityUnits of ProvisionedThroughput", "WriteCapacityUnits of ProvisionedThroughput")
    )
    return _warmer(request, readiness(throughput, None, by_request=by_request), lower, index)


def next_warm(request: dict[str, int] | None, current: Warm, index: str | None = None) -> Warm:
    """Return WarmThroughput of a table or `index` after an update."""
    lower = "current WarmThroughput, decreasing WarmThroughput is not supported"
    return _warmer(request or {}, current, (lower, lower), index)


def _warmer(request: dict[str, int], current: Warm, lower: tuple[str, str], index: str | None) -> Warm:
    read = request.get("ReadUnitsPerSecond", current.read)
    write = request.get("WriteUnitsPerSecond", current.write)
    for member, requested, units, text in (
        ("ReadUnitsPerSecond", read, current.read, lower[0]),
        ("WriteUnitsPerSecond", write, current.write, lower[1]),
    ):
        if requested < units:
            raise ValidationError(
                f"{_INVALID}Requested {member} for WarmThroughput for {_warm_of(index)} is lower than {text}"
            )
    return Warm(read, write)


def kept_warm(definition: TableDefinition) -> TableDefinition:
    """Return the table with the warm throughput of it and its global indexes stored, so that no change lowers it."""
    by_request = definition.billing_mode == "PAY_PER_REQUEST"
    indexes = tuple(
        replace(index, warm=readiness(index.throughput, index.warm, by_request=by_request))
        if index.kind == "GSI"
        else index
        for index in definition.indexes
    )
    warm = readiness(definition.throughput, definition.warm, by_request=by_request)
    return replace(definition, warm=warm, indexes=indexes)


def units_of(tables: Iterable[TableDefinition]) -> tuple[int, int]:
    """Return the read and write units that tables and their indexes have provisioned together."""
    provisioned = [
        throughput
        for table in tables
        for throughput in (table.throughput, *(index.throughput for index in table.indexes))
    ]
    return sum(each.read for each in provisioned), sum(each.write for each in provisioned)


def check_maxima(definition: TableDefinition, others: tuple[int, int], limits: Limits) -> None:
    """Refuse units above the maxima of a table, an index or the account.

    Args:
        others: The units that the account's other tables have provisioned together.
    """
    _check_part(definition, limits.table_capacity_units)
    for index in definition.indexes:
        _check_part(index, limits.table_capacity_units)
    own, limit = units_of([definition]), limits.account_capacity_units
    for mine, theirs, kind in zip(own, others, ("Read", "Write"), strict=True):
        if mine and mine + theirs > limit:
            raise LimitExceededError(
                f"This request would have caused the {kind}CapacityUnits limit to be exceeded for the account "
                f"in {REGION}. Current {kind}CapacityUnits reserved by the account: {theirs}. Limit: {limit}. "
                f"Requested: {mine}. {_ADVICE}"
            )


def _check_part(part: TableDefinition | IndexDefinition, most: int) -> None:
    """Refuse units above the maximum of a table or of an index, which is the same."""
    scope, index = ("index", part.name) if isinstance(part, IndexDefinition) else ("table", None)
    on_demand, warm = part.on_demand or OnDemand(), part.warm or Warm(0, 0)
    for kind, units, bound, ready in (
        ("Read", part.throughput.read, on_demand.read, warm.read),
        ("Write", part.throughput.write, on_demand.write, warm.write),
    ):
        if units > most:
            of_index = "" if index is None else f" for index {index}"
            raise LimitExceededError(
                f"The requested {kind}CapacityUnits{of_index}, {units}, is above the per {scope} maximum for the "
                f"account in {REGION}. Per {scope} maximum: {most}. {_ADVICE}"
            )
        if bound is not None and bound > most:
            raise _above(f"Max{kind}RequestUnits", "OnDemandThroughput", _on_demand_of(index), kind)
        if ready > most:
            raise _above(f"{kind}UnitsPerSecond", "WarmThroughput", _warm_of(index), kind)


def _above(member: str, setting: str, where: str, kind: str) -> LimitExceededError:
    return LimitExceededError(
        f"Subscriber limit exceeded: Requested {member} for {setting} for {where} exceeds "
        f"TableMax{kind}CapacityUnits of the account in region {REGION}"
    )


# DynamoDB names the index in two ways.


def _on_demand_of(index: str | None) -> str:
    return "table" if index is None else f"index : {index}"


def _warm_of(index: str | None) -> str:
    return "table" if index is None else f"index {index}"
