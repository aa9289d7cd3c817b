"""The minimum position of a read: a client sends the position of its write in `x-foldb-position`.

    read ──► wait until the position is folded ──► wait until its index entries have arrived ──► read

So a client reads its own writes on another node, and in a global index, which otherwise follows a little later.
"""

from collections.abc import Callable, Sequence
from functools import partial

from ...log.commands import Cut, Position
from ...materializer.partition import ResultPosition
from ...model.cuts import NamedPosition, parse_positions
from ...model.errors import RequestError, ValidationError
from ..database import Database
from .reply import Reply

# The operations that wait. A write is at the end of its log in any case, so it does no harm that statements wait too.
READS = frozenset(
    (
        "BatchExecuteStatement",
        "BatchGetItem",
        "ExecuteStatement",
        "ExecuteTransaction",
        "GetItem",
        "Query",
        "Scan",
        "TransactGetItems",
    )
)


def reach(database: Database, text: str, reply: Reply, proceed: Callable[[], None]) -> None:
    """Call `proceed` once the position or cut in `text` is reached; reply with an error if that takes too long.

    Raises:
        ValidationError: The text is not a position of this log.
    """
    position = parse_position(text, database.partitions.count)
    database.partition.reach(position, partial(_reached, reply, proceed))


def _reached(reply: Reply, proceed: Callable[[], None], error: RequestError | None) -> None:
    if error is None:
        proceed()
    else:
        reply.error(error)


def parse_position(text: str, partitions: int) -> ResultPosition:
    """Parse the text of a position, `2:10482.3`, or of a cut, several positions with commas.

    Raises:
        ValidationError: The text is not a position of this log.
    """
    try:
        named = parse_positions(",".join(part.strip() for part in text.split(",", maxsplit=partitions)))
        positions = tuple(positions_of(named, partitions))
    except ValueError:
        raise ValidationError(
            f"`{text[:100]}` is not a position of this log, as x-foldb-position has them"
        ) from None
    return positions[0] if len(positions) == 1 else Cut(positions)


def positions_of(named: Sequence[NamedPosition], partitions: int) -> list[Position]:
    """Return the positions in a log with that many partitions.

    Raises:
        ValueError: A position names a partition that the log does not have, or names none of several.
    """
    positions = []
    for each in named:
        if (each.partition is None) != (partitions == 1) or (each.partition or 0) >= partitions:
            form = "OFFSET.INDEX" if partitions == 1 else f"PARTITION:OFFSET.INDEX, PARTITION < {partitions}"
            raise ValueError(f"a position of this log is {form}")
        positions.append(Position(each.partition or 0, each.offset, each.index))
    return positions
