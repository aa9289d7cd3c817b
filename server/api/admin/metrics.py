"""Metrics: CloudWatch's metrics by minute or longer period, for `foldb metrics` and for programs.

{"TableName"?, "MetricName"?, "StartTime"?, "EndTime"?, "Period"?}    ──►  {"Metrics": [{"MetricName", "Dimensions",
                                                                            "Datapoints"}]}
"""

from typing import Any, Final

from ....model.errors import ValidationError
from ....model.tables import name_of
from ...auth.rights import NODE, Right
from ...node import Node
from ...usage.metrics import METRICS, by_period, to_json
from ..operation import admin_operation
from ..reply import Caller

_HOUR_MS: Final = 3_600_000
_DAY_S: Final = 86_400


@admin_operation("Metrics", Right.READ, resource=NODE)
async def metrics(node: Node, body: dict[str, Any], _: Caller) -> dict[str, Any]:
    """Collect the minutes of all nodes, and join them to periods."""
    now_ms = node.clock()
    end_ms = _integer(body, "EndTime", now_ms + 1)
    begin_ms = _integer(body, "StartTime", now_ms - _HOUR_MS)
    period_s = _integer(body, "Period", 60)
    metric, table = body.get("MetricName"), body.get("TableName")
    if metric is not None and metric not in tuple(METRICS):
        raise ValidationError(f"MetricName is one of {', '.join(METRICS)}")
    if not 60 <= period_s <= _DAY_S or period_s % 60:
        raise ValidationError("Period is a number of seconds, a multiple of 60 of at most 86400")
    if table is not None:
        table = node.table_in_any_status(name_of(str(table))).definition.name
    period_ms = period_s * 1000
    # A period is complete, so the first one begins at or before StartTime.
    minutes = await node.metrics_of_all(begin_ms - begin_ms % period_ms, end_ms)
    found = by_period(minutes, period_ms)
    return {
        "Metrics": [
            to_json(series, found[series])
            for series in sorted(found)
            if metric in (None, series.metric) and table in (None, series.table)
        ]
    }


def _integer(body: dict[str, Any], name: str, default: int) -> int:
    value = body.get(name, default)
    if type(value) is not int or value < 0:
        raise ValidationError(f"{name} is a number: milliseconds since 1970, and for Period seconds")
    return value
