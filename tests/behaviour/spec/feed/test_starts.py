"""The start of a subscription: now, horizon, beginning, a position, a time, or a snapshot."""

import itertools
import threading
from datetime import datetime
from typing import Any

import pytest

from tests.behaviour.spec.feed.database import Database
from tests.support.subscribed import until

COPY = """
def handle(change):
    item = change.new or change.old
    note(change.op, change.keys["pk"], int(item["version"]), change.new is None)
"""
KEYS = "def handle(change): note(change.keys['pk'], change.op)"


def delivered(database: Database, table: Any, **start: Any) -> list[str]:
    """Return all keys that a new subscription delivers."""
    function = database.function(KEYS)
    name = database.subscribe(table, function.sink, Start=start)
    database.settle()
    database.operate("RemoveSubscription", Name=name)
    return [pk for pk, _ in function.notes()]


@pytest.mark.spec("F8")
def test_a_subscription_starts_at_its_start(database: Database, table: Any) -> None:
    for n in range(6):
        table.put_item(Item={"pk": f"{n}"})
    changes = database.changes(table, 6)
    third = changes[2]["number"]

    assert ["0", "1", "2", "3", "4", "5"] == delivered(database, table, At="HORIZON")
    assert ["0", "1", "2", "3", "4", "5"] == delivered(database, table, At="BEGINNING")
    assert ["3", "4", "5"] == delivered(database, table, At="NUMBERS", Numbers={"0": third})
    assert [] == delivered(database, table, At="NOW")
    assert ["0", "1", "2", "3", "4", "5"] == delivered(database, table, At="TIME", Time=1_700_000_000_000)


@pytest.mark.spec("F8")
def test_a_start_by_time_excludes_earlier_changes(database: Database, table: Any) -> None:
    table.put_item(Item={"pk": "early"})
    numbers = itertools.count()

    def later() -> Any:
        table.put_item(Item={"pk": f"{next(numbers)}"})
        changes = database.changes(table, 2)
        return changes if changes[-1]["time"] > changes[0]["time"] else None

    changes = until(later)
    moment = milliseconds(changes[-1]["time"])
    expected = [each["keys"]["pk"]["S"] for each in changes if milliseconds(each["time"]) >= moment]

    assert expected == delivered(database, table, At="TIME", Time=moment)


def milliseconds(time: str) -> int:
    return round(datetime.fromisoformat(time).timestamp() * 1000)


@pytest.mark.guarantee("G41")
@pytest.mark.spec("F8")
def test_history_starts_before_the_first_trigger(database: Database) -> None:
    """The table has no stream: the feed has none of its changes, the log has all."""
    table = database.table(view=None)
    for n in range(5):
        table.put_item(Item={"pk": f"{n}"})
    table.delete_item(Key={"pk": "3"})

    assert ["0", "1", "2", "3", "4", "3"] == delivered(database, table, At="BEGINNING")


@pytest.mark.guarantee("G41")
@pytest.mark.spec("F8")
def test_changes_after_the_creation_are_delivered(database: Database) -> None:
    """This includes the first write after the answer."""
    for n in range(5):
        table = database.table(view=None)
        table.put_item(Item={"pk": "before"})
        function = database.function(KEYS)
        name = database.subscribe(table, function.sink)
        table.put_item(Item={"pk": f"after {n}"})
        assert [[f"after {n}", "INSERT"]] == function.wait(1)
        database.operate("RemoveSubscription", Name=name)


@pytest.mark.guarantee("G41")
@pytest.mark.spec("F9")
def test_a_snapshot_start_has_no_gap_and_no_duplicate(either: Database) -> None:
    """A copy made from the deliveries equals the table at the end, despite concurrent writes."""
    table = either.table(view=None)
    for n in range(100):
        table.put_item(Item={"pk": f"{n}", "version": 0})
    function = either.function(COPY)
    stop = threading.Event()

    def write() -> None:
        for version in itertools.count(1):
            if stop.is_set():
                return
            if version % 7 == 3:
                table.delete_item(Key={"pk": f"{version % 100}"})
            else:
                table.put_item(Item={"pk": f"{version % 100}", "version": version})

    writer = threading.Thread(target=write)
    writer.start()
    try:
        either.subscribe(table, function.sink, Start={"At": "SNAPSHOT"}, ParallelizationFactor=2)
        until(lambda: any(op != "READ" for op, *_ in function.notes()))
    finally:
        stop.set()
        writer.join()
    either.settle()
    items = {item["pk"]: int(item["version"]) for item in table.scan(ConsistentRead=True)["Items"]}

    copy: dict[str, int] = {}
    for op, pk, version, is_gone in function.notes():
        assert op in ("READ", "INSERT", "MODIFY", "REMOVE")
        if op in ("READ", "INSERT"):
            assert pk not in copy, f"{op} of {pk}, which was there"
        else:
            assert pk in copy, f"{op} of {pk}, which was not"
        if is_gone:
            assert copy.pop(pk) == version
        else:
            assert copy.get(pk, -1) < version
            copy[pk] = version
    assert items == copy


@pytest.mark.spec("F6")
def test_subscriptions_of_a_table_are_independent(database: Database, table: Any) -> None:
    """Two subscriptions of one table: each gets every change, independent of the other."""
    slow, quick = database.function(KEYS), database.function(KEYS)
    names = [database.subscribe(table, function.sink) for function in (slow, quick)]
    database.operate("PauseSubscription", Name=names[0])
    for n in range(20):
        table.put_item(Item={"pk": f"{n}"})
    expected = [[f"{n}", "INSERT"] for n in range(20)]
    assert expected == quick.wait(20)
    assert [] == slow.notes()
    database.operate("ResumeSubscription", Name=names[0])

    assert expected == slow.wait(20)
    database.settle()
    assert expected == quick.notes()
