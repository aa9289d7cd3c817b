"""A reader may name a position that its read must not be older than: that of a write, told in `x-foldb-position`.

    read ──► x-foldb-position ──► reached? ──► what was told to indexes from there has arrived? ──► the read

With it who writes here reads his writes there: in a global index, which otherwise follows a little later.
"""

import re
from collections.abc import Callable
from functools import partial

from ...log.commands import Cut, Position
from ...materializer.partition import ResultPosition
from ...model.errors import RequestError, ValidationError
from ..database import Database
from .reply import Reply

# Operations that wait; a write is at the end of its log anyway.
READS = frozenset(("BatchGetItem", "GetItem", "Query", "Scan", "TransactGetItems"))

_position = re.compile(r"(?:([0-9]{1,4}):)?([0-9]{1,18})(?:\.([0-9]{1,5}))?").fullmatch


def reach(database: Database, text: str, reply: Reply, then: Callable[[], None]) -> None:
    """Do `then` once the position or cut in `text` is reached; answer with the error if it is not in time.

    Raises:
        ValidationError: It is no position of this log.
    """
    place = read_place(text, database.partitions.count)
    database.partition.reach(place, partial(_reached, reply, then))


def _reached(reply: Reply, then: Callable[[], None], error: RequestError | None) -> None:
    if error is None:
        then()
    else:
        reply.error(error)


def read_place(text: str, partitions: int) -> ResultPosition:
    """Read what `Place.text` has written, `2:10482.3` or several of them with commas.

    Raises:
        ValidationError: It is nothing of the kind.
    """
    positions = tuple(_read(part, partitions) for part in text.split(",", maxsplit=partitions))
    if len({position.partition for position in positions}) < len(positions):
        raise _no_position(text)
    return positions[0] if len(positions) == 1 else Cut(positions)


def _read(text: str, partitions: int) -> Position:
    match = _position(text.strip())
    if match is None or (match[1] is None) != (partitions == 1) or int(match[1] or 0) >= partitions:
        raise _no_position(text)
    return Position(int(match[1] or 0), int(match[2]), None if match[3] is None else int(match[3]))


def _no_position(text: str) -> ValidationError:
    return ValidationError(f"`{text[:100]}` is no position of this log, as x-foldb-position tells them")
