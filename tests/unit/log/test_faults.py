"""A log on a failing disk loses no acknowledged entry, and no refused entry returns.

Each test is a list of disk calls to fail at, or a seed; a failing one is in the test's name.
"""

import contextlib
import errno
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from foldb.log.commands import Entry
from foldb.log.local import LocalLog
from foldb.log.local.reader import LogReader
from foldb.log.log import Appended
from foldb.model.errors import AppendUnknownError, LogError, LogFullError
from tests.unit.log.fake_disk import FakeDisk, PowerCut
from tests.unit.log.local_logs import FOLDER, Held, append, log_of, numbers, open_log
from tests.unit.log.samples import put_entry

pytestmark = pytest.mark.usefixtures("both_writers")

SMALL_SEGMENT = 8900


def fail_at(disk: FakeDisk, count: int, error: Callable[[], BaseException], *, once: bool = True) -> None:
    """Let the changing call number `count` from now fail, and all after it unless `once`."""
    calls = 0

    def hook(call: str, path: Path) -> None:
        nonlocal calls
        calls += 1
        if calls == count or (calls > count and not once):
            raise error()

    disk.hook = hook


def heal(disk: FakeDisk) -> None:
    disk.hook = lambda call, path: None


def eio() -> OSError:
    return OSError(errno.EIO, os.strerror(errno.EIO))


def enospc() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Ledger:
    """The results of a client's appends: acknowledged, refused or unknown."""

    def __init__(self) -> None:
        self.sent = 0
        self.acknowledged: list[int] = []
        self.refused: list[int] = []

    def send(self, log: LocalLog, size: int = 20) -> None:
        number = self.sent
        self.sent += 1

        def done(result: Appended | LogError) -> None:
            if isinstance(result, Appended):
                self.acknowledged.append(number)
            elif isinstance(result, LogFullError):
                self.refused.append(number)

        log.append(0, put_entry(number, size), done)

    def check(self, log: LocalLog | LogReader) -> None:
        """Everything acknowledged is there, in order and once; nothing that was refused is."""
        found = numbers(log)
        assert sorted(set(found)) == found
        assert set(self.acknowledged) <= set(found)
        assert not set(self.refused) & set(found)


def workload(disk: FakeDisk, ledger: Ledger) -> None:
    """Open a log, roll its segments, close it."""
    log = open_log(disk, segment_bytes=SMALL_SEGMENT)
    for _ in range(8):
        ledger.send(log, size=300)
    log.close()


def calls_of_workload() -> int:
    disk = FakeDisk()
    workload(disk, Ledger())
    assert set(disk.calls) >= {"create", "write", "sync", "name", "remove", "sync_folder", "make_folder"}
    return len(disk.calls)


CALLS = range(1, calls_of_workload() + 1)


@pytest.mark.guarantee("G3")
@pytest.mark.parametrize("once", [True, False], ids=["once", "from then on"])
@pytest.mark.parametrize("error", [eio, enospc])
def test_any_call_may_fail_and_the_log_opens_again(error: Callable[[], OSError], once: bool) -> None:
    for count in CALLS:
        disk, ledger = FakeDisk(), Ledger()
        fail_at(disk, count, error, once=once)
        with contextlib.suppress(OSError, LogError):
            workload(disk, ledger)
        heal(disk)
        disk.crash()

        log = open_log(disk, segment_bytes=SMALL_SEGMENT)
        ledger.check(log)
        ledger.acknowledged = numbers(log)  # what was served once is as good as acknowledged
        ledger.send(log, size=300)
        disk.power_cut(random.Random(count))
        ledger.check(open_log(disk, segment_bytes=SMALL_SEGMENT))


@pytest.mark.guarantee("G1")
@pytest.mark.parametrize("seed", range(5))
def test_the_power_may_go_at_any_call_and_again_while_recovering(seed: int) -> None:
    dice = random.Random(seed)
    for count in CALLS:
        disk, ledger = FakeDisk(), Ledger()
        fail_at(disk, count, PowerCut)
        with pytest.raises(PowerCut):
            workload(disk, ledger)
        for _ in range(3):
            disk.power_cut(dice)
            fail_at(disk, dice.randrange(1, 12), PowerCut)
            try:
                ledger.check(open_log(disk, segment_bytes=SMALL_SEGMENT))
            except PowerCut:
                continue
        heal(disk)
        disk.power_cut(dice)

        log = open_log(disk, segment_bytes=SMALL_SEGMENT)
        ledger.check(log)
        ledger.send(log)
        ledger.check(log)


@pytest.mark.parametrize("seed", range(10))
def test_an_unsynced_segment_name_is_synced_before_serving(seed: int) -> None:
    """Killed between the naming and the sync of the folder: the next start sees a name that the disk does not have."""
    disk = FakeDisk()

    def hook(call: str, path: Path) -> None:
        if "name" in disk.calls and call == "sync_folder":
            raise PowerCut

    disk.hook = hook
    with pytest.raises(PowerCut):
        open_log(disk)
    heal(disk)
    disk.crash()

    append(open_log(disk), put_entry(0))
    disk.power_cut(random.Random(seed))

    assert [0] == numbers(open_log(disk))


@pytest.mark.parametrize("seed", range(40))
def test_acknowledged_groups_survive_power_loss(seed: int) -> None:
    """Groups of several blocks, of all sizes, are torn sector by sector; a record that was read once stays."""
    dice = random.Random(seed)
    disk, ledger = FakeDisk(), Ledger()
    for _ in range(6):
        disk.short = dice.random() < 0.3
        held = Held()
        log = open_log(disk, segment_bytes=SMALL_SEGMENT, background=held)
        ledger.check(log)
        ledger.acknowledged = sorted({*ledger.acknowledged, *numbers(log)})
        fail_at(disk, dice.randrange(1, 20), PowerCut)
        try:
            while True:
                for _ in range(dice.randrange(1, 6)):
                    ledger.send(log, size=dice.choice([1, 100, 700, 3000]))
                held.close()
                ledger.check(LogReader(FOLDER, disk))
        except PowerCut:
            heal(disk)
        disk.power_cut(dice)

    ledger.check(open_log(disk))


def test_a_failed_sync_is_fatal_and_its_appends_are_unknown() -> None:
    disk = log_of(1)
    held = Held()
    fatal: list[BaseException] = []
    log = open_log(disk, background=held, on_fatal=fatal.append)
    results: list[Appended | LogError] = []
    for n in range(1, 4):
        log.append(0, put_entry(n), results.append)
    fail_at(disk, 2, eio)  # the write, then the sync
    held.close()
    heal(disk)

    assert [AppendUnknownError] * 3 == [type(result) for result in results]
    assert [errno.EIO] == [getattr(error.__cause__, "errno", None) for error in fatal]

    log.append(0, put_entry(4), results.append)
    held.close()
    assert isinstance(results[-1], AppendUnknownError)
    assert 1 == len(fatal)
    assert [0] == numbers(log)


@pytest.mark.guarantee("G3")
def test_a_sync_is_never_tried_again_after_it_failed() -> None:
    """It would succeed: the system has dropped the pages, and forgotten the error."""
    disk = log_of(1)
    log = open_log(disk)
    fail_at(disk, 2, eio)
    append(log, put_entry(1))
    heal(disk)
    disk.calls.clear()

    append(log, put_entry(2))
    log.close()

    assert [] == disk.calls


@pytest.mark.guarantee("G3")
def test_records_of_a_failed_sync_are_written_again() -> None:
    """
    After the failure the system still shows the bytes, though the disk never got them. A start that believed
    what it reads, and synced that, would serve a record which the next power cut takes away.
    """
    disk = log_of(1)
    log = open_log(disk)
    fail_at(disk, 2, eio)
    append(log, put_entry(1))
    heal(disk)
    disk.crash()

    served = numbers(open_log(disk))
    disk.power_cut(random.Random(0))

    assert [0, 1] == served == numbers(open_log(disk))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("call", [1, 2], ids=["write", "sync"])
def test_a_full_disk_refuses_and_recovers_by_itself(number: int, call: int) -> None:
    disk = log_of(1)
    fatal: list[BaseException] = []
    log = open_log(disk, on_fatal=fatal.append)
    fail_at(disk, call, lambda: OSError(number, os.strerror(number)))

    [refused] = append(log, put_entry(1))
    heal(disk)
    [appended] = append(log, put_entry(2))

    assert isinstance(refused, LogFullError)
    assert isinstance(appended, Appended)
    assert 2 == appended.offset
    assert [] == fatal
    assert [0, 2] == numbers(log)
    disk.power_cut(random.Random(0))
    assert [0, 2] == numbers(open_log(disk))


@pytest.mark.guarantee("G5")
@pytest.mark.parametrize("seed", range(10))
def test_a_refused_entry_does_not_return_after_a_power_cut(seed: int) -> None:
    """Whole blocks of the refused group may have got to the disk by themselves before the rest had no room."""
    disk = log_of(1)
    held = Held()
    log = open_log(disk, background=held)
    results: list[Appended | LogError] = []
    for n in range(1, 4):
        log.append(0, put_entry(n, size=1000), results.append)
    disk.space = disk.used() + 2500

    def hook(call: str, path: Path) -> None:
        if call == "truncate":
            disk.names_cached[path].sync()

    disk.hook = hook
    held.close()
    disk.power_cut(random.Random(seed))

    assert [LogFullError] * 3 == [type(result) for result in results]
    assert [0] == numbers(open_log(disk))


@pytest.mark.guarantee("G5")
@pytest.mark.parametrize("segment_bytes", [SMALL_SEGMENT, 1 << 20])
def test_a_disk_may_fill_up_at_any_byte(segment_bytes: int) -> None:
    """Part of a block is written before the disk is full: the part is undone. The log opens on a full disk too."""
    for space in range(7700, 18700, 171):
        disk, ledger = FakeDisk(), Ledger()
        log = open_log(disk, segment_bytes=segment_bytes)
        disk.space = space
        for _ in range(12):
            ledger.send(log, size=900)
        full = bool(ledger.refused)
        ledger.check(log)
        disk.crash()
        log = open_log(disk, segment_bytes=segment_bytes)
        ledger.check(log)
        disk.space = None
        for _ in range(3):
            ledger.send(log, size=900)

        assert full
        assert 12 + 3 == len(ledger.acknowledged) + len(ledger.refused)
        assert ledger.acknowledged == numbers(log)


def test_a_log_with_a_torn_write_starts_on_a_full_disk() -> None:
    disk = log_of(2)
    path = FOLDER / "00000000000000000000.avro"
    disk.replace(path, bytes(disk.names_cached[path].cached) + b"torn" * 100)
    disk.space = 0

    log = open_log(disk)

    assert [0, 1] == numbers(log)
    assert log.cut is not None
    assert log.cut.side_file is None


def test_unsynced_acknowledged_entries_are_not_lost_silently() -> None:
    """In the mode `never` a full disk can be found by the late sync. That is no refusal: it was promised."""
    disk = log_of(1)
    log = open_log(disk, fsync="never")
    append(log, put_entry(1))
    fail_at(disk, 1, enospc)

    with pytest.raises(LogError, match="could not be synced"):
        log.close()


def test_a_log_starts_on_a_disk_without_space_for_its_mark() -> None:
    disk = log_of(1)
    disk.remove(FOLDER / "mark")

    def hook(call: str, path: Path) -> None:
        if call == "create":
            raise enospc()

    disk.hook = hook
    log = open_log(disk)

    assert [0, 1] == (append(log, put_entry(1)), numbers(log))[1]
    log.close()


def test_a_mark_that_cannot_be_written_stops_no_append() -> None:
    disk = log_of(1)
    log = open_log(disk)

    def hook(call: str, path: Path) -> None:
        if path.name == "mark":
            raise eio()

    disk.hook = hook

    assert all(isinstance(result, Appended) for result in append(log, put_entry(1), put_entry(2)))
    heal(disk)
    log.close()
    assert [0, 1, 2] == numbers(open_log(disk))


@pytest.mark.parametrize("fsync", ["interval", "never"])
@pytest.mark.parametrize("seed", range(10))
def test_without_syncs_a_power_cut_leaves_a_log_that_opens(fsync: str, seed: int) -> None:
    """Unsynced entries are lost, as configured; the rest is the log up to some entry, without a gap."""
    dice = random.Random(seed)
    disk = log_of(1)
    log = open_log(disk, fsync=fsync, segment_bytes=SMALL_SEGMENT)
    append(log, *(put_entry(n, size=200) for n in range(1, 10)))
    disk.power_cut(dice)

    found = numbers(open_log(disk))

    assert list(range(len(found))) == found
    assert found


def test_an_entry_that_cannot_be_encoded_is_not_appended() -> None:
    disk = log_of(1)
    log = open_log(disk)

    with pytest.raises((TypeError, ValueError, AttributeError)):
        append(log, Entry(b"short", 0, []))

    append(log, put_entry(1))
    assert [0, 1] == numbers(log)
