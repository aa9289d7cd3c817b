"""Where a reading of the feed begins: from what a request says to the numbers that come before, by partition.

{"At": "NOW"}, {"At": "HORIZON"}, {"At": "TIME", "Time": ms}      the feeds are asked
{"At": "NUMBERS", "Numbers": {partition: number}}                 as it is: only what comes after is read
{"At": "POSITION", "Position": "1:7,2:10482.3"}                   from that position on, computed
{"At": "BEGINNING"}                                               before all numbers
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ....log.commands import Cut, Position
from ....materializer.feed_requests import FedPartition, FindNumber, Number
from ....materializer.fold.outcomes import sequence_number
from ....model.errors import RequestError, TrimmedDataAccessError, ValidationError
from ...routing.fan_in import FanIn
from ..min_position import read_place

if TYPE_CHECKING:
    from ...node import Node

After: TypeAlias = dict[int, int]
"""By partition the number after which one reads. What is not named is not read."""

Start: TypeAlias = dict[str, Any]

NOT_KEPT: Final = (
    "The changes of a table are kept while it has a stream or a subscription, "
    "and for as long as --stream-retention says"
)

_NO_TABLE: Final = 0  # a feed tells where it ends all the same
_SPREAD_MS: Final = 60_000  # what is defined is known everywhere, and captured
_END_OF_TIME: Final = 2**62
_TIMES: Final = {"NOW": _END_OF_TIME, "HORIZON": 0}


def read_start(node: "Node", start: Any) -> Start:
    """A Start as it may be asked for, without positions: those are numbers from here on.

    Raises:
        ValidationError: It is none.
    """
    at = start.get("At") if isinstance(start, dict) else None
    match at:
        case "NOW" | "HORIZON" | "BEGINNING" | "SNAPSHOT":
            return {"At": at}
        case "TIME":
            return {"At": at, "Time": whole(start, "Time", -1, 0, _END_OF_TIME)}
        case "NUMBERS":
            numbers = read_after(start.get("Numbers"))
        case "POSITION":
            numbers = _of_position(node, str(start.get("Position")))
        case _:
            raise ValidationError(
                "Start.At must be one of NOW, HORIZON, BEGINNING, TIME, NUMBERS, POSITION, SNAPSHOT"
            )
    return {"At": "NUMBERS", "Numbers": {str(number): str(after) for number, after in numbers.items()}}


def read_end(node: "Node", end: Any) -> Start:
    """Where a reading ends: {"Time"} or {"Numbers"}, the last that are read; a position is the last, too.

    Raises:
        ValidationError: It is none.
    """
    match end:
        case {"Time": _}:
            return {"Time": whole(end, "Time", -1, 0, _END_OF_TIME)}
        case {"Numbers": numbers}:
            after = read_after(numbers)
        case {"Position": text}:
            after = _of_position(node, str(text), ends=True)
        case _:
            raise ValidationError("To must have one of Time, Numbers and Position")
    return {"Numbers": {str(number): str(each) for number, each in after.items()}}


def read_after(numbers: Any) -> After:
    """Sequence numbers by partition, as JSON says them.

    Raises:
        ValidationError: They are not.
    """
    if not isinstance(numbers, dict) or not all(
        key.isdecimal() and isinstance(text, str) and text.isdecimal() and len(text) <= 40 and len(key) <= 4
        for key, text in numbers.items()
    ):
        raise ValidationError("Numbers and After must say of partitions a sequence number, both as text")
    return {int(key): int(text) for key, text in numbers.items()}


def whole(body: dict[str, Any], name: str, default: int, least: int, most: int) -> int:
    """A member that is an integer.

    Raises:
        ValidationError: It is not, or out of its range.
    """
    value = body.get(name, default)
    if type(value) is not int or not least <= value <= most:
        raise ValidationError(f"{name} must be an integer from {least} to {most}")
    return value


def resolve(
    node: "Node", tables: list[int], start: Start, done: Callable[[After | RequestError], None]
) -> None:
    """Find the numbers after which tables are read; of several tables, the first of them."""
    partitions: dict[int, FedPartition] = node.partitions_of_feed()
    at = start["At"]
    if at == "NUMBERS":
        done(read_after(start["Numbers"]))
        return
    if at == "SNAPSHOT":
        raise TrimmedDataAccessError(
            "A feed has changes alone: a snapshot is for subscriptions, and for who has the log"
        )
    if at == "BEGINNING" and not all(_is_all_kept(node, table) for table in tables):
        done(dict.fromkeys(partitions, 0))
        return
    time_ms = start.get("Time", _TIMES.get(at, 0))
    asked = [(number, table) for number in partitions for table in tables or [_NO_TABLE]]
    join = FanIn(len(asked), lambda answers, _: done(_found(node, start, asked, answers)))
    for nth, (number, table) in enumerate(asked):
        partitions[number].feed(FindNumber(table, time_ms), partial(join.answered, nth))


def _found(
    node: "Node", start: Start, asked: list[tuple[int, int]], answers: list[Number | RequestError]
) -> After | RequestError:
    after: After = {}
    for (number, table), answer in zip(asked, answers, strict=True):
        if isinstance(answer, RequestError):
            return answer
        found = answer.after if start["At"] in ("NOW", "TIME") else answer.trim_horizon
        if start["At"] == "TIME" and table != _NO_TABLE and not _is_all_kept(node, table, start["Time"]):
            found = 0  # it may be in the past that the feed does not keep: changes before the time are passed over
        after[number] = min(found, after.get(number, found))
    return after


def _is_all_kept(node: "Node", table: int, since_ms: int = 0) -> bool:
    """Whether the feed surely keeps all changes of a table since then, or all that it ever had."""
    if table not in node.state.tables:
        return False
    definition, retention = node.state.tables[table].definition, node.settings.stream_retention_ms
    stream = definition.stream
    begun = [each.created_ms for each in node.state.subscriptions.values() if table in each.table_ids]
    if stream is not None and stream.enabled:
        begun.append(stream.created_ms)
    if retention and node.state.log_time - retention > max(since_ms, definition.created_ms):
        return False
    if begun and min(begun) <= definition.created_ms:
        return True
    return bool(begun) and min(begun) + _SPREAD_MS < since_ms


def _of_position(node: "Node", text: str, *, ends: bool = False) -> After:
    """The highest numbers before positions; with `ends`, the highest at them."""
    place = read_place(text, node.partitions.count)
    positions = place.positions if isinstance(place, Cut) else (place,)
    return {each.partition: _last(node, each, ends=ends) for each in positions}


def _last(node: "Node", position: Position, *, ends: bool) -> int:
    offset = node.log.genesis(position.partition).base + position.offset
    if not ends:
        return sequence_number(offset, position.index or 0, 0) - 1
    if position.index is None:
        return sequence_number(offset + 1, 0, 0) - 1
    return sequence_number(offset, position.index + 1, 0) - 1
