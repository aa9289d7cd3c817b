"""A full disk under a history: it is reported once, no epoch is deleted, and folding goes on when there is space."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from foldb.materializer.history.engine import FullDiskError
from foldb.materializer.history.epochs import Epochs, open_history
from foldb.materializer.history.history import NotFoldedError
from foldb.server.history import worker
from foldb.server.history.worker import Histories
from tests.unit.materializer.fake_loop import FakeLoop
from tests.unit.materializer.history.past import ListLog
from tests.unit.materializer.history.test_epochs import assert_equal_to_a_refold, numbers
from tests.unit.materializer.ledger import Ledger, put
from tests.verification.crash.test_full_disk import fill, mounted

DISK_BYTES = 16 << 20
FLOOR = 20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk."""
    with mounted(tmp_path, f"size={DISK_BYTES}"):
        yield tmp_path


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Epochs]:
    """Return the histories that are opened, of small epochs."""
    histories: list[Epochs] = []

    def open_small(*words: Any) -> Epochs:
        histories.append(open_history(*words, floor=FLOOR))
        return histories[-1]

    monkeypatch.setattr(worker, "open_history", open_small)
    return histories


def ledger_of(items: int) -> Ledger:
    """Return a log of items that do not compress."""
    ledger, dice = Ledger(), random.Random(items)
    table = ledger.create("T")
    for number in range(items):
        ledger.fold(put(table, {"pk": {"S": str(number % 3)}, "data": {"S": dice.randbytes(4_000).hex()}}))
    return ledger


@pytest.mark.guarantee("G5")
@pytest.mark.parametrize("free", [0, 8 << 10, 40 << 10, 120 << 10, 400 << 10])
@pytest.mark.parametrize("folded", [0, 70])
def test_a_history_goes_on_after_a_full_disk(
    folded: int, free: int, disk: Path, opened: list[Epochs], caplog: pytest.LogCaptureFixture
) -> None:
    """The disk is full after some records, in the middle of any work. Reads may be sent again until there is space."""
    records, loop, ballast = ledger_of(120).records, FakeLoop(), disk / "ballast"
    log = ListLog(records[: folded + 1])
    histories = Histories(log, disk / "history", None, loop)  # type: ignore[arg-type]
    if folded:
        histories.follow(0)
        loop.settle()
    kept = numbers(opened[-1].all()) if folded else []
    fill(ballast)
    with ballast.open("r+b") as file:
        file.truncate(ballast.stat().st_size - free)

    log.records = records
    histories.follow(0)
    loop.advance(60)
    with pytest.raises(NotFoldedError):
        histories.open(0, ())
    ballast.unlink()
    loop.advance(5)

    histories.open(0, ())
    assert set(kept) <= set(numbers(opened[-1].all()))
    assert_equal_to_a_refold(opened[-1], records)
    [said] = [each.getMessage() for each in caplog.records]
    assert said.startswith("cannot write the history of partition 0: the disk is full")
    histories.close()


def test_a_full_disk_is_no_damage_when_a_history_opens(disk: Path) -> None:
    records = ledger_of(70).records
    follower = open_history(disk / "history", ListLog(records), 0, floor=FLOOR)
    follower.catch_up()
    kept = numbers(follower.all())
    follower.close()

    fill(disk / "ballast")
    with pytest.raises(FullDiskError):
        open_history(disk / "history", ListLog(records), 0, floor=FLOOR)
    (disk / "ballast").unlink()
    follower = open_history(disk / "history", ListLog(records), 0, floor=FLOOR)

    assert kept == numbers(follower.all())
    assert_equal_to_a_refold(follower, records)
    follower.close()
