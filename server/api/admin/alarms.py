"""Alarms on metrics: their creation, description and removal. server/usage/alarms.py has their members.

PutAlarm        {"AlarmName", "MetricName", "Threshold", ..., "States"?, "Subscription": {"Sink", ...}}  ──►  the alarm
DescribeAlarms  {"AlarmName"?}  ──►  {"Alarms": [...]}
DeleteAlarm     {"AlarmName"}   ──►  {}

An alarm is an item, read from its owner, and a trigger of this node's catalog. So the catalog first has to catch up.
"""

from typing import Any

from ....model.errors import ValidationError
from ...auth.rights import Right
from ...node import Node
from ..operation import admin_operation
from ..reply import Caller
from .subscriptions import is_reader


@admin_operation("PutAlarm", Right.ADMIN)
async def put_alarm(node: Node, body: dict[str, Any], caller: Caller) -> dict[str, Any]:
    """Create an alarm, and the trigger that delivers the changes of its state."""
    await node.caught_up()
    return await node.alarms.put(body, caller.context)


@admin_operation("DescribeAlarms", Right.READ)
async def describe_alarms(node: Node, body: dict[str, Any], caller: Caller) -> dict[str, Any]:
    """Return alarms with their states."""
    name = None if body.get("AlarmName") is None else _name(body)
    await node.caught_up()
    return {"Alarms": await node.alarms.describe(name, to_reader=is_reader(caller))}


@admin_operation("DeleteAlarm", Right.ADMIN)
async def delete_alarm(node: Node, body: dict[str, Any], caller: Caller) -> dict[str, Any]:
    """Remove an alarm and its trigger."""
    await node.caught_up()
    await node.alarms.remove(_name(body), caller.context)
    return {}


def _name(body: dict[str, Any]) -> str:
    name = body.get("AlarmName")
    if not isinstance(name, str):
        raise ValidationError("AlarmName is a text")
    return name
