"""The start of a read of the feed: from the Start of a request to a sequence number per partition.

{"At": "NOW"}, {"At": "HORIZON"}, {"At": "TIME", "Time": ms}      looked up in the feeds
{"At": "NUMBERS", "Numbers": {partition id: sequence number}}     taken as it is; reads begin after these numbers
{"At": "POSITION", "Position": "1:7,2:10482.3"}                   computed; reads begin with that position
{"At": "BEGINNING"}                                               before the first change
"""

from typing import Any, Final, TypeAlias

from ....log.commands import Cut, Position
from ....materializer.feed_requests import FindSequenceNumber, FoundSequenceNumber
from ....model.errors import TrimmedDataAccessError, ValidationError
from ....model.sequence_numbers import SequenceNumbers, number_before, number_texts, parse_numbers
from ...async_calls import RefusedAtError, read_feeds
from ...database import Database
from ...partitions.past_reads import trimmed_error
from ..min_position import parse_position

Start: TypeAlias = dict[str, Any]

NOT_KEPT: Final = (
    "The changes of a table are kept while it has a stream or a subscription, "
    "and for as long as --stream-retention says"
)

_NO_TABLE: Final = 0  # the id of no table: the feed answers with its end
_SPREAD_MS: Final = 60_000  # after this time every partition has a new definition and captures changes for it
_END_OF_TIME: Final = 2**62
_TIMES: Final = {"NOW": _END_OF_TIME, "HORIZON": 0}


def read_start(database: Database, start: Any) -> Start:
    """Validate a Start and replace a position by the sequence numbers before it.

    Raises:
        ValidationError: The Start is malformed.
    """
    at = start.get("At") if isinstance(start, dict) else None
    match at:
        case "NOW" | "HORIZON" | "BEGINNING" | "SNAPSHOT":
            return {"At": at}
        case "TIME":
            return {"At": at, "Time": read_integer(start, "Time", -1, 0, _END_OF_TIME)}
        case "NUMBERS":
            after = read_after(start.get("Numbers"))
        case "POSITION":
            after = _of_position(database, str(start.get("Position")))
        case _:
            raise ValidationError(
                "Start.At must be one of NOW, HORIZON, BEGINNING, TIME, NUMBERS, POSITION, SNAPSHOT"
            )
    return {"At": "NUMBERS", "Numbers": number_texts(after)}


def read_end(database: Database, end: Any) -> Start:
    """Validate a To and return it as {"Time"} or {"Numbers"}. The change at the end is read, too.

    Raises:
        ValidationError: The To is malformed.
    """
    match end:
        case {"Time": _}:
            return {"Time": read_integer(end, "Time", -1, 0, _END_OF_TIME)}
        case {"Numbers": numbers}:
            last = read_after(numbers)
        case {"Position": text}:
            last = _of_position(database, str(text), ends=True)
        case _:
            raise ValidationError("To must have one of Time, Numbers and Position")
    return {"Numbers": number_texts(last)}


def read_after(numbers: Any) -> SequenceNumbers:
    """Parse the sequence numbers of partitions, which JSON has as text.

    Raises:
        ValidationError: A partition id or a sequence number is malformed.
    """
    try:
        return parse_numbers(numbers)
    except ValueError:
        raise ValidationError(
            "Numbers and After must say of partitions a sequence number, both as text"
        ) from None


def read_integer(body: dict[str, Any], name: str, default: int, lowest: int, highest: int) -> int:
    """Return a member that is an integer.

    Raises:
        ValidationError: The member is not an integer, or out of range.
    """
    value = body.get(name, default)
    if type(value) is not int or not lowest <= value <= highest:
        raise ValidationError(f"{name} must be an integer from {lowest} to {highest}")
    return value


async def resolve(database: Database, tables: list[int], start: Start) -> SequenceNumbers:
    """Return the sequence numbers after which a read of the tables begins; of several tables, the lowest.

    Raises:
        TrimmedDataAccessError: The start is a snapshot, which a feed does not have.
        RequestError: A feed does not answer.
    """
    partitions = database.partitions_of_feed()
    at = start["At"]
    if at == "NUMBERS":
        return read_after(start["Numbers"])
    if at == "SNAPSHOT":
        raise TrimmedDataAccessError(
            "A feed has changes alone: a snapshot is for subscriptions, and for who has the log"
        )
    if at == "BEGINNING" and not all(_is_all_kept(database, table) for table in tables):
        return dict.fromkeys(partitions, 0)
    time_ms = start.get("Time", _TIMES.get(at, 0))
    lookups = [(partition_id, table) for partition_id in partitions for table in tables or [_NO_TABLE]]
    try:
        answers, _ = await read_feeds(
            [
                (partitions[partition_id], FindSequenceNumber(table, time_ms))
                for partition_id, table in lookups
            ],
        )
    except RefusedAtError as refused:
        raise refused.error from None
    return _lowest(database, start, lookups, answers)


def _lowest(
    database: Database, start: Start, lookups: list[tuple[int, int]], answers: list[FoundSequenceNumber]
) -> SequenceNumbers:
    after: SequenceNumbers = {}
    for (partition_id, table), answer in zip(lookups, answers, strict=True):
        found = answer.after if start["At"] in ("NOW", "TIME") else answer.trim_horizon
        if start["At"] == "TIME" and table != _NO_TABLE and not _is_all_kept(database, table, start["Time"]):
            found = 0  # the feed may not keep the changes since then: read the log, and skip changes before the time
        after[partition_id] = min(found, after.get(partition_id, found))
    return after


def _is_all_kept(database: Database, table: int, since_ms: int = 0) -> bool:
    """Return whether the feed surely keeps every change of a table since a log time, or every change it ever had."""
    if table not in database.state.tables:
        return False
    definition, retention_ms = database.state.tables[table].definition, database.settings.stream_retention_ms
    stream = definition.stream
    starts = [each.created_ms for each in database.state.subscriptions.values() if table in each.table_ids]
    if stream is not None and stream.enabled:
        starts.append(stream.created_ms)
    if retention_ms and database.state.log_time - retention_ms > max(since_ms, definition.created_ms):
        return False
    if starts and min(starts) <= definition.created_ms:
        return True
    return bool(starts) and min(starts) + _SPREAD_MS < since_ms


def _of_position(database: Database, text: str, *, ends: bool = False) -> SequenceNumbers:
    """Return the highest sequence number before each position; with `ends`, the highest at it."""
    parsed = parse_position(text, database.partitions.count)
    positions = parsed.positions if isinstance(parsed, Cut) else (parsed,)
    return {each.partition: _last(database, each, ends=ends) for each in positions}


def _last(database: Database, position: Position, *, ends: bool) -> int:
    trimmed = trimmed_error(database.log, position.partition, position.offset)
    if trimmed is not None:
        raise trimmed
    offset = database.log.genesis(position.partition).base + position.offset
    if not ends:
        return number_before(offset, position.index or 0)
    return number_before(offset + 1) if position.index is None else number_before(offset, position.index + 1)
