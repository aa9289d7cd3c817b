"""Descriptions of a table in API responses: TableDescription and its kin.

The dicts are ready for orjson. A timestamp is a number of seconds with three decimals, written from integer
milliseconds without a float.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

import orjson

from .backups import Backup
from .key_schema import KeySchema
from .tables import IndexDefinition, OnDemand, Restore, TableDefinition, Throughput, restorable_from
from .throughput import decreases_today, readiness

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def describe(
    definition: TableDefinition,
    *,
    item_count: int = 0,
    size_bytes: int = 0,
    index_counts: Mapping[str, tuple[int, int]] | None = None,
    time_ms: int = 0,
) -> dict[str, Any]:
    """Return the TableDescription.

    Args:
        index_counts: (items, bytes) of each index, by its name.
        time_ms: The current time, for counts by the day.
    """
    return {
        "AttributeDefinitions": [
            {"AttributeName": name, "AttributeType": kind}
            for name, kind in definition.attribute_types.items()
        ],
        "TableName": definition.name,
        "KeySchema": describe_key(definition.key),
        "TableStatus": definition.status,
        "CreationDateTime": seconds(definition.created_ms),
        "ProvisionedThroughput": _throughput(definition.throughput, time_ms),
        "TableSizeBytes": size_bytes,
        "ItemCount": item_count,
        "TableArn": definition.arn,
        "TableId": definition.uuid,
        **_billing(definition),
        **_indexes(definition, index_counts or {}, time_ms),
        **_stream(definition),
        **_settings(definition),
    }


def describe_backup(backup: Backup, status: str = "AVAILABLE") -> dict[str, Any]:
    """Return the BackupDescription: the backup, and its table when it was created."""
    table = backup.definition
    details = {
        "TableName": table.name,
        "TableId": table.uuid,
        "TableArn": table.arn,
        "TableSizeBytes": backup.size,
        "KeySchema": describe_key(table.key),
        "TableCreationDateTime": seconds(table.created_ms),
        "ProvisionedThroughput": describe_units(table.throughput),
        "ItemCount": backup.items,
        "BillingMode": table.billing_mode,
    }
    if table.on_demand is not None:
        details["OnDemandThroughput"] = describe_maximum(table.on_demand)
    return {
        "BackupDetails": backup_details(backup, status),
        "SourceTableDetails": details,
        "SourceTableFeatureDetails": _features(table),
    }


def backup_details(backup: Backup, status: str = "AVAILABLE") -> dict[str, Any]:
    """Return the BackupDetails."""
    return {
        "BackupArn": backup.arn,
        "BackupName": backup.name,
        "BackupSizeBytes": backup.size,
        "BackupStatus": status,
        "BackupType": "USER",
        "BackupCreationDateTime": seconds(backup.created_ms),
    }


def backup_summary(backup: Backup) -> dict[str, Any]:
    """Return the BackupSummary of ListBackups."""
    table = backup.definition
    named = {"TableName": table.name, "TableId": table.uuid, "TableArn": table.arn}
    return named | backup_details(backup)


def describe_continuous_backups(
    definition: TableDefinition, *, time_ms: int, horizon_ms: int = 0
) -> dict[str, Any]:
    """Return the ContinuousBackupsDescription. Every write can be restored at once, so "latest" is the current time.

    `horizon_ms` is the log time at which the history begins.
    """
    recovery = definition.recovery
    if recovery is None:
        point_in_time: dict[str, Any] = {"PointInTimeRecoveryStatus": "DISABLED"}
    else:
        point_in_time = {
            "PointInTimeRecoveryStatus": "ENABLED",
            "RecoveryPeriodInDays": recovery.days,
            "EarliestRestorableDateTime": seconds(restorable_from(recovery, time_ms, horizon_ms)),
            "LatestRestorableDateTime": seconds(max(recovery.enabled_ms, time_ms)),
        }
    return {"ContinuousBackupsStatus": "ENABLED", "PointInTimeRecoveryDescription": point_in_time}


def describe_time_to_live(definition: TableDefinition) -> dict[str, str]:
    if definition.ttl_attribute is None:
        return {"TimeToLiveStatus": "DISABLED"}
    return {"TimeToLiveStatus": "ENABLED", "AttributeName": definition.ttl_attribute}


_ACCESSED_AND_THROTTLED: Final = ("PKC", "SKC", "PKT", "SKT")  # in the names of rules, in DynamoDB's order


def describe_insights(definition: TableDefinition, name: str) -> dict[str, Any]:
    """Return the answer of DescribeContributorInsights for the index `name`; for the table if that is empty."""
    described = summarize_insights(definition, name)
    insights, index = definition.insights.get(name), definition.index(name)
    if insights is None:
        return described
    described["LastUpdateDateTime"] = seconds(insights.updated_ms)
    if insights.enabled:
        has_sort_key = bool((definition.key if index is None else index.key).sort)
        resource = f"{definition.name}-{name}" if name else definition.name
        described["ContributorInsightsRuleList"] = [
            f"DynamoDBContributorInsights-{rule}-{resource}-{insights.enabled_ms}"
            for rule in _ACCESSED_AND_THROTTLED
            if (rule[0] == "P" or has_sort_key)
            and (rule[2] == "T" or insights.mode == "ACCESSED_AND_THROTTLED_KEYS")
        ]
    return described


def summarize_insights(definition: TableDefinition, name: str) -> dict[str, Any]:
    """Return a summary of ListContributorInsights. Changes take effect at once: nothing is ENABLING or DISABLING."""
    insights = definition.insights.get(name)
    summary = {"TableName": definition.name}
    if name:
        summary["IndexName"] = name
    is_enabled = insights is not None and insights.enabled
    summary["ContributorInsightsStatus"] = "ENABLED" if is_enabled else "DISABLED"
    if insights is not None:
        summary["ContributorInsightsMode"] = insights.mode
    return summary


@lru_cache(64)
def stream_label(created_ms: int) -> str:
    """Return the label of a stream: its creation time. It is cached, because every change formats its time.

    >>> stream_label(1_700_000_000_123)
    '2023-11-14T22:13:20.123'
    """
    second, ms = divmod(created_ms, 1000)
    return f"{_written(second)}.{ms:03d}"


@lru_cache(64)
def _written(second: int) -> str:
    """Return a second in ISO format."""
    return (_EPOCH + timedelta(seconds=second)).replace(tzinfo=None).isoformat(timespec="seconds")


def seconds(time_ms: int) -> orjson.Fragment:
    """Return a timestamp in the API's form: 1700000000.123 for 1700000000123."""
    return orjson.Fragment(f"{time_ms // 1000}.{time_ms % 1000:03d}")


def describe_key(key: KeySchema) -> list[dict[str, str]]:
    """Return the KeySchema."""
    return [{"AttributeName": name, "KeyType": role} for name, _, role in key.to_json()]


def describe_units(throughput: Throughput) -> dict[str, int]:
    """Return the units of a ProvisionedThroughput."""
    return {"ReadCapacityUnits": throughput.read, "WriteCapacityUnits": throughput.write}


def _throughput(throughput: Throughput, time_ms: int) -> dict[str, Any]:
    described: dict[str, Any] = {
        "NumberOfDecreasesToday": decreases_today(throughput, time_ms),
        **describe_units(throughput),
    }
    if throughput.increased_ms is not None:
        described["LastIncreaseDateTime"] = seconds(throughput.increased_ms)
    if throughput.decreased_ms is not None:
        described["LastDecreaseDateTime"] = seconds(throughput.decreased_ms)
    return described


def _billing(definition: TableDefinition) -> dict[str, Any]:
    if definition.billed_by_request_ms is None:
        return {}
    return {
        "BillingModeSummary": {
            "BillingMode": definition.billing_mode,
            "LastUpdateToPayPerRequestDateTime": seconds(definition.billed_by_request_ms),
        }
    }


def _indexes(
    definition: TableDefinition, counts: Mapping[str, tuple[int, int]], time_ms: int
) -> dict[str, Any]:
    described: dict[str, Any] = {}
    if definition.lsis:
        described["LocalSecondaryIndexes"] = [_index(definition, index, counts) for index in definition.lsis]
    if definition.gsis:
        described["GlobalSecondaryIndexes"] = [
            {
                **_index(definition, index, counts),
                "IndexStatus": index.status,
                **({"Backfilling": True} if index.backfilling else {}),
                "ProvisionedThroughput": _throughput(index.throughput, time_ms),
                **_readiness(definition, index, index.status),
            }
            for index in definition.gsis
        ]
    return described


def _features(table: TableDefinition) -> dict[str, Any]:
    """Return the SourceTableFeatureDetails of a backup."""
    features: dict[str, Any] = {}
    if table.lsis:
        features["LocalSecondaryIndexes"] = [describe_index(index) for index in table.lsis]
    if table.gsis:
        features["GlobalSecondaryIndexes"] = [
            {**describe_index(index), "ProvisionedThroughput": describe_units(index.throughput)}
            | ({} if index.on_demand is None else {"OnDemandThroughput": describe_maximum(index.on_demand)})
            for index in table.gsis
        ]
    if table.stream is not None and table.stream.enabled:
        features["StreamDescription"] = {"StreamEnabled": True, "StreamViewType": table.stream.view}
    if table.ttl_attribute is not None:
        features["TimeToLiveDescription"] = describe_time_to_live(table)
    if table.kms_key is not None:
        features["SSEDescription"] = _encryption(table.kms_key)
    return features


def describe_index(index: IndexDefinition) -> dict[str, Any]:
    """Return the name, the key and the projection of an index."""
    projection: dict[str, Any] = {"ProjectionType": index.projection.kind}
    if index.projection.attributes:
        projection["NonKeyAttributes"] = list(index.projection.attributes)
    return {"IndexName": index.name, "KeySchema": describe_key(index.key), "Projection": projection}


def _index(
    definition: TableDefinition, index: IndexDefinition, counts: Mapping[str, tuple[int, int]]
) -> dict[str, Any]:
    items, size = counts.get(index.name, (0, 0))
    return {
        **describe_index(index),
        "IndexSizeBytes": size,
        "ItemCount": items,
        "IndexArn": f"{definition.arn}/index/{index.name}",
    }


def _readiness(
    definition: TableDefinition, part: TableDefinition | IndexDefinition, status: str
) -> dict[str, Any]:
    """Return WarmThroughput and OnDemandThroughput of a table or a global index."""
    by_request = definition.billing_mode == "PAY_PER_REQUEST"
    warm = readiness(part.throughput, part.warm, by_request=by_request)
    described: dict[str, Any] = {
        "WarmThroughput": {
            "ReadUnitsPerSecond": warm.read,
            "WriteUnitsPerSecond": warm.write,
            "Status": status if status in ("ACTIVE", "UPDATING") else "UPDATING",
        }
    }
    if part.on_demand is not None:
        described["OnDemandThroughput"] = describe_maximum(part.on_demand)
    return described


def describe_maximum(on_demand: OnDemand) -> dict[str, int]:
    """Return the OnDemandThroughput."""
    bounds = {"MaxReadRequestUnits": on_demand.read, "MaxWriteRequestUnits": on_demand.write}
    return {name: units for name, units in bounds.items() if units is not None}


def _stream(definition: TableDefinition) -> dict[str, Any]:
    stream = definition.stream
    if stream is None:
        return {}
    label = stream_label(stream.created_ms)
    described: dict[str, Any] = {
        "LatestStreamLabel": label,
        "LatestStreamArn": f"{definition.arn}/stream/{label}",
    }
    if stream.enabled:
        described["StreamSpecification"] = {"StreamEnabled": True, "StreamViewType": stream.view}
    return described


def _restore(restore: Restore) -> dict[str, Any]:
    backup = {} if restore.backup_arn is None else {"SourceBackupArn": restore.backup_arn}
    return {
        **backup,
        "SourceTableArn": restore.source_arn,
        "RestoreDateTime": seconds(restore.cut_ms),
        "RestoreInProgress": restore.in_progress,
    }


def _settings(definition: TableDefinition) -> dict[str, Any]:
    described: dict[str, Any] = {
        "DeletionProtectionEnabled": definition.deletion_protection,
        **_readiness(definition, definition, definition.status),
    }
    if definition.table_class is not None:
        described["TableClassSummary"] = {"TableClass": definition.table_class}
        if definition.table_class_ms is not None:
            described["TableClassSummary"]["LastUpdateDateTime"] = seconds(definition.table_class_ms)
    if definition.restore is not None and not definition.restore.is_import:
        described["RestoreSummary"] = _restore(definition.restore)
    if definition.kms_key is not None:
        described["SSEDescription"] = _encryption(definition.kms_key)
    return described


def _encryption(kms_key: str) -> dict[str, str]:
    return {"Status": "ENABLED", "SSEType": "KMS", "KMSMasterKeyArn": kms_key}
