"""Snapshots of a log on a disk in memory: after any damage a start ends with the state of the log alone."""

import os
import random
import subprocess
import sys
from collections.abc import Callable
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path

import pytest

from foldb.log.chain import Chain
from foldb.log.local import LocalLog
from foldb.log.local.reader import LogReader
from foldb.materializer.fold.dump import digest
from foldb.materializer.fold.state import PartitionState
from foldb.materializer.refold import refold
from foldb.materializer.snapshot import MAGIC, UnusableError
from foldb.materializer.snapshot_scheduler import COMMAND, SnapshotScheduler
from foldb.materializer.snapshot_worker import SnapshotJob
from foldb.materializer.snapshots import FOLDER as SNAPSHOTS
from foldb.materializer.snapshots import MadeSnapshot, Snapshots
from foldb.model.errors import LogLockedError
from tests.unit.log.fake_disk import FakeDisk, PowerCut
from tests.unit.log.local_logs import FOLDER, append, open_log
from tests.unit.materializer.fake_loop import FakeLoop
from tests.unit.materializer.ledger import Ledger
from tests.unit.materializer.random_log import random_log
from tests.verification.reliability import record

KEPT_IN = FOLDER / SNAPSHOTS

SOAK = bool(os.environ.get("FOLDB_SOAK"))
pytestmark = [pytest.mark.soak] if SOAK else []


def logged(ledger: Ledger, disk: FakeDisk | None = None, records: slice = slice(1, None)) -> LocalLog:
    """Return an open log of the ledger's entries; its own Genesis replaces theirs."""
    log = open_log(disk or FakeDisk(), segment_bytes=8000)
    append(log, *(record.entry for record in ledger.records[records]))
    return log


def disk_of(seed: int = 1, length: int = 20) -> FakeDisk:
    """Return a disk with a closed random log."""
    disk = FakeDisk()
    logged(random_log(seed, length), disk).close()
    return disk


def make(disk: FakeDisk, keep: int = 2) -> MadeSnapshot:
    return Snapshots(FOLDER, disk).make(LogReader(FOLDER, disk), keep=keep)


def started(disk: FakeDisk) -> tuple[int | None, str]:
    """Return the snapshot from which a start continues, and the resulting digest."""
    log = open_log(disk)
    start = Snapshots(FOLDER, disk).load_newest(log)
    refold(start.state, log.read(0, start.state.next_offset))
    log.close()
    return start.head.offset if start.head else None, digest(start.state)


def refolded(disk: FakeDisk, end: int | None = None) -> str:
    state = PartitionState()
    refold(
        state, (record for record in LogReader(FOLDER, disk).read(0) if end is None or record.offset < end)
    )
    return digest(state)


def chained(disk: FakeDisk) -> bytes:
    """Return the chain of the whole log."""
    log = LogReader(FOLDER, disk)
    chain = Chain(log.genesis(0))
    for each in log.read(0):
        chain.extend(each)
    return chain.value


def faults(disk: FakeDisk) -> list[str | None]:
    snapshots, log = Snapshots(FOLDER, disk), LogReader(FOLDER, disk)
    return [snapshots.examine(offset, log).fault for offset in snapshots.offsets()]


def names(disk: FakeDisk) -> list[str]:
    return [name for name in disk.names(KEPT_IN) if name != "lock"]


@pytest.mark.guarantee("G16")
@pytest.mark.parametrize("seed", range(100 if SOAK else 6))
def test_a_snapshot_and_the_tail_equal_the_whole_log(seed: int) -> None:
    """A record that is folded twice, or not at all, changes the digest: numbers are added up, origins are counted."""
    ledger = random_log(seed, length=60)
    dice = random.Random(seed)
    disk = FakeDisk()
    stops = [1, *sorted(dice.sample(range(2, len(ledger.records)), 8)), len(ledger.records)]
    for last, stop in pairwise(stops):
        logged(ledger, disk, slice(last, stop)).close()
        made = make(disk)

        assert refolded(disk) == made.digest
        assert (made.head.offset, refolded(disk)) == started(disk)
        assert chained(disk) == made.head.chain

    for offset in Snapshots(FOLDER, disk).offsets():
        snapshot = Snapshots(FOLDER, disk).examine(offset, LogReader(FOLDER, disk))
        assert refolded(disk, offset + 1) == snapshot.digest


def test_a_snapshot_of_the_same_moment_is_made_once() -> None:
    disk = disk_of()

    first, second = make(disk), make(disk)

    assert (True, False) == (first.is_new, second.is_new)
    assert (first.head, first.digest, first.bytes) == (second.head, second.digest, second.bytes)


def test_the_newest_are_kept() -> None:
    disk, ledger = FakeDisk(), random_log(2, length=40)
    for end in range(10, 50, 10):
        logged(ledger, disk, slice(end - 9, end + 1)).close()
        make(disk, keep=3)

    assert 3 == len(names(disk))
    assert [None] * 3 == faults(disk)
    assert 1 == len([make(disk, keep=1)]) == len(names(disk))
    assert refolded(disk) == started(disk)[1]


def test_a_damaged_snapshot_of_this_moment_is_made_again() -> None:
    """The new one takes its name, and must not be removed with the unusable ones."""
    disk = disk_of()
    first = make(disk)
    [name] = names(disk)
    data = bytearray(disk.names_cached[KEPT_IN / name].cached)
    data[len(data) // 2] ^= 1
    disk.replace(KEPT_IN / name, bytes(data))

    again = make(disk)
    assert (first.digest, True) == (again.digest, again.is_new)
    assert [None] == faults(disk)


def test_a_snapshot_is_removed_only_if_it_is_damaged() -> None:
    disk = disk_of()
    offset = make(disk).head.offset
    snapshots = Snapshots(FOLDER, disk)
    assert (None, False) == (snapshots.fault(offset), snapshots.remove_damaged(offset))

    path = snapshots.path(offset)
    data = bytearray(disk.names_cached[path].cached)
    data[len(data) // 2] ^= 1
    disk.replace(path, bytes(data))
    fault = snapshots.fault(offset)
    assert fault is not None
    assert "digest" in fault
    assert snapshots.remove_damaged(offset)
    assert (None, []) == (snapshots.fault(offset), names(disk))


def test_a_log_without_snapshots_starts_from_its_beginning() -> None:
    disk = disk_of()

    assert (None, refolded(disk)) == started(disk)


def test_two_makers_at_once_do_each_other_no_harm() -> None:
    disk = disk_of()
    make(disk)
    lock = disk.lock(KEPT_IN / "lock", b"pid 7\n")

    with pytest.raises(LogLockedError, match="pid 7"):
        make(disk)

    lock.close()
    assert [None] == faults(disk)


def test_the_next_run_removes_the_files_of_a_crashed_one() -> None:
    disk = disk_of()
    make(disk)
    disk.open(KEPT_IN / "00000000000000000005.snapshot.new", create=True).write(0, b"foldb")

    assert refolded(disk) == started(disk)[1]
    make(disk)

    assert 1 == len(names(disk))


# Power


def interrupted(disk: FakeDisk, call: int) -> bool:
    """Cut the power at a call of a run; return whether there was such a call."""
    left = iter(range(call))

    def hook(_: str, path: Path) -> None:
        if next(left, None) is None:
            raise PowerCut

    disk.hook = hook
    try:
        make(disk, keep=1)
    except PowerCut:
        return True
    finally:
        disk.hook = lambda *_: None
    return False


@pytest.mark.guarantee("G16")
@pytest.mark.parametrize("seeds", [range(300)] if SOAK else [range(n, n + 1) for n in range(12)], ids=str)
def test_a_power_cut_at_any_call_leaves_whole_snapshots_only(seeds: range) -> None:
    cuts = sum(cut_at_every_call(seed) for seed in seeds)
    record(
        test="snapshots: a power cut at every call of the disk",
        seeds=f"{seeds[0]}-{seeds[-1]}",
        cycles=cuts,
        faults={"power cut": cuts},
        checked=cuts,
    )


def cut_at_every_call(seed: int) -> int:
    """Return the number of power cuts. One snapshot exists, so that its removal is among the calls."""
    call, going_on = 0, True
    while going_on:
        disk, ledger = FakeDisk(), random_log(seed, length=20)
        logged(ledger, disk, slice(1, 10)).close()
        make(disk)
        logged(ledger, disk, slice(10, None)).close()
        expected = refolded(disk)

        going_on = interrupted(disk, call)
        disk.power_cut(random.Random(seed + 1000 * call))

        assert expected == started(disk)[1]
        assert [] == [fault for fault in faults(disk) if fault]
        assert 1 <= len(faults(disk)), "the old one goes when the new one is there to stay"
        assert expected == make(disk).digest
        assert all(name.endswith(".snapshot") for name in names(disk))
        call += 1
    assert call > 8
    return call


@pytest.mark.parametrize("seed", range(12))
def test_a_snapshot_survives_a_power_cut(seed: int) -> None:
    disk = disk_of(seed)
    made = make(disk)

    disk.power_cut(random.Random(seed))

    assert (made.head.offset, made.digest) == started(disk)


@pytest.mark.parametrize("call", ["create", "write", "sync", "rename", "sync_folder", "remove"])
def test_a_disk_that_fails_leaves_the_older_snapshots(call: str) -> None:
    disk, ledger = FakeDisk(), random_log(4, length=20)
    logged(ledger, disk, slice(1, 10)).close()
    make(disk)
    logged(ledger, disk, slice(10, None)).close()

    def hook(name: str, path: Path) -> None:
        if name == call and path.name != "lock":
            raise OSError(5, "I/O error")

    disk.hook = hook
    with pytest.raises(OSError, match="I/O error"):
        make(disk, keep=1)
    disk.hook = lambda *_: None

    assert refolded(disk) == started(disk)[1]
    assert started(disk)[0] is not None
    make(disk, keep=1)
    assert 1 == len(names(disk))


def test_a_full_disk_gets_its_space_back() -> None:
    disk, ledger = FakeDisk(), random_log(4, length=20)
    logged(ledger, disk, slice(1, 10)).close()
    make(disk)
    logged(ledger, disk, slice(10, None)).close()
    used = disk.used()
    disk.space = used + 100

    with pytest.raises(OSError, match="space"):
        make(disk)

    assert used == disk.used()
    disk.space = None
    assert refolded(disk) == make(disk).digest


# Damage


def damaged(disk: FakeDisk, damage: Callable[[bytes], bytes]) -> None:
    [name] = names(disk)
    path = KEPT_IN / name
    disk.replace(path, damage(bytes(disk.names_cached[path].cached)))


@pytest.mark.guarantee("G16")
def test_every_flipped_bit_of_a_snapshot_is_found() -> None:
    disk = disk_of(3, length=4)
    make(disk)
    [name] = names(disk)
    whole = bytes(disk.names_cached[KEPT_IN / name].cached)
    log = LogReader(FOLDER, disk)
    for bit in range(8 * len(whole)):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        disk.replace(KEPT_IN / name, bytes(flipped))

        assert Snapshots(FOLDER, disk).load_newest(log).head is None, f"bit {bit}"
    record(
        test="snapshots: every flipped bit",
        cycles=8 * len(whole),
        faults={"bit": 8 * len(whole)},
        checked=8 * len(whole),
    )


@pytest.mark.guarantee("G16")
def test_every_truncation_of_a_snapshot_is_found() -> None:
    disk = disk_of(3, length=4)
    make(disk)
    [name] = names(disk)
    whole = bytes(disk.names_cached[KEPT_IN / name].cached)
    log = LogReader(FOLDER, disk)
    for end in [*range(len(whole)), len(whole) + 1]:
        disk.replace(KEPT_IN / name, whole[:end].ljust(end, b"\0"))

        assert Snapshots(FOLDER, disk).load_newest(log).head is None, f"cut at {end}"


def test_a_damaged_snapshot_is_passed_over_for_the_one_before_it(caplog: pytest.LogCaptureFixture) -> None:
    disk, ledger = FakeDisk(), random_log(5, length=20)
    logged(ledger, disk, slice(1, 10)).close()
    older = make(disk)
    logged(ledger, disk, slice(10, None)).close()
    newer = make(disk)
    path = Snapshots(FOLDER, disk).path(newer.head.offset)
    disk.replace(path, bytes(disk.names_cached[path].cached)[:-1])

    assert (older.head.offset, refolded(disk)) == started(disk)
    [warning] = caplog.messages
    assert f"skipping snapshot {path}: it is damaged" in warning


@pytest.mark.parametrize("name", ["00000000000000000003.snapshot", "99999999999999999999.snapshot"])
@pytest.mark.parametrize(
    "data", [b"", b"foldb snapshot 2\n", b"foldb snapshot 1\n\xff\xff\xff\xff", bytes(99)]
)
def test_foreign_files_in_the_folder_are_ignored(name: str, data: bytes) -> None:
    disk = disk_of()
    good = make(disk)
    disk.open(KEPT_IN / name, create=True)
    disk.replace(KEPT_IN / name, data)

    assert (good.head.offset, good.digest) == started(disk)


def backup(disk: FakeDisk) -> FakeDisk:
    """Return a copy of the log, without its snapshots."""
    copy = FakeDisk()
    copy.folders |= disk.folders
    for path, node in disk.names_cached.items():
        if path.parent == FOLDER:
            copy.open(path, create=True)
            copy.replace(path, bytes(node.cached))
    return copy


def bring(made: MadeSnapshot, source: FakeDisk, target: FakeDisk) -> None:
    """Copy a snapshot to another log's folder."""
    path = Snapshots(FOLDER, source).path(made.head.offset)
    target.make_folder(KEPT_IN)
    target.open(path, create=True)
    target.replace(path, bytes(source.names_cached[path].cached))


def test_a_snapshot_ahead_of_its_log_stays_and_replaces_none() -> None:
    """The log was restored from a backup. Once it is as long, the hashes show that it has another history."""
    disk, ledger = FakeDisk(), random_log(6, length=20)
    logged(ledger, disk, slice(1, 10)).close()
    restored = backup(disk)
    logged(ledger, disk, slice(10, None)).close()
    ahead = make(disk)
    bring(ahead, disk, restored)

    assert (None, refolded(restored)) == started(restored)
    assert ["the log ends before it, at 9: was it restored from a backup?"] == faults(restored)
    made = make(restored, keep=1)
    assert [ahead.head.offset, made.head.offset] == Snapshots(FOLDER, restored).offsets()
    assert (made.head.offset, made.digest) == started(restored)

    logged(ledger, restored, slice(11, None)).close()
    assert [ahead.head.offset - 1] == [make(restored, keep=1).head.offset]


def test_a_log_with_another_history_is_detected_by_its_hashes() -> None:
    """Same log, same offset, other records: only the hash chain differs."""
    disk, ledger = FakeDisk(), random_log(7, length=20)
    logged(ledger, disk, slice(1, 10)).close()
    other = backup(disk)
    logged(ledger, disk, slice(10, 15)).close()
    logged(ledger, other, slice(11, 20)).close()
    bring(make(disk), disk, other)

    assert (None, refolded(other)) == started(other)
    assert ["the log has another history: was it restored from a backup?"] == faults(other)
    made = make(other)
    assert [made.head.offset] == Snapshots(FOLDER, other).offsets()


def copied(data: bytes, offset: int, target: FakeDisk) -> str | None:
    """Copy the bytes of a snapshot to another node's disk, in portions; return the reason for which it is refused."""
    copy = Snapshots(FOLDER, target).begin_copy(offset)
    try:
        for start in range(0, len(data), 1000):
            copy.write(data[start : start + 1000])
        copy.finish(LogReader(FOLDER, target))
    except UnusableError as error:
        return str(error)
    finally:
        copy.close()
    return None


def test_a_snapshot_of_an_earlier_release_has_no_chain_and_is_used() -> None:
    """Its head lacks the member. The next snapshot has the chain of the whole log."""
    disk, ledger = FakeDisk(), random_log(3, length=30)
    logged(ledger, disk, slice(1, 12)).close()
    made = make(disk)
    assert made.head.chain is not None
    path = Snapshots(FOLDER, disk).path(made.head.offset)
    data = bytes(disk.names_cached[path].cached)
    body = made.head.encode()[len(MAGIC) + 4 : -16].replace(
        b',"chain":"%s"' % made.head.chain.hex().encode(), b""
    )
    head = MAGIC + len(body).to_bytes(4, "big") + body
    check = blake2b(head, digest_size=16).digest()
    disk.replace(path, head + check + data[len(made.head.encode()) :])
    earlier = [each.chain for each in Snapshots(FOLDER, disk).heads()]

    started_from, _ = started(disk)
    logged(ledger, disk, slice(12, None)).close()

    assert ([None], made.head.offset) == (earlier, started_from)
    assert chained(disk) == make(disk).head.chain


@pytest.mark.guarantee("G16")
def test_a_copied_snapshot_saves_a_start_its_fold() -> None:
    disk = disk_of(length=60)
    target, made = backup(disk), make(disk)
    data = disk.names_cached[Snapshots(FOLDER, disk).path(made.head.offset)].cached

    assert copied(bytes(data), made.head.offset, target) is None
    assert (made.head.offset, made.digest) == started(target)
    assert [None] == faults(target)


@pytest.mark.guarantee("G16")
@pytest.mark.parametrize("seed", range(100 if SOAK else 10))
def test_a_damaged_copy_never_gets_a_name(seed: int) -> None:
    """A flipped bit, a cut, a snapshot of another offset, and one of a log whose end was lost and written again."""
    dice, disk, ledger = random.Random(seed), FakeDisk(), random_log(seed, length=30)
    logged(ledger, disk, slice(1, 12)).close()
    rewritten = backup(disk)
    logged(ledger, disk, slice(12, 20)).close()
    logged(ledger, rewritten, slice(13, 25)).close()
    target, offset = backup(disk), make(disk).head.offset
    data = bytes(disk.names_cached[Snapshots(FOLDER, disk).path(offset)].cached)
    flipped = bytearray(data)
    flipped[dice.randrange(len(data))] ^= 1 << dice.randrange(8)

    assert copied(bytes(flipped), offset, target)
    assert copied(data[: dice.randrange(1, len(data))], offset, target)
    assert copied(data, offset - 1, target)
    assert copied(data, offset, rewritten) == "the log has another history: was it restored from a backup?"
    assert [] == Snapshots(FOLDER, target).offsets() == Snapshots(FOLDER, rewritten).offsets()
    assert [] == names(target)


def test_another_log_is_detected_by_its_id() -> None:
    disk, other = disk_of(), FakeDisk()
    log = LocalLog(
        FOLDER,
        clock=lambda: 5,
        deliver=lambda callback: callback(),
        random_bytes=lambda size: b"m" * size,
        on_fatal=lambda _: None,
        disk=other,
    )
    log.close()
    bring(make(disk), disk, other)

    assert [f"it belongs to the log {(b'l' * 16).hex()}"] == faults(other)


def test_a_start_reads_no_segment_that_the_snapshot_covers() -> None:
    disk, ledger = FakeDisk(), random_log(8, length=150)
    logged(ledger, disk).close()
    make(disk)
    segments = sorted(path for path in disk.names_cached if path.suffix == ".avro")
    assert len(segments) > 5
    for path in segments[1:-2]:
        data = bytearray(disk.names_cached[path].cached)
        data[-40] ^= 1
        disk.replace(path, bytes(data))

    assert started(disk)[0] is not None


# The child process


class Making:
    """A scheduler whose process is a line of Python, and the arguments of that process."""

    def __init__(self, path: Path, line: str, every: int = 100) -> None:
        self.loop, self.folded = FakeLoop(), 0
        self.maker = SnapshotScheduler(
            lambda: SnapshotJob(str(path)),
            every,
            folded=lambda: self.folded,
            scheduler=self.loop,
            command=[sys.executable, "-c", line],
        )
        self.maker.poll()

    @property
    def process(self) -> subprocess.Popen[bytes] | None:
        return self.maker._process

    def fold(self, commands: int) -> None:
        self.folded += commands
        self.loop.advance(1)

    def wait(self) -> None:
        assert self.process is not None
        self.process.wait(timeout=60)
        self.loop.advance(1)
        assert self.process is None


def test_a_snapshot_is_made_every_n_commands(tmp_path: Path) -> None:
    making = Making(tmp_path, "pass")

    making.fold(99)
    assert making.process is None
    for _ in range(3):
        making.fold(1)
        making.wait()
        making.fold(99)
        assert making.process is None
    making.maker.close()


def test_there_is_never_a_second_maker_and_a_stop_ends_the_first(tmp_path: Path) -> None:
    making = Making(tmp_path, "import signal; signal.pause()")
    making.fold(100)
    first = making.process
    assert first is not None
    assert 10 == os.getpriority(os.PRIO_PROCESS, first.pid)

    making.fold(1000)

    assert first is making.process
    making.maker.close()
    assert first.returncode is not None
    making.fold(1000)
    assert first is making.process


@pytest.mark.parametrize("line", ["raise SystemExit(8)", "import os; os.abort()"])
def test_a_failed_snapshot_is_logged_and_retried_when_next_due(
    line: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    making = Making(tmp_path, line)
    making.fold(100)
    making.wait()

    assert 1 == len(caplog.messages)
    assert caplog.messages[0].startswith("no snapshot was made: its process exited with code ")
    making.fold(99)
    assert making.process is None
    making.fold(1)
    making.wait()
    making.maker.close()


def test_a_process_that_cannot_be_started_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    maker = SnapshotScheduler(
        lambda: SnapshotJob(str(tmp_path)),
        1,
        folded=lambda: 1,
        scheduler=FakeLoop(),
        command=[str(tmp_path / "missing")],
    )

    maker.poll()

    [reported] = caplog.messages
    assert reported.startswith("no snapshot was made: [Errno 2] No such file or directory")


def test_a_module_that_lies_about_is_not_run_in_place_of_ours(tmp_path: Path) -> None:
    """The server may run in any folder; it must not import code from there."""
    (tmp_path / "foldb.py").write_text("raise SystemExit(77)")
    (tmp_path / "orjson.py").write_text("raise SystemExit(78)")

    job = SnapshotJob(str(tmp_path / "none")).encode()
    result = subprocess.run(COMMAND, input=job, cwd=tmp_path, capture_output=True)

    assert 1 == result.returncode
    assert b"cannot take a snapshot: [Errno 2] No such file or directory" in result.stderr
