"""The reads of tables by time, from a file or from the running server.

{"BucketMs": 60000, "Parts": [{"TableName": "Orders", "IndexName"?: "states",
                               "Reads": {"Buckets": [{"Time": 1795000000000, "Rows": [12.5, 3]}]}}]}

A part is a table or an index, and the rows of a bucket are the read units of its key ranges. Reads are not in the log.
A server has them for the minutes of the last day at most, and the keys of the last minutes in a bounded sketch: so all
figures from them are estimates.
"""

import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from .errors import CommandError, ExitCode, RequestFailedError
from .heat import read_heat
from .session import Session

SERVER: Final = "server"
"""The value of --reads for the running server."""

_MINUTE_MS: Final = 60_000
_METRIC: Final = "ConsumedReadCapacityUnits"


class ReadSeries(NamedTuple):
    """The reads of a table or an index.

    Attributes:
        bucket_ms: The length of a bucket.
        units: The read units of each bucket by the time of its begin, in this order.
        largest: The key with the most read units, and its share of them; None if it is not known.
    """

    bucket_ms: int
    units: Mapping[int, Decimal]
    largest: tuple[Any, Decimal] | None = None


Reads: TypeAlias = Mapping[tuple[str, str | None], ReadSeries]
"""The series by the names of the table and the index; None for the table itself."""

ReadSource: TypeAlias = Callable[[int, int | None], Reads]
"""Returns the reads from a time on, and before another one if that is given, in milliseconds since 1970."""


def read_source(session: Session, source: str, table: str | None) -> ReadSource:
    """Return the source that --reads names, of one table or of all. A file has its own times.

    Raises:
        CommandError: The file has another form, or there is no running server.
    """
    if source != SERVER:
        reads = read_series(Path(source))
        return lambda *_: reads
    if session.server is None:
        raise CommandError(
            f"--reads {SERVER}: no server serves {session.settings.db}: start it, give its address with --db, or give "
            "a file of reads",
            ExitCode.UNREACHABLE,
        )
    return partial(_reads_of_server, session, table)


def reads_text(source: str | None) -> str:
    """Return the part of a footer about the reads of --reads."""
    if source is None:
        return "reads are not counted"
    return f"reads are estimated from {estimated_from(source)}"


def estimated_from(source: str) -> str:
    """Return the kind of the source that --reads names."""
    return "samples of the server" if source == SERVER else "a file"


def read_series(path: Path) -> Reads:
    """Read a file.

    Raises:
        CommandError: The file has another form.
    """
    try:
        found = json.loads(path.read_text("utf-8", errors="replace"), parse_float=Decimal)
        bucket_ms = int(found["BucketMs"])
        reads = {
            (str(part["TableName"]), part.get("IndexName")): ReadSeries(bucket_ms, _units(part["Reads"]))
            for part in found["Parts"]
        }
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError) as error:
        raise CommandError(
            f"{path} has no reads of tables: it is JSON with BucketMs and Parts", ExitCode.USAGE
        ) from error
    if bucket_ms < 1000:
        raise CommandError(f"{path}: BucketMs is less than 1000", ExitCode.USAGE)
    return reads


def _units(reads: Mapping[str, Any]) -> dict[int, Decimal]:
    each = {int(bucket["Time"]): sum(map(Decimal, bucket["Rows"]), Decimal()) for bucket in reads["Buckets"]}
    return dict(sorted(each.items()))


def _reads_of_server(session: Session, table: str | None, begin_ms: int, end_ms: int | None) -> Reads:
    """Return the consumed read units by minute, and the keys of the tables whose heat the server measures.

    A minute without reads has no units in the metrics. Here it has 0, from the first minute with reads to the last.
    """
    body: dict[str, Any] = {"MetricName": _METRIC, "StartTime": begin_ms}
    body |= {} if table is None else {"TableName": table}
    body |= {} if end_ms is None else {"EndTime": end_ms}
    found = session.client.admin("Metrics", body)["Metrics"]
    series = {
        (each["Dimensions"]["TableName"], each["Dimensions"].get("GlobalSecondaryIndexName")): {
            point["Timestamp"]: Decimal(point["Sum"]) for point in each["Datapoints"]
        }
        for each in found
    }
    times = [time for units in series.values() for time in units]
    minutes = range(min(times), max(times) + 1, _MINUTE_MS) if times else ()
    return {
        names: ReadSeries(
            _MINUTE_MS, {time: units.get(time, Decimal()) for time in minutes}, _largest(session, *names)
        )
        for names, units in series.items()
    }


def _largest(session: Session, table: str, index: str | None) -> tuple[Any, Decimal] | None:
    """Return the partition key with the most reads in the server's sketch.

    None if the table is not measured, or was deleted: its metrics are kept for a day.
    """
    try:
        heat = read_heat(session, TableName=table, Limit=1)
    except RequestFailedError as error:
        if error.name not in ("ValidationException", "ResourceNotFoundException"):
            raise
        return None
    layers = [part.layers["Reads"] for part in heat.parts if part.index == index]
    keys = [(key, layer.share(count)) for layer in layers for key, count, _ in layer.keys]
    return keys[0] if keys else None
