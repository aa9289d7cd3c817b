"""A named reader of the changes of some tables, and how far it is.

A value, as a table's definition is: a command about it makes a new one out of the old, and the fold keeps the latest.
Its *marks* say of each partition up to which sequence number all is handled; they only rise, within one *epoch*. To
begin anew elsewhere is to begin another epoch, in which what is still said of the old one counts for nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Literal, TypeAlias

Status: TypeAlias = Literal["ACTIVE", "PAUSED", "STOPPED"]
Checkpoints: TypeAlias = dict[int, int]


# The dump's name of a field, where it differs: the digest of a state depends on it.
_STORED: Final = {"checkpoints": "marks"}


@dataclass(frozen=True, slots=True)
class Subscription:
    """What is known of a subscription.

    Attributes:
        tables: Name and id of each of its tables, as they were when it was made. A deleted table stays in it, and one
            that is made anew under its name is another.
        settings: All of them, as `check` returns them.
        status: STOPPED is what came to its end by itself: `reason` says why.
        epoch: How many times it has begun anew.
        checkpoints: Of each partition the number up to which all is handled.
        version: A hash of the code that handled what was handled last.
        handled: How many changes were handled, repeated ones included.
        dead: How many were given up.
        created_ms: Log time, as `changed_ms`: that of the last command about it, checkpoints aside.
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
        """The ids of its tables."""
        return [table_id for _, table_id in self.tables]

    def home(self, partitions: int) -> int:
        """The partition whose owner runs it, of so many.

        >>> Subscription(7, "s", "", (), {}, 0, 0).home(partitions=1)
        0
        """
        return 0 if partitions == 1 else 1 + self.id % (partitions - 1)

    def checkpointed(self, marks: Mapping[int, int], version: str, handled: int, dead: int) -> "Subscription":
        """The subscription when so much more is handled. A mark that would go back stays."""
        risen = {
            partition: max(number, self.checkpoints.get(partition, number))
            for partition, number in marks.items()
        }
        return replace(
            self,
            checkpoints={**self.checkpoints, **risen},
            version=version,
            handled=self.handled + handled,
            dead=self.dead + dead,
        )

    def to_json(self) -> dict[str, Any]:
        """Write every field, canonically, for the state dump."""
        return {
            **{_STORED.get(each.name, each.name): getattr(self, each.name) for each in fields(self)},
            "tables": [list(table) for table in self.tables],
            # A sequence number has more digits than JSON's readers take for a number.
            "marks": [[partition, str(number)] for partition, number in sorted(self.checkpoints.items())],
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Subscription":
        """Read what `to_json` wrote."""
        values = {name: value for name, value in data.items() if name != "marks"}
        values["tables"] = tuple((name, table_id) for name, table_id in data["tables"])
        values["checkpoints"] = {partition: int(number) for partition, number in data["marks"]}
        return cls(**values)
