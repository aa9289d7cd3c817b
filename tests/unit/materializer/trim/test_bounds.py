"""What a trim must not pass: changes that the feed keeps, and checkpoints of subscriptions."""

from dataclasses import replace
from pathlib import Path

import pytest

from foldb.log.local.filesystem import Filesystem
from foldb.log.local.reader import LogReader
from foldb.materializer import trim as trim_module
from foldb.materializer.fold.state import PartitionState
from foldb.materializer.refold import refold_log
from foldb.materializer.trim import TrimRefusedError, bounds_of
from foldb.model.backups import Backup
from foldb.model.sequence_numbers import sequence_number
from foldb.model.subscriptions import Subscription
from foldb.model.tables import Recovery, Restore
from tests.unit.log.fake_disk import FakeDisk
from tests.unit.materializer.trim.trims import filled, segments, trim

MIDDLE = 90
DAY_MS = 24 * 3_600_000


@pytest.fixture
def state() -> PartitionState:
    """The state of the log at its end."""
    state = PartitionState()
    refold_log(state, filled(FakeDisk()), 0)
    return state


@pytest.fixture
def subscribed(monkeypatch: pytest.MonkeyPatch) -> Subscription:
    """A subscription of the state at the end of each log, with a checkpoint at position 60."""
    checkpoints = {0: sequence_number(60, 0, 0)}
    found = Subscription(7, "mail", "", (("t", 1),), {}, 10_000, 10_000, checkpoints=checkpoints)
    end_state = trim_module._end_state

    def with_subscription(disk: Filesystem, folder: Path, log: LogReader, partition: int) -> PartitionState:
        state = end_state(disk, folder, log, partition)
        state.subscriptions["mail"] = found
        return state

    monkeypatch.setattr(trim_module, "_end_state", with_subscription)
    return found


def test_a_trim_past_a_checkpoint_is_refused_with_its_name(subscribed: Subscription) -> None:
    disk = FakeDisk()
    log = filled(disk)

    with pytest.raises(TrimRefusedError, match="the checkpoint of the subscription mail is @60"):
        trim(log, disk, MIDDLE)
    assert segments(disk)[0] == 0


def test_a_lenient_trim_ends_at_a_checkpoint(subscribed: Subscription) -> None:
    disk = FakeDisk()
    log = filled(disk)

    trim(log, disk, MIDDLE, is_lenient=True)

    assert 0 < log.begin(0) <= 60


def test_a_subscription_without_checkpoint_keeps_its_changes(state: PartitionState) -> None:
    state.subscriptions["mail"] = Subscription(
        7, "mail", "", (("t", 1),), {"Start": {"At": "NOW"}}, 10_050, 10_050
    )
    beginning = replace(state.subscriptions["mail"], settings={"Start": {"At": "BEGINNING"}})

    [bound] = bounds_of(state, 1)
    assert bound.cut.time_ms == 10_050
    state.subscriptions["mail"] = beginning
    [bound] = bounds_of(state, 1)
    assert bound.cut.time_ms == 0


def test_a_state_without_streams_has_no_bounds(state: PartitionState) -> None:
    assert bounds_of(state, 1) == []


def test_a_backup_keeps_the_history_from_its_cut(state: PartitionState) -> None:
    [table] = state.tables.values()
    state.backups["arn"] = Backup("arn", "monthly", table.definition, 10_020, 10_021, 3, 30)

    [bound] = bounds_of(state, 1)

    assert bound.cut.time_ms == 10_020
    assert bound.reason.startswith("the backup monthly of t has the items of")


@pytest.mark.parametrize(("enabled_ms", "earliest_ms"), [(10_000, 90_000_000), (95_000_000, 95_000_000)])
def test_point_in_time_recovery_keeps_its_window(
    enabled_ms: int, earliest_ms: int, state: PartitionState
) -> None:
    [table] = state.tables.values()
    state.log_time = 90_000_000 + 2 * DAY_MS
    table.define(replace(table.definition, recovery=Recovery(enabled_ms, days=2)))

    [bound] = bounds_of(state, 1)

    assert bound.cut.time_ms == earliest_ms
    assert "point-in-time recovery" in bound.reason


def test_a_restore_in_progress_keeps_its_cut(state: PartitionState) -> None:
    [table] = state.tables.values()
    table.define(replace(table.definition, restore=Restore(1, "old", "arn", 10_030)))

    [bound] = bounds_of(state, 1)

    assert bound.cut.time_ms == 10_030
