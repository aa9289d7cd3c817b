"""From where to where the changes of a table are captured, in this partition.

    a definition with a stream, or watched ──► a window opens ──► a definition without, or none ──► it ends
                                               begun                                                ended

Each partition follows the definitions as they come in its own log, so `begun` and `ended` are numbers of its own: a
change is in a window if its number is between them. Windows that have ended are remembered, those of tables that are
gone included, because their changes can be read for a while; the last of them, by count.
"""

from dataclasses import dataclass, fields, replace
from typing import Any, Final, TypeAlias

from ....model.key_schema import KeySchema
from ....model.tables import TableDefinition

ENDED_KEPT: Final = 1024
WATCHED: Final = 0
"""The label of a window that only subscriptions look through. A stream's label is when it was enabled."""


@dataclass(frozen=True, slots=True)
class CapturePeriod:
    """One stretch of changes of a table.

    Attributes:
        label: Of the stream, its `created_ms`; or WATCHED.
        name: The table's.
        view: What a stream shows; None for WATCHED.
        shard_ms: The age at which the stream's shards roll; 0 for WATCHED.
        begun: The sequence number of the command that opened it here.
        ended: That of the one that closed it, at log time `ended_ms`; None while it is open.
    """

    table: int
    label: int
    name: str
    key: KeySchema
    view: str | None
    shard_ms: int
    begun: int
    ended: int | None = None
    ended_ms: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether changes still fall into it."""
        return self.ended is None

    def holds(self, number: int) -> bool:
        """Whether the change of that number falls into it."""
        return self.begun < number and (self.ended is None or number < self.ended)

    def is_over(self, before_ms: int) -> bool:
        """Whether all that fell into it is older than that log time."""
        return self.ended_ms is not None and self.ended_ms < before_ms

    def to_json(self) -> dict[str, Any]:
        """Write every field, canonically, for the state dump."""
        numbers = {"begun": str(self.begun), "ended": None if self.ended is None else str(self.ended)}
        return {
            **{each.name: getattr(self, each.name) for each in fields(self)},
            **numbers,
            "key": self.key.to_json(),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "CapturePeriod":
        """Read what `to_json` wrote."""
        ended = data["ended"]
        return cls(
            **{
                **data,
                "key": KeySchema.from_json(data["key"]),
                "begun": int(data["begun"]),
                "ended": None if ended is None else int(ended),
            }
        )


Windows: TypeAlias = dict[int, list[CapturePeriod]]
"""By table id, in the order in which they were opened; a table that never had one has no place in it."""


def follow(
    windows: Windows, table_id: int, definition: TableDefinition | None, number: int, time_ms: int
) -> None:
    """Open and end windows as a table's definition, new with the command of that number, has it; None: it is gone."""
    wanted = {} if definition is None else _wanted(definition)
    here = windows.get(table_id, [])
    open_labels = {window.label for window in here if window.is_open}
    if open_labels == wanted.keys():
        return
    kept = [
        replace(window, ended=number, ended_ms=time_ms)
        if window.is_open and window.label not in wanted
        else window
        for window in here
    ]
    if definition is not None:
        for label, (view, shard_ms) in wanted.items():
            if label not in open_labels:
                kept.append(
                    CapturePeriod(
                        table_id, label, definition.name, definition.key, view, shard_ms, begun=number
                    )
                )
    windows[table_id] = kept
    _forget_oldest(windows)


def _wanted(definition: TableDefinition) -> dict[int, tuple[str | None, int]]:
    """The windows that a definition asks to be open: label, view and shard age.

    A stream without a shard age was enabled below level 3, when nothing was captured.
    """
    wanted: dict[int, tuple[str | None, int]] = {}
    if definition.watched:
        wanted[WATCHED] = (None, 0)
    stream = definition.stream
    if stream is not None and stream.enabled and stream.shard_ms:
        wanted[stream.created_ms] = (stream.view, stream.shard_ms)
    return wanted


def _forget_oldest(windows: Windows) -> None:
    """Keep of those that have ended the last ones."""
    ended = [window for each in windows.values() for window in each if window.ended is not None]
    if len(ended) <= ENDED_KEPT:
        return
    for window in sorted(ended, key=lambda one: (one.ended, one.table, one.label))[:-ENDED_KEPT]:
        windows[window.table].remove(window)
        if not windows[window.table]:
            del windows[window.table]
