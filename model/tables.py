"""Table definitions: everything about a table but its items.

A definition is a value. A table command computes a new definition from the old one (`table_requests.py`), the fold
keeps the latest, and `descriptions.py` writes it in the form of DescribeTable. Its content was decided before the
append or follows from the log: times are log time, and no member is counted or measured.

    TableDefinition
    ├── key: KeySchema
    ├── indexes: IndexDefinition*       LSIs first, each kind in the order of creation
    │   ├── key: KeySchema
    │   └── projection: Projection
    └── settings                        throughput, stream, time to live, backups, tags, ...
"""

from collections.abc import Iterable
from dataclasses import field, fields, replace
from typing import Any, Final, Literal, TypeAlias

from .capacity_partitions import PartitionMap
from .key_schema import KeyAttribute, KeySchema
from .lazy_dataclass import dataclass

__all__ = [
    "IndexDefinition",
    "Insights",
    "KeyAttribute",
    "KeySchema",
    "OnDemand",
    "Projection",
    "Recovery",
    "Restore",
    "Stream",
    "TableDefinition",
    "Throughput",
    "Warm",
    "index_filled",
    "name_of",
    "settled",
    "table_arn",
    "used_attributes",
]

Status: TypeAlias = Literal["CREATING", "ACTIVE", "UPDATING", "DELETING"]
ProjectionKind: TypeAlias = Literal["ALL", "KEYS_ONLY", "INCLUDE"]
IndexKind: TypeAlias = Literal["LSI", "GSI"]
BillingMode: TypeAlias = Literal["PROVISIONED", "PAY_PER_REQUEST"]

REGION = "us-east-1"
_DAY_MS: Final = 24 * 60 * 60 * 1000
SHARD_MS: Final = 4 * 60 * 60 * 1000
"""The default age in milliseconds at which a stream's shards are closed."""
ACCOUNT_ARN = f"arn:aws:dynamodb:{REGION}:000000000000:"
ARN_PREFIX = f"{ACCOUNT_ARN}table/"


@dataclass(frozen=True, slots=True)
class Projection:
    """The attributes of an index in addition to the keys. `attributes` is used for INCLUDE only."""

    kind: ProjectionKind
    attributes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Throughput:
    """Provisioned units a second; 0 and 0 in the billing mode PAY_PER_REQUEST."""

    read: int = 0
    write: int = 0
    increased_ms: int | None = None
    decreased_ms: int | None = None
    decreases_today: int = 0


@dataclass(frozen=True, slots=True)
class OnDemand:
    """Upper bounds of units in the billing mode PAY_PER_REQUEST; None for no bound."""

    read: int | None = None
    write: int | None = None


@dataclass(frozen=True, slots=True)
class Warm:
    """Units a second that a table can serve at once, by request or by its former throughput."""

    read: int
    write: int


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream that was enabled at `created_ms`, which is its label. A disabled stream keeps its definition.

    `shard_ms` is the age in log time at which its shards are closed; 0 if it was enabled below level 3.
    """

    view: str
    created_ms: int
    enabled: bool = True
    shard_ms: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return every field in canonical form. `shard_ms`, new in level 3, is left out if it is 0."""
        written = {"view": self.view, "created_ms": self.created_ms, "enabled": self.enabled}
        return written | ({"shard_ms": self.shard_ms} if self.shard_ms else {})


@dataclass(frozen=True, slots=True)
class Recovery:
    """Point-in-time recovery, enabled at `enabled_ms`."""

    enabled_ms: int
    days: int = 35


@dataclass(frozen=True, slots=True)
class Insights:
    """The Contributor Insights of a table or a global index, which were enabled once.

    `enabled_ms` is the time in the names of the rules, `updated_ms` that of the last change. foldb keeps and describes
    the setting, and has no rules.
    """

    enabled: bool
    mode: str
    enabled_ms: int
    updated_ms: int


@dataclass(frozen=True, slots=True)
class Restore:
    """The origin of a restored or forked table: the source's id, name and ARN, and the log time of its items.

    `backup_arn` is the backup that was restored, if it was one. A restore `in_progress` keeps the table CREATING. A cut
    by position has the text of its `positions`; `cut_ms` is their log time, at which the other partitions are read.
    With `is_import` the items come from files: `source_arn` is the import, and `cut_ms` the time at which it began.
    """

    source_id: int
    source_name: str
    source_arn: str
    cut_ms: int
    backup_arn: str | None = None
    is_fork: bool = False
    in_progress: bool = True
    positions: str | None = None
    is_import: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return every field in canonical form. `positions` is left out if there are none, `is_import` if false."""
        written = _fields(self) or {}
        if self.positions is None:
            del written["positions"]
        if not self.is_import:
            del written["is_import"]
        return written


@dataclass(frozen=True, slots=True)
class ResourcePolicy:
    """The policy of a table or a stream: its document in canonical form, and the id of its revision.

    The id is the log time of the change, or one more than the id before, so a later revision has a larger id.
    """

    text: str
    revision: int


@dataclass(frozen=True, slots=True)
class IndexDefinition:
    """A secondary index. It is `backfilling` until all older items have their entries.

    `capacity_partitions` is the map of a global index; None while its throughput alone determines it.
    """

    id: int
    name: str
    kind: IndexKind
    key: KeySchema
    projection: Projection
    status: Status = "CREATING"
    backfilling: bool = False
    throughput: Throughput = Throughput()
    on_demand: OnDemand | None = None
    warm: Warm | None = None
    capacity_partitions: PartitionMap | None = None

    def to_json(self) -> dict[str, Any]:
        """Return every field in canonical form, for the state dump."""
        return {
            "id": self.id,
            "name": self.name,
            "kind": self.kind,
            "key": self.key.to_json(),
            "projection": {"kind": self.projection.kind, "attributes": list(self.projection.attributes)},
            "status": self.status,
            "backfilling": self.backfilling,
            "throughput": _fields(self.throughput),
            "on_demand": _fields(self.on_demand),
            "warm": _fields(self.warm),
            **_partitions_to_json(self.capacity_partitions),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "IndexDefinition":
        """Return the definition that `to_json` wrote."""
        projection = data["projection"]
        return cls(
            **{
                **data,
                "key": KeySchema.from_json(data["key"]),
                "projection": Projection(projection["kind"], tuple(projection["attributes"])),
                "throughput": Throughput(**data["throughput"]),
                "on_demand": data["on_demand"] and OnDemand(**data["on_demand"]),
                "warm": data["warm"] and Warm(**data["warm"]),
                "capacity_partitions": _partitions_from_json(data),
            }
        )


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """A table's name, keys, indexes and settings.

    Attributes:
        uuid: DynamoDB's TableId.
        attribute_types: AttributeDefinitions in their order: only attributes of keys.
        billed_by_request_ms: The time of the last change to PAY_PER_REQUEST.
        kms_key: The key's ARN, if encryption by KMS is enabled.
        watched: Whether a subscription names the table.
        restore: The origin of a restored, forked or imported table.
        policies: The policies of the table and of its streams, by the id of the resource relative to the table: an
            empty text for the table, `stream/` and the label for a stream.
        capacity_partitions: The table's map; None while its throughput alone determines it.
        insights: The Contributor Insights by the name of the index; those of the table by an empty name.
    """

    id: int
    name: str
    uuid: str
    key: KeySchema
    attribute_types: dict[str, str]
    created_ms: int
    indexes: tuple[IndexDefinition, ...] = ()
    status: Status = "CREATING"
    billing_mode: BillingMode = "PROVISIONED"
    billed_by_request_ms: int | None = None
    throughput: Throughput = Throughput()
    on_demand: OnDemand | None = None
    warm: Warm | None = None
    table_class: str | None = None
    table_class_ms: int | None = None
    deletion_protection: bool = False
    kms_key: str | None = None
    stream: Stream | None = None
    ttl_attribute: str | None = None
    recovery: Recovery | None = None
    tags: dict[str, str] = field(default_factory=dict)
    watched: bool = False
    restore: Restore | None = None
    policies: dict[str, ResourcePolicy] = field(default_factory=dict)
    insights: dict[str, Insights] = field(default_factory=dict)
    capacity_partitions: PartitionMap | None = None

    @property
    def is_restoring(self) -> bool:
        """Whether the table is CREATING until all items of its source are loaded."""
        return self.status == "CREATING" and self.restore is not None and self.restore.in_progress

    @property
    def lsis(self) -> tuple[IndexDefinition, ...]:
        """The local secondary indexes."""
        return tuple(index for index in self.indexes if index.kind == "LSI")

    @property
    def gsis(self) -> tuple[IndexDefinition, ...]:
        """The global secondary indexes."""
        return tuple(index for index in self.indexes if index.kind == "GSI")

    @property
    def arn(self) -> str:
        """The table's Amazon resource name."""
        return table_arn(self.name)

    def index(self, name: str) -> IndexDefinition | None:
        """Return the index with this name, or None."""
        return next((index for index in self.indexes if index.name == name), None)

    def to_json(self) -> dict[str, Any]:
        """Return every field in canonical form, for the state dump."""
        return {
            "id": self.id,
            "name": self.name,
            "uuid": self.uuid,
            "key": self.key.to_json(),
            "attribute_types": list(self.attribute_types.items()),
            "created_ms": self.created_ms,
            "indexes": [index.to_json() for index in self.indexes],
            "status": self.status,
            "billing_mode": self.billing_mode,
            "billed_by_request_ms": self.billed_by_request_ms,
            "throughput": _fields(self.throughput),
            "on_demand": _fields(self.on_demand),
            "warm": _fields(self.warm),
            "table_class": self.table_class,
            "table_class_ms": self.table_class_ms,
            "deletion_protection": self.deletion_protection,
            "kms_key": self.kms_key,
            "stream": self.stream and self.stream.to_json(),
            "ttl_attribute": self.ttl_attribute,
            "recovery": _fields(self.recovery),
            "tags": dict(self.tags),
            **({"watched": True} if self.watched else {}),
            **({} if self.restore is None else {"restore": self.restore.to_json()}),
            **(
                {"policies": {name: _fields(each) for name, each in self.policies.items()}}
                if self.policies
                else {}
            ),
            **(
                {"insights": {name: _fields(each) for name, each in self.insights.items()}}
                if self.insights
                else {}
            ),
            **_partitions_to_json(self.capacity_partitions),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "TableDefinition":
        """Return the definition that `to_json` wrote."""
        return cls(
            **{
                **data,
                "key": KeySchema.from_json(data["key"]),
                "attribute_types": dict(data["attribute_types"]),
                "indexes": tuple(IndexDefinition.from_json(index) for index in data["indexes"]),
                "throughput": Throughput(**data["throughput"]),
                "on_demand": data["on_demand"] and OnDemand(**data["on_demand"]),
                "warm": data["warm"] and Warm(**data["warm"]),
                "stream": data["stream"] and Stream(**data["stream"]),
                "recovery": data["recovery"] and Recovery(**data["recovery"]),
                "tags": dict(data["tags"]),
                "restore": Restore(**data["restore"]) if "restore" in data else None,
                "policies": {name: ResourcePolicy(**each) for name, each in data.get("policies", {}).items()},
                "insights": {name: Insights(**each) for name, each in data.get("insights", {}).items()},
                "capacity_partitions": _partitions_from_json(data),
            }
        )


def restorable_from(recovery: Recovery, time_ms: int, horizon_ms: int = 0) -> int:
    """Return the earliest log time to which a table can be restored at `time_ms`.

    That is the later of the enabling and the start of the recovery period, and never before `horizon_ms`, at which the
    history begins.
    """
    return max(recovery.enabled_ms, time_ms - recovery.days * _DAY_MS, horizon_ms)


def settled(definition: TableDefinition) -> TableDefinition | None:
    """Return the table after its delay; None if it was DELETING. A table that is being restored stays as it is.

    The statuses CREATING and UPDATING become ACTIVE, and an index with the status DELETING is removed. An index that
    is backfilling stays CREATING until `index_filled`.
    """
    if definition.status == "DELETING":
        return None
    if definition.is_restoring:
        return definition
    indexes = tuple(
        index if index.backfilling else replace(index, status="ACTIVE")
        for index in definition.indexes
        if index.status != "DELETING"
    )
    used = used_attributes(definition.key, indexes)
    types = {name: kind for name, kind in definition.attribute_types.items() if name in used}
    names = {"", *(index.name for index in indexes)}
    insights = {name: each for name, each in definition.insights.items() if name in names}
    return replace(definition, status="ACTIVE", indexes=indexes, attribute_types=types, insights=insights)


def used_attributes(key: KeySchema, indexes: Iterable[IndexDefinition]) -> list[str]:
    """Return the names of the key attributes of a table and its indexes, each once."""
    names = list(key.names)
    for index in indexes:
        names.extend(name for name in index.key.names if name not in names)
    return names


def index_filled(definition: TableDefinition, index_id: int) -> TableDefinition:
    """Return the table after the backfill of an index has finished."""
    return replace(
        definition,
        indexes=tuple(
            replace(index, status="ACTIVE", backfilling=False) if index.id == index_id else index
            for index in definition.indexes
        ),
    )


def table_arn(name: str) -> str:
    """Return the Amazon resource name of a table."""
    return ARN_PREFIX + name


def name_of(text: str) -> str:
    """Return the table's name in a TableName, which may be an ARN.

    >>> name_of("arn:aws:dynamodb:eu-west-1:123456789012:table/Cars")
    'Cars'
    """
    if not text.startswith("arn:"):
        return text
    return text.partition(":table/")[2].partition("/")[0] or text


def relative_id(text: str) -> str:
    """Return the id of an index, a stream or a backup in its ARN, or an empty text for a table's name or ARN.

    >>> relative_id("arn:aws:dynamodb:us-east-1:000000000000:table/Cars/stream/2026-11-21T10:00:00.123")
    'stream/2026-11-21T10:00:00.123'
    """
    return text.partition(":table/")[2].partition("/")[2] if text.startswith("arn:") else ""


def _partitions_to_json(present: PartitionMap | None) -> dict[str, Any]:
    return {} if present is None else {"capacity_partitions": present.to_json()}


def _partitions_from_json(data: dict[str, Any]) -> PartitionMap | None:
    return PartitionMap.from_json(data["capacity_partitions"]) if "capacity_partitions" in data else None


def _fields(settings: Any) -> dict[str, Any] | None:
    if settings is None:
        return None
    return {each.name: getattr(settings, each.name) for each in fields(settings)}
