"""Capture periods of a table in one partition: their first and last command."""

import random
from typing import Any

import pytest

from foldb.log.commands import Command, DefineTable, Record
from foldb.materializer.fold import fold
from foldb.materializer.fold.dump import digest, dump
from foldb.materializer.fold.feed import capture as windows_module
from foldb.materializer.fold.feed.capture import CapturePeriod
from foldb.materializer.fold.load import load
from foldb.materializer.fold.outcomes import TableDefined
from foldb.materializer.fold.state import PartitionState, Table
from foldb.model.sequence_numbers import sequence_number
from foldb.model.tables import SHARD_MS
from foldb.model.values import load as load_item
from foldb.streams.changes import changes
from tests.unit.materializer.ledger import START, Ledger, about, define, put, subscribe, table_request

STREAM = {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"}


def stream(table: Table, *, on: bool, **members: Any) -> DefineTable:
    """Return the command that enables or disables a table's stream."""
    definition = table.definition
    specification = STREAM if on else {"StreamEnabled": False}
    request = {"TableName": definition.name, "StreamSpecification": specification, **members}
    return define("UpdateTable", definition.id, request)


def drop(table: Table) -> DefineTable:
    return define("DeleteTable", table.definition.id, {"TableName": table.definition.name})


def write(table: Table, value: int) -> Command:
    return put(table, {"pk": {"S": "a"}, "n": {"N": str(value)}})


def captured(ledger: Ledger) -> list[tuple[str, list[int]]]:
    """Return the values that were written during a capture period, with the labels of their periods."""
    found = []
    state = PartitionState()
    for record in ledger.records:
        for change in changes(fold(state, record)):
            windows = ledger.state.capture_periods(change.table)
            labels = [one.label for one in windows if one.holds(change.sequence_number)]
            if labels and change.new is not None:
                found.append((load_item(change.new)["n"]["N"], labels))
    return found


def test_a_stream_captures_the_writes_between_enabling_and_disabling() -> None:
    """Within one entry too: sequence numbers, not entries, are the bounds of a period."""
    ledger = Ledger()
    table = ledger.create("T")
    ledger.fold(
        write(table, 1), stream(table, on=True), write(table, 2), stream(table, on=False), write(table, 3)
    )

    assert [("2", [START])] == captured(ledger)
    [window] = ledger.state.capture_periods(table.definition.id)
    offset = ledger.records[-1].offset
    assert (sequence_number(offset, 1, 0), sequence_number(offset, 3, 0)) == (window.begun, window.ended)
    assert ("T", "NEW_IMAGE", SHARD_MS, START) == (window.name, window.view, window.shard_ms, window.ended_ms)


def test_a_table_with_a_stream_is_captured_from_its_first_item() -> None:
    ledger = Ledger()
    request = table_request("T", StreamSpecification=STREAM)
    created = ledger.fold(define("CreateTable", 0, {**request, "ShardAgeMs": 5000}))
    assert isinstance(created, TableDefined)
    table = ledger.state.tables[created.definition.id]

    ledger.fold(write(table, 1))

    assert [("1", [START])] == captured(ledger)
    assert [5000] == [window.shard_ms for window in ledger.state.capture_periods(table.definition.id)]


def test_a_deleted_table_leaves_a_readable_capture_period() -> None:
    ledger = Ledger()
    table = ledger.create("T", "pk:S sk:N", StreamSpecification=STREAM)
    ledger.now += 1000
    ledger.fold(drop(table))

    [window] = ledger.state.capture_periods(table.definition.id)

    assert not ledger.state.tables
    assert ("T", START + 1000, table.definition.key) == (window.name, window.ended_ms, window.key)
    assert window.ended == sequence_number(ledger.records[-1].offset, 0, 0)


def test_a_table_that_is_slow_to_go_is_captured_until_it_is_gone() -> None:
    ledger = Ledger()
    table = ledger.create("T", StreamSpecification=STREAM)
    name = {"TableName": "T"}
    ledger.fold(define("DeleteTable", table.definition.id, name, settle=True), write(table, 1))

    assert [("1", [START])] == captured(ledger)


def test_a_subscription_captures_without_a_stream_and_beside_one() -> None:
    ledger = Ledger()
    table = ledger.create("T")
    ledger.fold(subscribe("S", "T"), write(table, 1))
    ledger.fold(stream(table, on=True), write(table, 2))
    ledger.fold(about("S", "Remove"), write(table, 3))
    ledger.fold(stream(table, on=False), write(table, 4))

    assert [("1", [0]), ("2", [0, START]), ("3", [START])] == captured(ledger)


def test_another_setting_of_the_table_leaves_its_window_open() -> None:
    ledger = Ledger()
    table = ledger.create("T", StreamSpecification=STREAM)
    before = list(ledger.state.capture_periods(table.definition.id))
    ttl = {"TimeToLiveSpecification": {"Enabled": True, "AttributeName": "exp"}}

    ledger.fold(define("UpdateTimeToLive", table.definition.id, ttl))

    assert before == ledger.state.capture_periods(table.definition.id)


def test_streams_of_one_table_have_different_labels_at_equal_times() -> None:
    """A stream's ARN is the table's name and the label: a reader of one must not get another's changes."""
    ledger = Ledger()
    table = ledger.create("T", StreamSpecification=STREAM)
    ledger.fold(stream(table, on=False), stream(table, on=True))
    ledger.fold(drop(table))
    ledger.create("T", StreamSpecification=STREAM)
    ledger.create("U", StreamSpecification=STREAM)

    labels = [window.label for each in ledger.state.periods.values() for window in each]

    assert [START, START + 1, START + 2, START] == labels


def test_windows_that_ended_first_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows_module, "ENDED_KEPT", 3)
    ledger = Ledger()
    tables = [ledger.create(name, StreamSpecification=STREAM) for name in ("Kept", "A", "B")]
    for table in (tables[1], tables[2], tables[1], tables[1]):
        ledger.now += 1
        ledger.fold(stream(table, on=False))
        ledger.fold(stream(table, on=True))

    kept = {
        table.definition.name: [
            window.is_open for window in ledger.state.capture_periods(table.definition.id)
        ]
        for table in tables
    }

    assert {"Kept": [True], "A": [False, False, True], "B": [False, True]} == kept


def test_the_state_of_a_database_without_streams_has_nothing_of_them() -> None:
    ledger = Ledger()
    table = ledger.create("T")
    ledger.fold(write(table, 1))

    assert {} == ledger.state.periods
    assert not any(frame[:1] in b"WU" for frame in dump(ledger.state))


# Random histories, against a model that only knows which streams are enabled


class Model:
    """The captures of each table now, by name, and those of each written value."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.ledger = Ledger()
        self.streams: set[str] = set()
        self.subscriptions: dict[str, str] = {}
        self.tables = {name: self.ledger.create(name) for name in ("T", "U")}
        self.expected: dict[int, int] = {}
        self.written = self.made = 0

    def entry(self) -> None:
        """Fold an entry of a few random commands."""
        self.ledger.now += self.dice.choice([0, 0, 1, 1000])
        commands = [self.command() for _ in range(self.dice.randrange(1, 6))]
        self.ledger.fold(*commands)
        for name in ("T", "U"):
            if name not in self.tables:
                self.tables[name] = self.ledger.create(name)

    def command(self) -> Command:
        name = self.dice.choice("TU")
        table = self.tables.get(name)
        match self.dice.randrange(10):
            case 0 if table is not None:
                self.streams ^= {name}
                return stream(table, on=name in self.streams)
            case 1 if name not in self.subscriptions.values() and table is not None:
                self.made += 1
                self.subscriptions[f"S{self.made}"] = name
                return subscribe(f"S{self.made}", name)
            case 2 if self.subscriptions:
                gone = self.dice.choice(sorted(self.subscriptions))
                del self.subscriptions[gone]
                return about(gone, "Remove")
            case 3 if table is not None and self.dice.random() < 0.3:
                self.streams -= {name}
                self.subscriptions = {one: of for one, of in self.subscriptions.items() if of != name}
                del self.tables[name]
                return drop(table)
            case _ if table is not None:
                self.written += 1
                on = (name in self.streams) + (name in self.subscriptions.values())
                self.expected[self.written] = on
                return write(table, self.written)
        return about("nobody", "Pause")


@pytest.mark.parametrize("seed", range(20))
def test_exactly_the_writes_during_a_capture_period_are_captured(seed: int) -> None:
    model = Model(seed)
    for _ in range(80):
        model.entry()

    found = {int(value): len(labels) for value, labels in captured(model.ledger)}

    assert {value: on for value, on in model.expected.items() if on} == found
    assert len(set(model.expected.values())) == 3, "off, one, and both"


@pytest.mark.parametrize("seed", range(10))
def test_windows_survive_a_dump_and_come_back_from_a_refold(seed: int) -> None:
    model = Model(seed)
    for _ in range(40):
        model.entry()
    state = model.ledger.state

    loaded = load([b"".join(dump(state))])
    again = PartitionState()
    for record in model.ledger.records:
        fold(again, record)

    assert _windows(state) == _windows(loaded) == _windows(again)
    assert state.subscriptions == loaded.subscriptions == again.subscriptions
    assert digest(state) == digest(loaded) == digest(again)
    _go_on_alike(model, loaded)


def _windows(state: PartitionState) -> dict[int, list[CapturePeriod]]:
    return {table: state.periods[table] for table in sorted(state.periods)}


def _go_on_alike(model: Model, loaded: PartitionState) -> None:
    """Fold the rest of the log into a loaded state, and compare it."""
    length = len(model.ledger.records)
    for _ in range(20):
        model.entry()
    rest: list[Record] = model.ledger.records[length:]
    for record in rest:
        fold(loaded, record)
    assert digest(model.ledger.state) == digest(loaded)
