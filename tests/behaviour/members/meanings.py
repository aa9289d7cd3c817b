"""Other values for the members of a request, and the refusals that show that a member was looked at."""

from collections.abc import Iterator
from functools import cache
from typing import Any

from tests.behaviour.members.model import is_structure
from tests.behaviour.members.samples import ARN, backups, jobs, streams


def other_values(path: str, shape: Any, value: Any) -> Iterator[Any]:
    """Make other values for a member: those that suit its meaning first, then those that suit its kind."""
    yield from _other_meanings().get(path.rpartition(".")[2], ())
    match value:
        case bool():
            yield not value
        case int():
            yield from (value - 1, value + 1, 1)
        case str():
            yield from (name for name in shape.enum or [f"{value}x"] if name != value)
        case {"S": str(text)} if not is_structure(shape):
            yield {"S": f"{text}x"}
        case {"N": str(number)} if not is_structure(shape):
            yield from ({"N": str(int(number) + step)} for step in (1, -1))
        case dict() if shape.type_name == "map":
            for key, member in value.items():
                yield from ({**value, key: each} for each in other_values(f"{path}{{}}", shape.value, member))
        case dict() if is_structure(shape):
            for name, member in value.items():
                inner = other_values(f"{path}.{name}", shape.members[name], member)
                yield from ({**value, name: each} for each in inner)
        case list():
            yield from (value[1:], value[:-1])
            for place, element in enumerate(value):
                inner = other_values(f"{path}[]", shape.member, element)
                yield from ([*value[:place], each, *value[place + 1 :]] for each in inner)


def refusals(path: str) -> tuple[str, ...]:
    """Return the errors that another value of a member leads to only because its value was looked at."""
    found = _REFUSALS.get(path.rpartition(".")[2], ())
    return found + next((texts for end, texts in _REFUSALS.items() if "." in end and path.endswith(end)), ())


@cache
def _other_meanings() -> dict[str, tuple[Any, ...]]:
    """By the name of the member."""
    known = streams()
    shard = known.shards[2]
    return {
        "AttributeName": ("p", "q", "r"),
        "BackupArn": tuple(backups()[1:]),
        "BulkOperationArn": tuple(jobs().bulk_operations[1:]),
        "ConditionExpression": ("#a <> :ten",),
        "ExportArn": tuple(jobs().exports[1:]),
        "ExclusiveStartShardId": (shard["ShardId"],),
        "ExpressionAttributeNames": ({"#a": "b"},),
        "FilterExpression": ("#a >= :most",),
        "ImportArn": tuple(jobs().imports[1:]),
        "KeyConditionExpression": ("p = :p AND q >= :q", "r = :p"),
        "ProjectionExpression": ("#a",),
        "ResourceArn": (f"{ARN}spare",),
        "SequenceNumber": (known.shards[1]["SequenceNumberRange"]["StartingSequenceNumber"],),
        "ShardId": (shard["ShardId"],),
        "ShardIterator": (known.iterators[1],),
        "Statement": (
            "SELECT a FROM main WHERE p = 'a' AND a > ?",
            "SELECT q FROM main WHERE p = ? AND q = 2",
            "UPDATE main SET f = ? WHERE p = 'a' AND q = 1",
        ),
        "StreamArn": (known.spare,),
        "S3Bucket": ("two",),
        "TableArn": (f"{ARN}main", f"{ARN}new"),
        "TimeRangeLowerBound": (1_900_000_000,),
        "TableName": ("spare", "units", "lost"),
        "UpdateExpression": ("SET e = :ten", "SET e = :d"),
    }


_NO_INDEX = "Requested resource not found: Index: gsix not found"
_NO_KEY = (
    "Some index key attribute have no definition",
    "Index KeySchema does not have the same leading hash key",
)
_OTHER_INDEX = ("does not match an index of the source table",)
_OTHER_SOURCE = ("is not enabled for table", "Table not found: spare")
_NO_TIME = ("Exactly one of RestoreDateTime or UseLatestRestorableTime must be specified",)
_OF_INCREMENTAL = ("An IncrementalExportSpecification is required for INCREMENTAL_EXPORT",)
_NO_VIEW = ("UpdateViewType is required",)
_UNITS_OF_MODE = (
    "must be specified when BillingMode is PROVISIONED",
    "must both be specified when BillingMode is PROVISIONED",
    "can be specified when BillingMode is PAY_PER_REQUEST",
)

# By a member's name, or by the end of its path. Each is the error for another value alone: without the member, or where
# it was ignored, the request would fail otherwise or not at all.
_REFUSALS: dict[str, tuple[str, ...]] = {
    "BillingMode": _UNITS_OF_MODE,
    "BillingModeOverride": (*_UNITS_OF_MODE, "cannot be specified when table BillingMode is PROVISIONED"),
    "ExportType": _OF_INCREMENTAL,
    "IncrementalExportSpecification": _OF_INCREMENTAL,
    "InputFormat": ("InputFormatOptions can only be specified when InputFormat is CSV",),
    "S3SseAlgorithm": ("S3SseKmsKeyId can only be specified when S3SseAlgorithm is KMS",),
    "ExportTableToPointInTime.TableArn": ("is not enabled for table",),
    "Exists": ("Value cannot be used when Exists is false",),
    "ConfirmRemoveSelfResourceAccess": ("will not allow you to update the resource policy",),
    "ExpectedRevisionId": ("Resource-based policy not found",),
    "GetResourcePolicy.ResourceArn": ("Resource-based policy not found",),
    "Policy": ("This policy contains invalid Json",),
    "ResourcePolicy": ("This policy contains invalid Json",),
    "KeyConditionExpression": ("Query condition missed key schema element: p",),
    "IndexName": _OTHER_INDEX,
    "KeySchema": (*_NO_KEY, *_OTHER_INDEX),
    "KeySchema[].AttributeName": (*_NO_KEY, *_OTHER_INDEX),
    "KeyType": ("The first KeySchemaElement is not a HASH key type", *_OTHER_INDEX),
    "NonKeyAttributes": _OTHER_INDEX,
    "Projection": _OTHER_INDEX,
    "ProjectionType": ("ProjectionType is ALL, but NonKeyAttributes is specified", *_OTHER_INDEX),
    "SSEType": ("SSEType AES256 is not supported",),
    "TableName": ("resource not found", "Table not found: lost"),
    "Query.KeyConditions{}.ComparisonOperator": ("Query key condition not supported",),
    "AttributeDefinitions[].AttributeName": (
        "Attribute Name is duplicated",
        "Some index key attributes are not defined in AttributeDefinitions",
    ),
    "StreamSpecification": (*_NO_VIEW, "Table already has an enabled stream"),
    "RestoreDateTime": (*_NO_TIME, "An invalid restore time was specified"),
    "SourceTableArn": _OTHER_SOURCE,
    "SourceTableName": _OTHER_SOURCE,
    "UseLatestRestorableTime": _NO_TIME,
    "SSESpecificationOverride.Enabled": ("can not be specified if Enabled is false",),
    "UpdateTable.AttributeDefinitions": ("Attributes cannot be redefined",),
    "UpdateTable.AttributeDefinitions[].AttributeType": ("Attributes cannot be redefined",),
    "UpdateTable.GlobalSecondaryIndexUpdates": (_NO_INDEX,),
    "UpdateTable.GlobalSecondaryIndexUpdates[].Delete": (_NO_INDEX,),
    "UpdateTable.GlobalSecondaryIndexUpdates[].Delete.IndexName": (_NO_INDEX,),
    "UpdateTable.GlobalSecondaryIndexUpdates[].Update.IndexName": (_NO_INDEX,),
    "SSESpecification.Enabled": ("SSEType can not be specified if Enabled is false",),
    "StreamSpecification.StreamEnabled": (
        *_NO_VIEW,
        "Table is being created with a stream disabled",
        "Table already has an enabled stream",
        "If stream is being disabled, then UpdateViewType must not be specified",
    ),
    "PointInTimeRecoverySpecification.PointInTimeRecoveryEnabled": (
        "Cannot specify RecoveryPeriodInDays when disabling point-in-time recovery",
    ),
    "TimeToLiveSpecification.Enabled": ("TimeToLive is already disabled",),
    "DisableKinesisStreamingDestination.StreamArn": ("must be ACTIVE to perform DISABLE operation",),
    "UpdateKinesisStreamingDestination.StreamArn": ("No streaming destination with streamArn",),
    "UpdateKinesisStreamingConfiguration": ("Precision is already set to the desired value",),
    "ApproximateCreationDateTimePrecision": ("Precision is already set to the desired value",),
    "ShardFilter.Type": ("ShardFilter must have both a Type and a ShardId",),
    "GetShardIterator.StreamArn": ("Shard does not exist",),
    "GetShardIterator.ShardId": ("SequenceNumber is not in the range of the shard",),
    "GetShardIterator.ShardIteratorType": ("Timestamp must not be specified for ShardIteratorType",),
}
