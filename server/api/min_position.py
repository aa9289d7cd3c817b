"""The minimum position of a read: a client sends the position of its write in `x-foldb-position`.

    read ──► wait until the position is folded ──► wait until its index entries have arrived ──► read

So a client reads its own writes on another node, and in a global index, which otherwise follows a little later.
"""

import re
from collections.abc import Callable
from functools import partial

from ...log.commands import Cut, Position
from ...materializer.partition import ResultPosition
from ...model.errors import RequestError, ValidationError
from ..database import Database
from .reply import Reply

# The operations that wait. A write is at the end of its log in any case.
READS = frozenset(("BatchGetItem", "GetItem", "Query", "Scan", "TransactGetItems"))

_position = re.compile(r"(?:([0-9]{1,4}):)?([0-9]{1,18})(?:\.([0-9]{1,5}))?").fullmatch


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
    positions = tuple(_read(part, partitions) for part in text.split(",", maxsplit=partitions))
    if len({position.partition for position in positions}) < len(positions):
        raise _malformed(text)
    return positions[0] if len(positions) == 1 else Cut(positions)


def _read(text: str, partitions: int) -> Position:
    match = _position(text.strip())
    if match is None or (match[1] is None) != (partitions == 1) or int(match[1] or 0) >= partitions:
        raise _malformed(text)
    return Position(int(match[1] or 0), int(match[2]), None if match[3] is None else int(match[3]))


def _malformed(text: str) -> ValidationError:
    return ValidationError(f"`{text[:100]}` is not a position of this log, as x-foldb-position has them")
