"""Backups: names for a state of a table in the past.

A backup has no items. It names a cut of the log by log time, from which a restore reads the items.
"""

from typing import Any

from .lazy_dataclass import dataclass
from .tables import TableDefinition


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup of a table, which it outlives.

    Attributes:
        arn: The backup's Amazon resource name.
        name: The name that the client gave.
        definition: The table's definition when the backup was created.
        cut_ms: The log time of the items.
        created_ms: The log time of the CreateBackup.
        items: The number of items, as counted when the backup was requested.
        size: Their bytes.
    """

    arn: str
    name: str
    definition: TableDefinition
    cut_ms: int
    created_ms: int
    items: int
    size: int

    def to_json(self) -> dict[str, Any]:
        """Return every field in canonical form, for the state dump."""
        return {
            "arn": self.arn,
            "name": self.name,
            "definition": self.definition.to_json(),
            "cut_ms": self.cut_ms,
            "created_ms": self.created_ms,
            "items": self.items,
            "size": self.size,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Backup":
        """Return the backup that `to_json` wrote."""
        return cls(**{**data, "definition": TableDefinition.from_json(data["definition"])})


def backup(definition: TableDefinition, request: dict[str, Any], *, uuid: str, time_ms: int) -> Backup:
    """Return the backup of a CreateBackup, whose ARN has its creation time and the first part of `uuid`.

    The request's `TimeMs` is a log time that no acknowledged write exceeds: `time_ms`, the log time of the catalog, may
    be behind that of other partitions.
    """
    return Backup(
        arn=f"{definition.arn}/backup/{time_ms:014d}-{uuid[:8]}",
        name=request["BackupName"],
        definition=definition,
        cut_ms=max(request["TimeMs"], time_ms),
        created_ms=time_ms,
        items=request["Items"],
        size=request["Bytes"],
    )
