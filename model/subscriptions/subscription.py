"""A named consumer of the changes of some tables, with its progress.

A subscription is a value, like a table's definition: each command derives a new one, and the fold keeps the latest. Its
*checkpoints* map each partition to the sequence number up to which every change is handled; within an *epoch* they only
rise. A reset starts a new epoch, and checkpoints of an old epoch have no effect.
"""

from collections.abc import Mapping
from dataclasses import field, fields, replace
from typing import Any, Final, Literal, TypeAlias

from ..lazy_dataclass import dataclass
from ..sequence_numbers import SequenceNumbers, parse_number

Status: TypeAlias = Literal["ACTIVE", "PAUSED", "STOPPED"]
Checkpoints: TypeAlias = SequenceNumbers


# Names in the state's dump that differ from the field: they must stay, as the digest covers them.
_STORED: Final = {"checkpoints": "marks"}


@dataclass(frozen=True, slots=True)
class Subscription:
    """The state of a subscription.

    Attributes:
        tables: Name and id of each table at the time of creation. A deleted table remains in it; a new table of the
            same name is not in it.
        settings: All settings, as `check` returns them.
        status: STOPPED means that the subscription ended by itself, for `reason`.
        epoch: The number of resets.
        checkpoints: For each partition, the sequence number up to which every change is handled.
        version: A hash of the code that handled the last change.
        handled: The number of handled changes, duplicates included.
        dead: The number of dead letters.
        created_ms: Log time of the creation.
        changed_ms: Log time of the last command, checkpoints excluded.
    """

    id: int
    name: str
    uuid: str
    tables: tuple[tuple[str, int], ...]
    settings: dict[str, Any]
    created_ms: int
    changed_ms: int
    status: Status = "ACTIVE"
    reason: str | None = None
    epoch: int = 0
    checkpoints: Checkpoints = field(default_factory=dict)
    version: str = ""
    handled: int = 0
    dead: int = 0

    @property
    def table_ids(self) -> list[int]:
        return [table_id for _, table_id in self.tables]

    def home(self, partitions: int) -> int:
        """Return the partition whose owner runs the subscription, of a number of partitions.

        >>> Subscription(7, "s", "", (), {}, 0, 0).home(partitions=1)
        0
        """
        return 0 if partitions == 1 else 1 + self.id % (partitions - 1)

    def checkpointed(
        self, checkpoints: Mapping[int, int], version: str, handled: int, dead: int
    ) -> "Subscription":
        """Return the subscription after further changes are handled. A lower checkpoint has no effect."""
        risen = {
            partition: max(sequence_number, self.checkpoints.get(partition, sequence_number))
            for partition, sequence_number in checkpoints.items()
        }
        return replace(
            self,
            checkpoints={**self.checkpoints, **risen},
            version=version,
            handled=self.handled + handled,
            dead=self.dead + dead,
        )

    def to_json(self) -> dict[str, Any]:
        """Return every field in canonical form, for the state's dump."""
        return {
            **{_STORED.get(each.name, each.name): getattr(self, each.name) for each in fields(self)},
            "tables": [list(table) for table in self.tables],
            # JSON readers keep fewer digits than a sequence number has.
            "marks": [
                [partition, str(sequence_number)]
                for partition, sequence_number in sorted(self.checkpoints.items())
            ],
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Subscription":
        """Return the subscription that `to_json` wrote."""
        values = {name: value for name, value in data.items() if name != "marks"}
        values["tables"] = tuple((name, table_id) for name, table_id in data["tables"])
        values["checkpoints"] = {
            partition: parse_number(sequence_number) for partition, sequence_number in data["marks"]
        }
        return cls(**values)
