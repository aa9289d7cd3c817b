"""`foldb metrics`: print CloudWatch's metrics of tables, indexes and operations."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from ..lib.durations import now, read_duration
from ..lib.output import Row, time_text
from ..lib.session import Session

_COLUMNS = ("metric", "table", "index", "operation")
_STATISTICS = {
    "sum": "Sum",
    "samples": "SampleCount",
    "average": "Average",
    "minimum": "Minimum",
    "maximum": "Maximum",
}


def metrics(
    session: Session,
    table: Annotated[
        str | None, typer.Argument(metavar="[TABLE]", show_default="all tables", help="The table.")
    ] = None,
    metric: Annotated[
        str | None, typer.Option("--metric", metavar="NAME", help="Print this metric alone, by period.")
    ] = None,
    since: Annotated[
        int, typer.Option(metavar="TIME", parser=read_duration, help="Print the last minutes or hours.")
    ] = 3_600_000,
    period: Annotated[
        int, typer.Option(metavar="TIME", parser=read_duration, help="The length of a period with --metric.")
    ] = 60_000,
) -> None:
    """A server keeps the minutes of the last day, in memory. With several nodes they are those of all nodes.

    Example: foldb metrics Music --metric ConsumedReadCapacityUnits --since 10m
    """
    body: dict[str, Any] = {"StartTime": max(0, now() - since)}
    if metric is not None:
        body |= {"MetricName": metric, "Period": period // 1000}
    if table is not None:
        body["TableName"] = table
    answer = session.client.admin("Metrics", body)
    session.output.rows(_rows(answer["Metrics"], has_time=metric is not None), first=_COLUMNS)


def _rows(found: list[dict[str, Any]], *, has_time: bool) -> Iterator[Row]:
    for each in found:
        dimensions = each["Dimensions"]
        for point in each["Datapoints"] if has_time else [_joined(each["Datapoints"])]:
            row = {
                "metric": each["MetricName"],
                "table": dimensions.get("TableName"),
                "index": dimensions.get("GlobalSecondaryIndexName"),
                "operation": dimensions.get("Operation"),
                "time": time_text(point["Timestamp"]) if has_time else None,
                **{name: round(point[member], 3) for name, member in _STATISTICS.items()},
            }
            yield {name: value for name, value in row.items() if value is not None}


def _joined(points: list[Row]) -> Row:
    """Return the statistics over all periods."""
    total, samples = (sum(each[name] for each in points) for name in ("Sum", "SampleCount"))
    return {
        "Timestamp": points[0]["Timestamp"],
        "Sum": total,
        "SampleCount": samples,
        "Average": total / samples,
        "Minimum": min(each["Minimum"] for each in points),
        "Maximum": max(each["Maximum"] for each in points),
    }
