"""Alarms on a virtual clock: their states, their changes, and where they are kept."""

import asyncio
import random
from collections.abc import Coroutine
from copy import copy
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, cast

import pytest

from foldb.model.errors import ServiceUnavailableError, ValidationError
from foldb.server.api.admin.alarms import describe_alarms
from foldb.server.auth.rights import Rights
from foldb.server.usage.alarm_service import AlarmService
from foldb.server.usage.alarms import COMPARISONS, MISSING, Alarm
from foldb.server.usage.minutes import MINUTE_MS, Minute, Series
from foldb.server.usage.usage import Statistics
from tests.unit.server.usage.test_counts import create
from tests.verification.fuzz.inside import Inside

SINK = {"Kind": "webhook", "Url": "https://example.org/alarms"}
ADMIN = "Foldb_20261121."
BASE: dict[str, Any] = {
    "AlarmName": "busy",
    "TableName": "Cars",
    "MetricName": "ConsumedWriteCapacityUnits",
    "Threshold": 3,
}


def alarm(**members: Any) -> Alarm:
    return Alarm.of_request(BASE | members)


def expected(values: list[Decimal | None], alarm: Alarm, before: str) -> str:
    """The state by the rules of the document, written independently of the product."""
    marks = []
    for value in values:
        if value is None:
            marks.append(
                {"missing": "?", "notBreaching": "-", "breaching": "+", "ignore": "?"}[alarm.missing]
            )
        else:
            beyond = {
                "GreaterThanThreshold": value > alarm.threshold,
                "GreaterThanOrEqualToThreshold": value >= alarm.threshold,
                "LessThanThreshold": value < alarm.threshold,
                "LessThanOrEqualToThreshold": value <= alarm.threshold,
            }[alarm.comparison]
            marks.append("+" if beyond else "-")
    if marks.count("+") >= alarm.datapoints:
        return "ALARM"
    if alarm.missing == "ignore" and "?" in marks:
        return before
    return "INSUFFICIENT_DATA" if set(marks) == {"?"} else "OK"


@pytest.mark.parametrize("seed", range(20))
def test_states_follow_the_rules_of_missing_periods(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(200):
        periods = draw.randrange(1, 5)
        one = alarm(
            EvaluationPeriods=periods,
            DatapointsToAlarm=draw.randrange(1, periods + 1),
            ComparisonOperator=draw.choice(list(COMPARISONS)),
            TreatMissingData=draw.choice(MISSING),
        )
        values = [draw.choice((None, Decimal(2), Decimal(3), Decimal(4))) for _ in range(periods)]
        before = draw.choice(("OK", "ALARM", "INSUFFICIENT_DATA"))

        assert expected(values, one, before) == one.state(values, before)[0], (one, values)


def test_a_window_ends_with_the_last_complete_period() -> None:
    series = Series("ConsumedWriteCapacityUnits", "Cars")
    minutes = [Minute(each * MINUTE_MS, {series: Statistics(2 * each, 1, 0, 2 * each)}) for each in range(12)]
    two = alarm(Period=120, EvaluationPeriods=2)

    # At 9:59 the periods 4 to 5 and 6 to 7 are complete; at 10:00 that of 8 to 9 is, too.
    assert [Decimal(9), Decimal(13)] == two.values(minutes, 10 * MINUTE_MS - 1)
    assert [Decimal(13), Decimal(17)] == two.values(minutes, 10 * MINUTE_MS)


def test_an_alarm_selects_its_dimensions() -> None:
    one = Statistics(2, 1, 2, 2)
    names = [("Cars", ""), ("Cars", "Global"), ("Vans", ""), ("Vans", "Global")]
    minute = Minute(0, {Series("ConsumedWriteCapacityUnits", *each): one for each in names})
    read = Minute(0, {Series("ConsumedReadCapacityUnits", "Cars"): one})

    def value(**members: Any) -> Decimal | None:
        return alarm(**members).values([minute, read], MINUTE_MS)[0]

    assert value() == 1
    assert value(GlobalSecondaryIndexName="Global") == 1
    assert value(TableName="Vans") == 1
    assert value(TableName="") == 4
    assert value(TableName="None") is None


@pytest.mark.parametrize(
    "members",
    [
        {"AlarmName": "a b"},
        {"MetricName": "Nothing"},
        {"Statistic": "p99"},
        {"Threshold": None},
        {"Threshold": "NaN"},
        {"Threshold": True},
        {"Threshold": [1]},
        {"Threshold": "1e999999"},
        {"Threshold": "1" * 39},
        {"Period": 90},
        {"Period": 3600, "EvaluationPeriods": 25},
        {"DatapointsToAlarm": 2},
        {"ComparisonOperator": ">"},
        {"TreatMissingData": "no"},
        {"TableName": "", "GlobalSecondaryIndexName": "Global"},
        {"EvaluationPeriods": True},
    ],
)
def test_an_invalid_alarm_is_refused(members: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        alarm(**members)


def test_an_alarm_is_the_same_as_an_item() -> None:
    one = alarm(Threshold=0.125, EvaluationPeriods=3, DatapointsToAlarm=2, Period=300, Operation="PutItem")

    assert one == Alarm.of_item(one.to_item())


# Stored alarms


@pytest.fixture
def inside() -> Inside:
    inside = Inside()
    create(inside, "Cars")
    return inside


def put_alarm(inside: Inside, **members: Any) -> tuple[int, Any]:
    return inside.ask(f"{ADMIN}PutAlarm", {**BASE, "Subscription": {"Sink": SINK}, **members})


def state(inside: Inside) -> str:
    _, body = inside.ask(f"{ADMIN}DescribeAlarms", {})
    return str(body["Alarms"][0]["StateValue"])


def write(inside: Inside, times: int) -> None:
    for number in range(times):
        inside.ask("PutItem", {"TableName": "Cars", "Item": {"p": {"S": str(number)}, "s": {"S": "a"}}})


def pass_minute(inside: Inside) -> None:
    """Let the minute end, on the clock, for the counters, and for the alarms."""
    end_ms = (inside.loop.clock() // MINUTE_MS + 1) * MINUTE_MS
    inside.loop.advance((end_ms - inside.loop.clock()) / 1000 + 2)
    inside.node.metrics.tick(inside.loop.clock())
    evaluate(inside)


def evaluate(inside: Inside) -> None:
    run(inside, inside.node.alarms.evaluate(inside.loop.clock()))


def run(inside: Inside, work: Coroutine[Any, Any, Any]) -> Any:
    asyncio._set_running_loop(inside.loop)  # type: ignore[arg-type]
    try:
        task = inside.loop.create_task(work)
        inside.loop.settle()
        return task.result()
    finally:
        asyncio._set_running_loop(None)


def transitions(inside: Inside) -> list[str]:
    """Return the states that were written to the item, in order."""
    _, body = inside.ask(f"{ADMIN}Changes", {"TableNames": ["foldb-alarms"], "Start": {"At": "HORIZON"}})
    new = [change["new"] for change in body["Changes"]]
    return [each["StateValue"]["S"] for each in new if each["AlarmName"]["S"] == "busy"]


@pytest.mark.spec("S71", served=False)
def test_an_alarm_goes_through_cloudwatchs_states(inside: Inside) -> None:
    assert put_alarm(inside)[0] == 200
    assert state(inside) == "INSUFFICIENT_DATA"

    for writes in (3, 5, 1, 0):
        write(inside, writes)
        pass_minute(inside)
        pass_minute(inside) if writes == 5 else None

    assert ["INSUFFICIENT_DATA", "ALARM", "INSUFFICIENT_DATA", "OK", "INSUFFICIENT_DATA"] == transitions(
        inside
    )


def test_a_state_that_stays_is_written_once(inside: Inside) -> None:
    put_alarm(inside)
    for _ in range(3):
        write(inside, 4)
        pass_minute(inside)
        evaluate(inside)

    assert ["INSUFFICIENT_DATA", "ALARM"] == transitions(inside)


def test_a_minute_is_evaluated_once_by_two_owners(inside: Inside) -> None:
    put_alarm(inside)
    write(inside, 4)
    late = copy(inside.node)
    late.clock = lambda: inside.loop.clock() + 1
    other = AlarmService(late, lambda: inside.node.triggers, inside.node.alarms._metrics, lambda: True)
    end_ms = (inside.loop.clock() // MINUTE_MS + 1) * MINUTE_MS
    inside.loop.advance((end_ms - inside.loop.clock()) / 1000 + 2)
    inside.node.metrics.tick(inside.loop.clock())
    asyncio._set_running_loop(inside.loop)  # type: ignore[arg-type]
    try:
        for service in (inside.node.alarms, other):
            inside.loop.create_task(service.evaluate(inside.loop.clock()))
        inside.loop.settle()
    finally:
        asyncio._set_running_loop(None)

    assert ["INSUFFICIENT_DATA", "ALARM"] == transitions(inside)


def test_a_removed_alarm_leaves_neither_item_nor_trigger(inside: Inside) -> None:
    put_alarm(inside)
    assert list(inside.node.state.subscriptions) == ["alarm-busy"]

    assert inside.ask(f"{ADMIN}DeleteAlarm", {"AlarmName": "busy"})[0] == 200

    assert inside.ask(f"{ADMIN}DescribeAlarms", {})[1] == {"Alarms": []}
    assert not inside.node.state.subscriptions
    assert put_alarm(inside)[0] == 200


def test_alarms_that_cannot_be_made_are_refused(inside: Inside) -> None:
    put_alarm(inside)

    for members, word in (
        ({}, "already exists"),
        ({"AlarmName": "other", "TableName": "Missing"}, "Missing not found"),
        ({"AlarmName": "other", "States": ["RED"]}, "States is a list"),
        ({"AlarmName": "other", "Subscription": {}}, "Sink"),
    ):
        status, body = put_alarm(inside, **members)
        assert status == 400
        assert word in body["message"]
    assert inside.ask(f"{ADMIN}DeleteAlarm", {"AlarmName": "other"})[0] == 400


def test_an_item_that_is_no_alarm_stops_no_other(inside: Inside) -> None:
    put_alarm(inside)
    inside.ask("PutItem", {"TableName": "foldb-alarms", "Item": {"AlarmName": {"S": "broken"}}})
    write(inside, 4)
    pass_minute(inside)

    assert transitions(inside)[-1] == "ALARM"


def test_a_large_threshold_stops_no_other_alarm(inside: Inside) -> None:
    assert put_alarm(inside, AlarmName="ample", Threshold=1e30)[0] == 200
    put_alarm(inside)
    number = {"N": "1" + "0" * 120}
    broken = {"AlarmName": {"S": "broken"}, "MetricName": {"S": "UserErrors"}, "StateValue": {"S": "OK"}}
    item = broken | {"Threshold": number, "Note": number}
    assert inside.ask("PutItem", {"TableName": "foldb-alarms", "Item": item})[0] == 200
    write(inside, 4)
    pass_minute(inside)

    assert transitions(inside)[-1] == "ALARM"
    status, body = inside.ask(f"{ADMIN}DescribeAlarms", {})
    assert 200 == status
    assert [1e30, 1e120, 3] == [each["Threshold"] for each in body["Alarms"]]


def test_an_alarm_that_is_put_again_has_its_new_target(inside: Inside) -> None:
    put_alarm(inside)
    key = {"AlarmName": {"S": "busy"}}
    inside.ask("DeleteItem", {"TableName": "foldb-alarms", "Key": key})
    sink = SINK | {"Url": "https://example.org/other"}

    status, body = put_alarm(inside, Subscription={"Sink": sink})

    assert (200, sink) == (status, body["Sink"])


def test_an_edited_alarm_is_removed_with_its_trigger(inside: Inside) -> None:
    put_alarm(inside)
    inside.ask("PutItem", {"TableName": "foldb-alarms", "Item": {"AlarmName": {"S": "busy"}}})

    assert inside.ask(f"{ADMIN}DeleteAlarm", {"AlarmName": "busy"})[0] == 200

    assert not inside.node.state.subscriptions
    assert inside.ask(f"{ADMIN}DeleteAlarm", {"AlarmName": "busy"})[0] == 400


def test_an_alarm_keeps_a_trigger_of_other_tables(inside: Inside) -> None:
    trigger = {"Name": "alarm-busy", "TableNames": ["Cars"], "Sink": SINK, "Start": {"At": "NOW"}}
    inside.ask(f"{ADMIN}CreateSubscription", trigger)

    status, body = put_alarm(inside)

    assert status == 400
    assert "alarm-busy" in body["message"]
    assert inside.ask(f"{ADMIN}DeleteAlarm", {"AlarmName": "busy"})[0] == 400
    assert list(inside.node.state.subscriptions) == ["alarm-busy"]


def test_an_alarm_finds_its_table_by_an_arn(inside: Inside) -> None:
    put_alarm(inside, TableName="arn:aws:dynamodb:us-east-1:000000000000:table/Cars")
    write(inside, 4)
    pass_minute(inside)

    assert state(inside) == "ALARM"


@pytest.mark.parametrize(
    ("rights", "url"),
    [
        (Rights(read=["*"]), "https://example.org/..."),
        (Rights(admin=["*"]), "https://example.org/hook?key=a"),
    ],
)
def test_a_reader_sees_no_secret_of_the_target(inside: Inside, rights: Rights, url: str) -> None:
    sink = SINK | {"Url": "https://example.org/hook?key=a", "Headers": {"Authorization": "secret"}}
    _, answer = put_alarm(inside, Subscription={"Sink": sink})
    caller = SimpleNamespace(bearer=SimpleNamespace(rights=rights))

    [described] = run(inside, cast(Any, describe_alarms.handler)(inside.node, {}, caller))["Alarms"]

    assert url == described["Sink"]["Url"]
    assert "secret" not in str((answer, described))


def test_minutes_that_could_not_be_evaluated_are_later(
    inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_alarm(inside)

    async def fail(_begin_ms: int, _end_ms: int) -> list[Minute]:
        raise ServiceUnavailableError

    with monkeypatch.context() as unreachable:
        unreachable.setattr(inside.node.alarms, "_metrics", fail)
        for writes in (4, 1):
            write(inside, writes)
            with pytest.raises(ServiceUnavailableError):
                pass_minute(inside)
    evaluate(inside)

    assert ["INSUFFICIENT_DATA", "ALARM", "OK"] == transitions(inside)


def test_a_start_evaluates_no_minute_before_it(inside: Inside) -> None:
    put_alarm(inside, TreatMissingData="breaching")
    inside.loop.advance(3)

    evaluate(inside)

    assert state(inside) == "INSUFFICIENT_DATA"
    pass_minute(inside)
    assert state(inside) == "ALARM"
