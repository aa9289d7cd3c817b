"""Apply table commands to table definitions.

Each function takes the current definition and a request that `service.py` has validated, and returns the new
definition or raises DynamoDB's error. The server calls it first, to refuse a request early. The fold calls it again,
with log time, and its result is the table's definition.

A created, changed or deleted table has the status CREATING, UPDATING or DELETING, as in the operation's response.
`tables.settled` ends that status.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from . import index_requests
from .errors import (
    LimitExceededError,
    PolicyNotFoundError,
    ResourceInUseError,
    ResourceNotFoundError,
    ValidationError,
)
from .index_requests import INVALID, update_indexes
from .jobs import START_IMPORT, job_arn
from .key_schema import KeySchema
from .limits import Limits
from .partition_splits import KEEP_PARTITIONS, SPLIT, keep_partitions, split_partition
from .tables import (
    IndexDefinition,
    Insights,
    OnDemand,
    Recovery,
    ResourcePolicy,
    Restore,
    Stream,
    TableDefinition,
    Throughput,
    name_of,
    relative_id,
)
from .throughput import (
    check_bounds,
    check_maxima,
    first_on_demand,
    first_warm,
    kept_warm,
    next_on_demand,
    next_warm,
    read_throughput,
    readiness,
    with_throughput,
)

SHARD_AGE: Final = "ShardAgeMs"
"""The member in which the server stores the age at which a stream's shards are closed. No client's request has it."""

POLICY: Final = "TablePolicy"
"""The member in which the server stores the policy of a CreateTable, in canonical form. No client's request has it.

The fold ignores ResourcePolicy, because older logs may contain it.
"""

NO_POLICY: Final = "NO_POLICY"
"""The ExpectedRevisionId of a resource without a policy."""

NO_SUCH_POLICY: Final = "Resource-based policy not found for the provided ResourceArn: "
"""The beginning of DynamoDB's texts of PolicyNotFoundException."""

RESTORES: Final = ("RestoreTableToPointInTime", "RestoreTableFromBackup", "ForkTable")
"""The operations that create a table from a past state of another, from level 5."""

FILLED: Final = (*RESTORES, START_IMPORT)
"""The operations that create a table whose items follow."""

CHANGES: Final = (
    "BillingMode",
    "DeletionProtectionEnabled",
    "GlobalSecondaryIndexUpdates",
    "OnDemandThroughput",
    "ProvisionedThroughput",
    "SSESpecification",
    "StreamSpecification",
    "TableClass",
    "WarmThroughput",
)
"""The members of UpdateTable that change a table; DynamoDB's error text has others too."""

_UNSUPPORTED = (
    "DisassociationProtectionEnabled",
    "GlobalTableSettingsReplicationMode",
    "GlobalTableSourceArn",
    "GlobalTableWitnessUpdates",
    "MultiRegionConsistency",
    "ReplicaUpdates",
    "VectorIndexUpdates",
    "VectorIndexes",
)


def create(
    request: dict[str, Any],
    *,
    table_id: int,
    uuid: str,
    time_ms: int,
    limits: Limits,
    tables: int = 0,
    units: tuple[int, int] = (0, 0),
) -> TableDefinition:
    """Return the definition of a CreateTable. Its indexes get the ids after `table_id`.

    Args:
        tables: The number of existing tables.
        units: The read and write units that they have provisioned together.
    """
    _refuse_unsupported(request)
    by_request = request.get("BillingMode") == "PAY_PER_REQUEST"
    _check_billing(request, by_request)
    types = index_requests.attribute_types(request["AttributeDefinitions"])
    key = index_requests.table_key(request["KeySchema"], types)
    indexes = _numbered(_requested_indexes(request, key, types, limits, by_request=by_request), table_id + 1)
    throughput = read_throughput(request.get("ProvisionedThroughput"))
    index_requests.check_definitions_used(types, key, indexes)
    definition = TableDefinition(
        id=table_id,
        name=name_of(request["TableName"]),
        uuid=uuid,
        key=key,
        attribute_types=types,
        created_ms=time_ms,
        indexes=indexes,
        billing_mode="PAY_PER_REQUEST" if by_request else "PROVISIONED",
        billed_by_request_ms=time_ms if by_request else None,
        throughput=throughput,
        on_demand=_on_demand(request, by_request=by_request),
        warm=first_warm(request.get("WarmThroughput"), throughput, by_request=by_request),
        table_class=request.get("TableClass"),
        deletion_protection=request.get("DeletionProtectionEnabled", False),
        kms_key=_kms_key(request.get("SSESpecification"), uuid),
        stream=_first_stream(request, time_ms),
        tags=_tagged({}, request.get("Tags", ()), limits),
        policies={"": ResourcePolicy(request[POLICY], time_ms)} if POLICY in request else {},
    )
    if tables >= limits.tables:
        raise LimitExceededError(
            f"Subscriber limit exceeded: There is a limit of {limits.tables} tables per subscriber"
        )
    check_maxima(definition, units, limits)
    return definition


def restore(
    operation: str,
    request: dict[str, Any],
    *,
    table_id: int,
    uuid: str,
    time_ms: int,
    limits: Limits,
    tables: int = 0,
    units: tuple[int, int] = (0, 0),
) -> TableDefinition:
    """Return the definition of a restored, forked or imported table, which is CREATING until its items are loaded.

    Args:
        operation: A name of FILLED.
        request: The members of a CreateTable, and of a restored or forked table `Restore`: the source and the absolute
            cut.
    """
    definition = create(
        request, table_id=table_id, uuid=uuid, time_ms=time_ms, limits=limits, tables=tables, units=units
    )
    if operation == START_IMPORT:
        arn = job_arn(definition.arn, "import", uuid=uuid, time_ms=time_ms)
        return replace(definition, restore=Restore(0, "", arn, time_ms, is_import=True))
    origin, source = request["Restore"], request["Restore"]["Source"]
    restored = Restore(
        source_id=source["Id"],
        source_name=source["Name"],
        source_arn=source["Arn"],
        cut_ms=origin["TimeMs"],
        backup_arn=origin.get("BackupArn"),
        is_fork=operation == "ForkTable",
        positions=origin.get("Positions"),
    )
    return replace(definition, restore=restored)


def update(
    definition: TableDefinition,
    request: dict[str, Any],
    *,
    next_id: int,
    time_ms: int,
    limits: Limits,
    units: tuple[int, int] = (0, 0),
) -> TableDefinition:
    """Apply UpdateTable. A new index gets the id `next_id` and is backfilling.

    Args:
        units: The read and write units that the other tables have provisioned.
    """
    check_update(request)
    check_in_use(definition)
    changed = _with_billing(kept_warm(definition), request, time_ms)
    changed = update_indexes(changed, request, next_id=next_id, time_ms=time_ms, limits=limits)
    changed = _with_settings(changed, request, time_ms)
    check_maxima(changed, units, limits)
    changed = kept_warm(changed)
    if request.get(KEEP_PARTITIONS):
        changed = keep_partitions(definition, changed)
    return replace(changed, status="UPDATING")


def check_update(request: dict[str, Any]) -> None:
    """Check an UpdateTable without its table.

    Raises:
        ValidationError: The request changes nothing, or is invalid for every table.
    """
    _refuse_unsupported(request)
    if not any(request.get(name) not in (None, []) for name in CHANGES):
        raise ValidationError(
            "At least one of ProvisionedThroughput, BillingMode, UpdateStreamEnabled, GlobalSecondaryIndexUpdates, "
            "SSESpecification, ReplicaUpdates, MultiAccountReplicaReady, ReplicaTransitRoleArn, "
            "MultiRegionConsistency, DeletionProtectionEnabled, OnDemandThroughput, WarmThroughput or TableClass "
            "is required"
        )
    mode, requested = request.get("BillingMode"), request.get("ProvisionedThroughput")
    if mode == "PAY_PER_REQUEST":
        _check_billing(request, by_request=True)
    elif mode is not None and requested is None:
        raise ValidationError(
            f"{INVALID}ProvisionedThroughput must be specified when BillingMode is PROVISIONED"
        )
    check_bounds(requested)
    index_requests.updates_of(request)


def delete(definition: TableDefinition, request: dict[str, Any] | None = None) -> TableDefinition:
    """Apply DeleteTable. The status DELETING stays.

    A table that is being restored can be deleted, unlike in DynamoDB: its source may be out of reach.
    """
    del request
    if definition.deletion_protection:
        raise ValidationError(
            "Resource cannot be deleted as it is currently protected against deletion. "
            "Disable deletion protection first."
        )
    if definition.status != "DELETING" and not definition.is_restoring:
        check_in_use(definition)
    return replace(definition, status="DELETING")


def update_time_to_live(definition: TableDefinition, request: dict[str, Any]) -> TableDefinition:
    check_in_use(definition)
    specification = request["TimeToLiveSpecification"]
    name, current = specification["AttributeName"], definition.ttl_attribute
    if current is not None and current != name:
        raise ValidationError(
            f"TimeToLive is active on a different AttributeName: current AttributeName is {current}"
        )
    if specification["Enabled"] == (current is not None):
        state = "disabled" if current is None else "enabled"
        raise ValidationError(f"TimeToLive is already {state}")
    return replace(definition, ttl_attribute=name if specification["Enabled"] else None)


def tag(definition: TableDefinition, request: dict[str, Any], limits: Limits) -> TableDefinition:
    """Apply TagResource."""
    if not request["Tags"]:
        raise ValidationError("Atleast one Tag needs to be provided as Input.")
    return replace(definition, tags=_tagged(definition.tags, request["Tags"], limits))


def untag(definition: TableDefinition, request: dict[str, Any]) -> TableDefinition:
    """Apply UntagResource. An unknown key is not an error."""
    if not request["TagKeys"]:
        raise ValidationError("Atleast one Tag Key needs to be provided as Input.")
    tags = {key: value for key, value in definition.tags.items() if key not in request["TagKeys"]}
    return replace(definition, tags=tags)


def put_policy(definition: TableDefinition, request: dict[str, Any], *, time_ms: int) -> TableDefinition:
    """Apply PutResourcePolicy. The same document again changes nothing, not even the revision."""
    slot = relative_id(request["ResourceArn"])
    _check_policy_change(definition, request)
    current = definition.policies.get(slot)
    if current is not None and current.text == request["Policy"]:
        return definition
    revision = time_ms if current is None else max(time_ms, current.revision + 1)
    policies = {**definition.policies, slot: ResourcePolicy(request["Policy"], revision)}
    return replace(definition, policies=policies)


def delete_policy(definition: TableDefinition, request: dict[str, Any]) -> TableDefinition:
    """Apply DeleteResourcePolicy. A resource without a policy is not an error."""
    slot = relative_id(request["ResourceArn"])
    _check_policy_change(definition, request)
    policies = {name: policy for name, policy in definition.policies.items() if name != slot}
    return replace(definition, policies=policies)


def _check_policy_change(definition: TableDefinition, request: dict[str, Any]) -> None:
    """Refuse a change of a policy that has another revision than the request expects, or whose table is not in use."""
    if definition.status != "UPDATING":
        check_in_use(definition)
    expected = request.get("ExpectedRevisionId")
    current = definition.policies.get(relative_id(request["ResourceArn"]))
    if expected is None or (expected == NO_POLICY and current is None):
        return
    if expected == NO_POLICY:
        assert current is not None, "a resource without a policy has the expected revision"
        raise PolicyNotFoundError(
            f"{NO_SUCH_POLICY}Requested policy update expecting none to be present for table {definition.name}, "
            f"but a policy exists with revision id {current.revision}."
        )
    if current is None:
        raise PolicyNotFoundError(
            f"{NO_SUCH_POLICY}Requested update for policy with revision id {expected}, "
            f"but no policy is associated to target table {definition.name}."
        )
    if expected != str(current.revision):
        raise PolicyNotFoundError(
            f"{NO_SUCH_POLICY}Requested update for policy with revision id {expected}, but the policy associated "
            f"to target table {definition.name} has revision id {current.revision}."
        )


def update_continuous_backups(
    definition: TableDefinition, request: dict[str, Any], *, time_ms: int
) -> TableDefinition:
    """Apply UpdateContinuousBackups. Enabling enabled backups keeps their start time."""
    specification = request["PointInTimeRecoverySpecification"]
    current = definition.recovery
    days = specification.get("RecoveryPeriodInDays")
    if not specification["PointInTimeRecoveryEnabled"]:
        if days is not None:
            raise ValidationError(
                "Invalid Request: Cannot specify RecoveryPeriodInDays when disabling point-in-time recovery."
            )
        return replace(definition, recovery=None)
    if current is None:
        return replace(definition, recovery=Recovery(time_ms, days or 35))
    return replace(definition, recovery=replace(current, days=days or current.days))


def update_contributor_insights(
    definition: TableDefinition, request: dict[str, Any], *, time_ms: int
) -> TableDefinition:
    """Apply UpdateContributorInsights. Enabling again with the same mode, and disabling again, change nothing."""
    name = request.get("IndexName", "")
    if name and all(index.name != name for index in definition.gsis):
        raise ResourceNotFoundError(f"Index: {name} not found for table: {definition.name}")
    current = definition.insights.get(name)
    is_enabled = current is not None and current.enabled
    if request["ContributorInsightsAction"] == "DISABLE":
        if current is None or not is_enabled:
            return definition
        changed = replace(current, enabled=False, updated_ms=time_ms)
    else:
        _check_insights_in_use(definition, name)
        mode = request.get("ContributorInsightsMode", "ACCESSED_AND_THROTTLED_KEYS")
        if current is not None and is_enabled and current.mode == mode:
            return definition
        enabled_ms = current.enabled_ms if current is not None and is_enabled else time_ms
        changed = Insights(True, mode, enabled_ms, time_ms)
    return replace(definition, insights={**definition.insights, name: changed})


def _check_insights_in_use(definition: TableDefinition, name: str) -> None:
    index = definition.index(name)
    for kind, status in (("Table", definition.status), ("Index", index.status if index else "ACTIVE")):
        if status in ("CREATING", "DELETING"):
            raise ValidationError(
                "Table or Index is not in a valid state to update Key Access Insights: "
                f"{kind}Status must be ACTIVE to enable ContributorInsights."
            )


def change(
    operation: str,
    definition: TableDefinition,
    request: dict[str, Any],
    *,
    next_id: int,
    time_ms: int,
    limits: Limits,
    units: tuple[int, int] = (0, 0),
) -> TableDefinition:
    """Apply a request to an existing table, by the name of the API operation."""
    changes: dict[str, Callable[[], TableDefinition]] = {
        "UpdateTable": lambda: update(
            definition, request, next_id=next_id, time_ms=time_ms, limits=limits, units=units
        ),
        "DeleteTable": lambda: delete(definition),
        "UpdateTimeToLive": lambda: update_time_to_live(definition, request),
        "TagResource": lambda: tag(definition, request, limits),
        "UntagResource": lambda: untag(definition, request),
        "UpdateContinuousBackups": lambda: update_continuous_backups(definition, request, time_ms=time_ms),
        "PutResourcePolicy": lambda: put_policy(definition, request, time_ms=time_ms),
        "DeleteResourcePolicy": lambda: delete_policy(definition, request),
        "UpdateContributorInsights": lambda: update_contributor_insights(
            definition, request, time_ms=time_ms
        ),
        SPLIT: lambda: _split(definition, request, time_ms),
    }
    return changes[operation]()


def _split(definition: TableDefinition, request: dict[str, Any], time_ms: int) -> TableDefinition:
    check_in_use(definition)
    return split_partition(definition, request, time_ms=time_ms)


# Billing


def _check_billing(request: dict[str, Any], by_request: bool) -> None:
    requested = request.get("ProvisionedThroughput")
    if by_request and requested is not None:
        raise ValidationError(
            f"{INVALID}Neither ReadCapacityUnits nor WriteCapacityUnits can be specified "
            "when BillingMode is PAY_PER_REQUEST"
        )
    if not by_request and requested is None:
        raise ValidationError(
            f"{INVALID}ReadCapacityUnits and WriteCapacityUnits must both be specified "
            "when BillingMode is PROVISIONED"
        )
    check_bounds(requested)


def _with_billing(definition: TableDefinition, request: dict[str, Any], time_ms: int) -> TableDefinition:
    mode = request.get("BillingMode", definition.billing_mode)
    requested = request.get("ProvisionedThroughput")
    if mode == "PAY_PER_REQUEST":
        _check_billing(request, by_request=True)
        return _billed_by_request(definition, time_ms)
    if requested is None:
        return definition
    changed = with_throughput(definition.throughput, requested, "table", time_ms)
    indexes = tuple(replace(index, on_demand=None) for index in definition.indexes)
    return replace(
        definition, billing_mode="PROVISIONED", throughput=changed, on_demand=None, indexes=indexes
    )


def _billed_by_request(definition: TableDefinition, time_ms: int) -> TableDefinition:
    if definition.billing_mode == "PAY_PER_REQUEST":
        return definition
    indexes = tuple(replace(index, throughput=Throughput()) for index in definition.indexes)
    return replace(
        definition,
        billing_mode="PAY_PER_REQUEST",
        billed_by_request_ms=time_ms,
        throughput=Throughput(),
        indexes=indexes,
    )


# Settings


def _with_settings(definition: TableDefinition, request: dict[str, Any], time_ms: int) -> TableDefinition:
    by_request = definition.billing_mode == "PAY_PER_REQUEST"
    table_class = request.get("TableClass", definition.table_class)
    sse = request.get("SSESpecification")
    ready = readiness(definition.throughput, definition.warm, by_request=by_request)
    return replace(
        definition,
        on_demand=_next_on_demand(request, definition.on_demand, by_request=by_request),
        warm=next_warm(request.get("WarmThroughput"), ready),
        table_class=table_class,
        table_class_ms=definition.table_class_ms if table_class == definition.table_class else time_ms,
        deletion_protection=request.get("DeletionProtectionEnabled", definition.deletion_protection),
        kms_key=definition.kms_key if sse is None else _next_kms_key(sse, definition),
        stream=_next_stream(definition, request, time_ms),
    )


def _on_demand(request: dict[str, Any], *, by_request: bool) -> OnDemand | None:
    requested = request.get("OnDemandThroughput")
    if not by_request and requested:
        raise ValidationError(
            f"{INVALID}{next(iter(requested))} for OnDemandThroughput cannot be specified "
            "when table BillingMode is PROVISIONED."
        )
    return first_on_demand(requested)


def _next_on_demand(
    request: dict[str, Any], current: OnDemand | None, *, by_request: bool
) -> OnDemand | None:
    requested = request.get("OnDemandThroughput")
    if not by_request and requested:
        # DynamoDB's text differs from that of CreateTable.
        raise ValidationError(
            f"{INVALID}{next(iter(requested))} for OnDemandThroughput cannot be specified "
            "when the table BillingMode is PROVISIONED"
        )
    return next_on_demand(requested, current)


def _kms_key(specification: dict[str, Any] | None, uuid: str) -> str | None:
    """Return the key's ARN. foldb's "AWS managed key" has the table's id, so that it needs no random value."""
    if specification is None or not specification.get("Enabled", False):
        return None
    if specification.get("SSEType", "KMS") != "KMS":
        raise ValidationError(f"{INVALID}SSEType AES256 is not supported")
    key: str = specification.get("KMSMasterKeyId", uuid)
    return key if key.startswith("arn:") else f"arn:aws:kms:us-east-1:000000000000:key/{key}"


def _next_kms_key(specification: dict[str, Any], definition: TableDefinition) -> str | None:
    if not specification.get("Enabled", False):
        if "SSEType" in specification:
            raise ValidationError(f"{INVALID}SSEType can not be specified if Enabled is false")
        if definition.kms_key is None:
            raise ValidationError(f"{INVALID}Table is already encrypted by default")
    return _kms_key(specification, definition.uuid)


def _first_stream(request: dict[str, Any], time_ms: int) -> Stream | None:
    specification = request.get("StreamSpecification")
    if specification is None:
        return None
    if not specification["StreamEnabled"]:
        if "StreamViewType" in specification:
            raise ValidationError(
                f"{INVALID}Table is being created with a stream disabled, UpdateViewType should not be specified"
            )
        return None
    view = _view(specification, "Table is being created with a stream enabled, UpdateViewType is required")
    return Stream(view, time_ms, shard_ms=request.get(SHARD_AGE, 0))


def _next_stream(definition: TableDefinition, request: dict[str, Any], time_ms: int) -> Stream | None:
    specification = request.get("StreamSpecification")
    current = definition.stream
    if specification is None:
        return current
    enabled = current is not None and current.enabled
    if specification["StreamEnabled"] and enabled:
        raise ValidationError(f"Table already has an enabled stream: TableName: {definition.name}")
    if specification["StreamEnabled"]:
        view = _view(specification, "If stream is being enabled then UpdateViewType is required")
        return Stream(view, time_ms, shard_ms=request.get(SHARD_AGE, 0))
    if current is None or not enabled:
        raise ValidationError(f"Table has no stream to disable: TableName: {definition.name}")
    return replace(current, enabled=False)


def _view(specification: dict[str, Any], lacking: str) -> str:
    view: str | None = specification.get("StreamViewType")
    if view is None:
        raise ValidationError(INVALID + lacking)
    return view


def _tagged(tags: dict[str, str], added: Sequence[dict[str, str]], limits: Limits) -> dict[str, str]:
    seen: dict[str, None] = {}
    for key in (entry["Key"] for entry in added):
        if key in seen:
            raise ValidationError(f"Duplicate Tag Keys provided as input: Duplicate Tag Key found {key}")
        seen[key] = None
        if key.startswith("aws:"):
            raise ValidationError(f"Tag Key cannot be prefixed with aws:, Key: {key}")
    after = {**tags, **{entry["Key"]: entry["Value"] for entry in added}}
    if len(after) > limits.tags:
        raise ValidationError("Number of Tags exceed the current limit for the provided ResourceArn")
    return after


# Common


def _requested_indexes(
    request: dict[str, Any], key: KeySchema, types: dict[str, str], limits: Limits, *, by_request: bool
) -> list[IndexDefinition]:
    local = index_requests.local_indexes(request.get("LocalSecondaryIndexes"), key, types, limits)
    requests = request.get("GlobalSecondaryIndexes")
    indexes = local + index_requests.global_indexes(requests, types, limits, by_request=by_request)
    index_requests.check_indexes(indexes, limits)
    return indexes


def _numbered(indexes: list[IndexDefinition], first: int) -> tuple[IndexDefinition, ...]:
    return tuple(replace(index, id=index_id) for index_id, index in enumerate(indexes, first))


def _refuse_unsupported(request: dict[str, Any]) -> None:
    for name in _UNSUPPORTED:
        if request.get(name):
            raise not_supported(name)


def not_supported(member: str) -> ValidationError:
    """Return the error for a member of DynamoDB's API that foldb does not support."""
    return ValidationError(f"{INVALID}{member} is not supported by foldb: see docs/limitations.md")


def check_in_use(definition: TableDefinition) -> None:
    """Refuse to change a table that is not ACTIVE.

    Raises:
        ResourceInUseError: The table is being created, updated or deleted.
    """
    if definition.status != "ACTIVE":
        raise ResourceInUseError(
            "Attempt to change a resource which is still in use: "
            f"Table is being {_PASSIVE[definition.status]}: {definition.name}"
        )


_PASSIVE = {"CREATING": "created", "UPDATING": "updated", "DELETING": "deleted"}
