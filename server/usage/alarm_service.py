"""The alarms of the database: their table, their triggers, and their evaluation once a minute.

    minute has ended ──► metrics of all nodes ──► state of each alarm ──► changed? ──► UpdateItem of its item
                                                                                           └──► trigger ──► sink

The owner of the catalog evaluates. An update has the condition that the item still has the state that it was read with:
so two owners, or a repeated evaluation, change it once, and the trigger calls its sink once for each change.
"""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

import orjson

from ...log.commands import Context, DefineTable, Delete, Expression, Put, Update, new_context
from ...materializer.partition import ScanRequest
from ...model.durations import time_text
from ...model.errors import (
    ConditionalCheckFailedError,
    RequestError,
    ResourceInUseError,
    ResourceNotFoundError,
    ServiceUnavailableError,
    ValidationError,
)
from ...model.key_schema import KeyAttribute
from ...model.subscriptions import Subscription
from ...model.values import Item, dump, item_size
from ..database import Database
from ..subscriptions.async_partition import AsyncPartition
from .alarms import KEY, STATES, TABLE, Alarm, to_json
from .minutes import MINUTE_MS, Minute

logger = logging.getLogger(__name__)

MetricsBetween = Callable[[int, int], Awaitable[list[Minute]]]

# Nodes close a minute when their clocks reach its end; the clocks of nodes agree within seconds.
_DELAY_MS: Final = 2_000
_POLL_S: Final = 1.0
# Minutes that could not be evaluated, such as while a node was unreachable, are evaluated up to this much later.
_CATCH_UP_MS: Final = 60 * MINUTE_MS
_WAITS: Final = 250
_WAIT_S: Final = 0.02
_DEFINITION: Final = {
    "KeySchema": [{"AttributeName": KEY, "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": KEY, "AttributeType": "S"}],
    "BillingMode": "PAY_PER_REQUEST",
}
_ATTRIBUTES: Final = (KeyAttribute(KEY, "S"),)
_CONTEXT: Final = new_context("alarm", source="trigger")
_ABSENT: Final = Expression(condition="attribute_not_exists(AlarmName)")


class Triggers(Protocol):
    """The methods of SubscriptionService that alarms use."""

    async def create(self, name: str, settings: Mapping[str, Any], context: Context) -> dict[str, Any]: ...

    async def remove(self, name: str, context: Context) -> dict[str, Any]: ...

    def shown_sink(self, subscription: Subscription, *, to_reader: bool) -> dict[str, Any]: ...


class AlarmService:
    """The alarms.

    Args:
        database: Has the table of alarms.
        triggers: Returns the service of the triggers of alarms.
        metrics: Returns the minutes of all nodes from a time and before another one.
        leads: Returns whether this node evaluates alarms.
    """

    def __init__(
        self,
        database: Database,
        triggers: Callable[[], Triggers],
        metrics: MetricsBetween,
        leads: Callable[[], bool],
    ) -> None:
        self._database = database
        self._triggers = triggers
        self._metrics = metrics
        self._leads = leads
        # The end of the last evaluated minute. A node has no metrics of the minutes before its start.
        self._evaluated_ms = database.clock() // MINUTE_MS * MINUTE_MS
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Evaluate alarms from now on."""
        self._task = self._database.loop.create_task(self._poll())

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def put(self, body: Mapping[str, Any], context: Context) -> dict[str, Any]:
        """Create an alarm with its trigger. `body` has the members of the alarm, `States` and `Subscription`.

        Raises:
            ValidationError: A member is invalid, or the table of alarms is a table of something else.
            ResourceInUseError: The alarm exists, or a trigger of other tables has the name of the alarm's trigger.
            ResourceNotFoundError: The alarm's table does not exist.
        """
        alarm = Alarm.of_request(dict(body))
        states, settings = body.get("States", ["ALARM"]), body.get("Subscription")
        if not isinstance(states, list) or not states or any(each not in STATES for each in states):
            raise ValidationError(f"States is a list of {', '.join(STATES)}")
        if not isinstance(settings, dict):
            raise ValidationError("Subscription has the settings of a subscription, with its Sink")
        if alarm.table:
            self._database.table_in_any_status(alarm.table)
        await self._create_table(context)
        await self._wait_until_active()
        if await self._item(alarm.name) is not None:
            raise ResourceInUseError(f"Alarm already exists: {alarm.name}")
        item = alarm.to_item() | _state("INSUFFICIENT_DATA", "not evaluated yet", self._database.clock())
        name = trigger_name(alarm.name)
        if self._has_trigger(alarm.name):  # the item was removed, or a request ended before it
            await self._triggers().remove(name, context)
        chosen = settings | {
            "TableNames": [TABLE],
            "Start": {"At": "NOW"},
            "Filter": _filter(alarm.name, states),
        }
        await self._triggers().create(name, chosen, context)
        pk, size = alarm.name.encode(), item_size(item, self._database.state.limits)
        command = Put(self._id, pk, b"", dump(item), size, context, _ABSENT)
        await self._submit(command, size)
        return self._described(item, to_reader=False)

    async def describe(self, name: str | None = None, *, to_reader: bool) -> list[dict[str, Any]]:
        """Return all alarms by name, or one; with `to_reader` as for a key that does not administer triggers.

        Raises:
            ResourceNotFoundError: No alarm has the name.
        """
        items = {alarm.name: item for item, alarm in await self._alarms()}
        if name is not None and name not in items:
            raise _not_found(name)
        return [
            self._described(items[each], to_reader=to_reader)
            for each in sorted(items)
            if name in (None, each)
        ]

    async def remove(self, name: str, context: Context) -> None:
        """Remove an alarm and its trigger.

        Raises:
            ResourceNotFoundError: No alarm has the name.
        """
        is_kept = await self._item(name) is not None  # an item that was edited may be no alarm
        if not is_kept and not self._has_trigger(name):
            raise _not_found(name)
        if is_kept:
            await self._submit(Delete(self._id, name.encode(), b"", context), len(name))
        if self._has_trigger(name):
            await self._triggers().remove(trigger_name(name), context)

    async def evaluate(self, now_ms: int) -> None:
        """Evaluate all alarms for each minute that has ended since the last evaluation.

        Raises:
            RequestError: A node or a partition did not answer; the next call evaluates the minute.
        """
        end_ms = (now_ms - _DELAY_MS) // MINUTE_MS * MINUTE_MS
        last_ms = end_ms - (_CATCH_UP_MS if self._leads() else MINUTE_MS)
        self._evaluated_ms = max(self._evaluated_ms, last_ms)
        while self._leads() and self._evaluated_ms < end_ms:
            await self._evaluate_minute(self._evaluated_ms + MINUTE_MS)
            self._evaluated_ms += MINUTE_MS

    async def _evaluate_minute(self, end_ms: int) -> None:
        alarms = await self._alarms()
        if alarms:
            begin_ms = min(alarm.begin_ms(end_ms) for _, alarm in alarms)
            minutes = await self._metrics(begin_ms, end_ms)
            for item, alarm in alarms:
                await self._set_state(item, alarm, minutes, end_ms)

    async def _set_state(self, item: Item, alarm: Alarm, minutes: list[Minute], end_ms: int) -> None:
        before = item["StateValue"]["S"]
        state, reason = alarm.state(alarm.values(minutes, end_ms), before)
        if state == before:
            return
        values = {f":{name}": value for name, value in _state(state, reason, self._database.clock()).items()}
        expression = Expression(
            condition="StateValue = :before",
            update="SET " + ", ".join(f"{value[1:]} = {value}" for value in values),
            values=values | {":before": {"S": before}},
        )
        try:
            await self._submit(Update(self._id, alarm.name.encode(), b"", _CONTEXT, expression), len(reason))
        except ConditionalCheckFailedError:
            return  # another owner changed the state, or the alarm was removed
        logger.info("alarm %s: %s, %s", alarm.name, state, reason)

    async def _poll(self) -> None:
        while True:
            try:
                await self.evaluate(self._database.clock())
            except RequestError as error:
                logger.warning("cannot evaluate the alarms: %s; they are evaluated again in a second", error)
            except Exception:
                logger.exception("failed to evaluate the alarms; they are evaluated again in a second")
            await asyncio.sleep(_POLL_S)

    async def _create_table(self, context: Context) -> None:
        database = self._database
        if database.state.table_named(TABLE) is not None:
            if not self._exists:
                raise ValidationError(f"{TABLE} is a table of something else: its key must be {KEY}, a text")
            return
        request = orjson.dumps({"TableName": TABLE, **_DEFINITION}, option=orjson.OPT_SORT_KEYS)
        drawn = str(uuid.UUID(bytes=database.random_bytes(16), version=4))
        await self._submit(DefineTable("CreateTable", 0, request, drawn, context, False), len(request))

    async def _wait_until_active(self) -> None:
        """Wait until this node can write to the table: with several nodes its catalog may be behind the log.

        Raises:
            ServiceUnavailableError: The table is not active after some seconds.
        """
        for _ in range(_WAITS):
            table = self._database.state.table_named(TABLE)
            if table is not None and table.definition.status == "ACTIVE":
                return
            await asyncio.sleep(_WAIT_S)
        raise ServiceUnavailableError(f"The table {TABLE} is not active yet: repeat the request")

    @property
    def _exists(self) -> bool:
        table = self._database.state.table_named(TABLE)
        return table is not None and table.definition.key.attributes == _ATTRIBUTES

    @property
    def _id(self) -> int:
        return self._database.state.usable_table(TABLE).definition.id

    async def _items(self) -> list[Item]:
        if not self._exists:
            return []
        found: list[Item] = []
        start = None
        while True:
            request = ScanRequest(self._id, None, start=start, consistent=True)
            page = await AsyncPartition(self._database.partition).page(request)
            found += map(orjson.loads, page.items)
            if page.last is None:
                return found
            start = orjson.loads(page.last)[KEY]["S"].encode(), b""

    async def _alarms(self) -> list[tuple[Item, Alarm]]:
        """Return the items that are alarms. Any client with the right to the table may have written others."""
        found = []
        for item in await self._items():
            try:
                alarm = Alarm.of_item(item)
                if item.get("StateValue", {}).get("S") not in STATES:
                    raise ValidationError("it has no StateValue")
            except ValidationError as error:
                logger.warning("%s in the table %s is no alarm: %s", item[KEY]["S"], TABLE, error)
            else:
                found.append((item, alarm))
        return found

    async def _item(self, name: str) -> Item | None:
        return next((item for item in await self._items() if item[KEY]["S"] == name), None)

    def _has_trigger(self, name: str) -> bool:
        """Return whether an alarm has a trigger. A trigger of other tables may have its name."""
        subscription = self._database.state.subscriptions.get(trigger_name(name))
        return subscription is not None and [table for table, _ in subscription.tables] == [TABLE]

    async def _submit(self, command: Put | Update | Delete | DefineTable, size: int) -> None:
        await AsyncPartition(self._database.partition).submit(command, size)

    def _described(self, item: Item, *, to_reader: bool) -> dict[str, Any]:
        name = trigger_name(item[KEY]["S"])
        subscription = self._database.state.subscriptions.get(name)
        sink = (
            None if subscription is None else self._triggers().shown_sink(subscription, to_reader=to_reader)
        )
        return to_json(item) | {"Trigger": name, "Sink": sink}


def trigger_name(alarm: str) -> str:
    """Return the name of the trigger of an alarm."""
    return f"alarm-{alarm}"


def _not_found(name: str) -> ResourceNotFoundError:
    return ResourceNotFoundError(f"Requested resource not found: Alarm: {name} not found")


def _filter(name: str, states: list[str]) -> dict[str, Any]:
    """Return the filter of the changes to one of these states."""
    values = {f":state{nth}": {"S": state} for nth, state in enumerate(states)}
    return {
        "Expression": "NEW.AlarmName = :name AND NEW.StateValue <> OLD.StateValue AND "
        f"NEW.StateValue IN ({', '.join(values)})",
        "ExpressionAttributeValues": {":name": {"S": name}, **values},
    }


def _state(state: str, reason: str, now_ms: int) -> Item:
    return {
        "StateValue": {"S": state},
        "StateReason": {"S": reason},
        "StateUpdated": {"S": time_text(now_ms)},
    }
