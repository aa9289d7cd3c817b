"""Answers that are stored with their positions are given again, byte for byte, when the past is read there."""

import json
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import foldb
from foldb.log.local.filesystem import SystemFilesystem
from foldb.log.local.reader import LogReader
from foldb.materializer.history.epochs import open_history
from foldb.materializer.history.history import FOLDER
from foldb.server import clock
from tests.support.raw import ask
from tests.support.served import Process
from tests.support.served import foldb as run_foldb
from tests.verification.crash.power import PowerDisk, lose_power
from tests.verification.crash.programs import with_moved_clock
from tests.verification.histories.stored_answers import (
    NAMES,
    Horizon,
    MoveClock,
    Run,
    check_again,
    is_kept,
    live,
    position_text,
)

# Small segments, and no stream that keeps its changes from a trim.
OPTIONS = (
    *("--segment-bytes", "10000"),
    *("--stream-retention", "1ms"),
    *("--ttl-interval", "20ms"),
    *("--clock-step", "0"),
)


@dataclass
class Life:
    """A folder that is served again and again, and its stored answers. Each server is killed.

    Attributes:
        folder: The folder of the database.
        clock: The file with the milliseconds that the server's clock is ahead.
        partitions: The number of partitions.
        seed: The seed of everything that is random.
        steps: The steps of each client while the folder is served for the first time.
        disk: A disk that loses its power when the server is killed; None to kill the server alone.
        runs: The runs so far.
        horizon: The horizon of the last trim.
    """

    folder: Path
    clock: Path
    partitions: int
    seed: int
    steps: int
    disk: PowerDisk | None = None
    runs: list[Run] = field(default_factory=list)
    horizon: Horizon = field(default_factory=dict)
    _moving: threading.Lock = field(default_factory=threading.Lock)

    def live(self, steps: int) -> None:
        """Serve the folder, read all stored answers again, and store more."""
        with self.served() as url:
            self.check(url)
            self.runs += live([url], self.seed + len(self.runs), steps, self._move_clock)
            self._restore_in_place(url)
            self.check(url)

    def check(self, url: str) -> None:
        """Read all stored answers again."""
        check_again(url, self.runs, self.horizon, self.folder)

    @contextmanager
    def served(self) -> Iterator[str]:
        """Serve the folder until the block ends with a kill or a power cut."""
        if not self.clock.exists():
            self.clock.write_text("0")
        program = with_moved_clock(self.clock)
        partitions = ("--partitions", str(self.partitions))
        with Process(self.folder, *OPTIONS, *partitions, program=program) as server:
            yield server.url
            workers = _children(server.pid)
            if self.disk is None:
                server.kill()
            else:
                lose_power(server, self.disk)
            _wait_for_end(workers)
        if self.disk is not None:
            self.disk.restore()

    def _move_clock(self, by_ms: int) -> None:
        with self._moving:  # each client moves it in a thread of its own
            new = self.clock.with_suffix(".new")
            new.write_text(str(int(self.clock.read_text()) + by_ms))
            new.replace(self.clock)

    def _restore_in_place(self, url: str) -> None:
        dice = random.Random(f"in place {self.seed} {len(self.runs)}")
        version = dice.choice([each for run in self.runs for each in run.written])
        words = ("--as-of", position_text(version.position), "--in-place", "--yes", "--db", url)
        run_foldb("restore", version.table, *words)


def _children(process: int) -> list[int]:
    """Return the processes that a process has started, and those that they have started."""
    texts = [each.read_text() for each in Path(f"/proc/{process}/task").glob("*/children")]
    children = [int(word) for text in texts for word in text.split()]
    return [*children, *(each for child in children for each in _children(child))]


def _wait_for_end(processes: list[int]) -> None:
    """Wait for the history process and others, which end when their server does."""
    deadline = time.monotonic() + 10
    while any(Path(f"/proc/{each}/exe").exists() for each in processes):
        assert time.monotonic() < deadline, "a process outlives its server"
        time.sleep(0.01)


# The changes of a folder between two servers


def _kill(_: Life) -> None:
    """Change nothing: the server was killed."""


def _delete_histories(life: Life) -> None:
    shutil.rmtree(life.folder / FOLDER)


def _make_epochs(life: Life) -> None:
    """Build the histories again, of epochs as small as possible."""
    _delete_histories(life)
    module = "tests.verification.histories.test_stored_answers"
    program = f"import sys; from {module} import build_epochs; build_epochs(sys.argv[1])"
    subprocess.run([sys.executable, "-c", program, life.folder], check=True)


def build_epochs(folder: str) -> None:
    """Build them in a process of its own, which leaves no file of a disk open that is to lose its power."""
    log = LogReader(Path(folder), SystemFilesystem())
    for partition in range(log.genesis(0).partitions):
        epochs = open_history(Path(folder) / FOLDER, log, partition, floor=20)
        epochs.catch_up()
        epochs.close()


def _skip(life: Life) -> None:
    """Declare a late write void, as if it had never been made. Everything from its log time on may differ.

    With several partitions that is refused for a write that has sent an index entry to another one.
    """
    dice = random.Random(f"skip {life.seed}")
    written = [each for run in life.runs for each in run.written if is_kept(each.position, life.horizon)]
    written.sort(key=lambda each: each.time_ms)
    candidates = written[len(written) // 2 :]
    dice.shuffle(candidates)
    for version in candidates:
        position = position_text(version.position)
        skipped = run_foldb("log", "skip", position, life.folder, "--force", "--yes")
        if skipped.returncode == 0:
            break
        assert life.partitions > 1, skipped.stderr
        assert "other partitions have folded messages" in skipped.stderr
    for run in life.runs:
        run.forget_since(version.time_ms)
    version.new = version.old
    life.runs[0].written.append(version)


def _trim(life: Life) -> None:
    """Trim to the middle of the stored positions, in half of the runs through the server that reads the past."""
    versions = sorted((each for run in life.runs for each in run.written), key=lambda each: each.time_ms)
    cut = position_text(versions[len(versions) // 2].position)
    with life.served() as url:
        _release(url)
        if life.seed % 2 == 0:
            life.check(url)
            life.horizon = _trimmed(life.horizon, "--db", life.folder, "--before", cut)
            life.check(url)
    if life.seed % 2:
        life.horizon = _trimmed(life.horizon, life.folder, "--before", cut)


def _release(url: str) -> None:
    """Delete the backups and restorable times that would keep records from a trim."""
    for name in NAMES:
        body = {"TableName": name, "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": False}}
        ask(url, "UpdateContinuousBackups", body)
    for backup in ask(url, "ListBackups", {}).body["BackupSummaries"]:
        ask(url, "DeleteBackup", {"BackupArn": backup["BackupArn"]})


def _trimmed(horizon: Horizon, *words: str | Path) -> Horizon:
    """Trim, and return the horizon: that of the trim before if no segment was filled since."""
    trimmed = run_foldb("--yes", "log", "trim", *words, "-o", "json")
    if horizon and "nothing was removed" in trimmed.stderr:
        return horizon
    assert trimmed.returncode == 0, trimmed.stderr
    return _horizon(json.loads(trimmed.stdout)["horizon"])


def _horizon(text: str) -> dict[int | None, int]:
    begins = [each.rpartition(":") for each in text.split(",")]
    return {int(partition) if partition else None: int(offset) for partition, _, offset in begins}


CHANGES: dict[str, Callable[[Life], None]] = {
    "kill": _kill,
    "deleted histories": _delete_histories,
    "new epochs": _make_epochs,
    "skip": _skip,
    "trim": _trim,
}


def _check(life: Life, *changes: str) -> None:
    life.live(life.steps)
    for change in changes:
        CHANGES[change](life)
        life.live(life.steps // 4)
    with life.served() as url:
        life.check(url)


@pytest.fixture
def move_clock(monkeypatch: pytest.MonkeyPatch) -> MoveClock:
    """Return a function that moves the clock of a server in this process."""
    ahead, system_ms = [0], clock.system_ms
    monkeypatch.setattr(clock, "system_ms", lambda: system_ms() + sum(ahead))
    return ahead.append


@pytest.mark.spec("H3", served=False)
@pytest.mark.parametrize("partitions", [1, 4])
def test_stored_answers_in_memory_are_given_again(partitions: int, move_clock: MoveClock) -> None:
    _check_in_memory(partitions, 0, 60, move_clock)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 21))
@pytest.mark.parametrize("partitions", [1, 4])
def test_more_answers_in_memory_are_given_again(partitions: int, seed: int, move_clock: MoveClock) -> None:
    _check_in_memory(partitions, seed, 300, move_clock)


def _check_in_memory(partitions: int, seed: int, steps: int, move_clock: MoveClock) -> None:
    with foldb.serve(partitions=partitions, ttl_interval_ms=20, clock_step_ms=0) as server:
        runs = live([server.endpoint_url], seed, steps, move_clock)
        assert sum(len(run.stored) for run in runs) > steps // 2
        check_again(server.endpoint_url, runs)


@pytest.mark.parametrize(
    ("partitions", "changes"), [(1, ("deleted histories", "trim")), (4, ("new epochs", "skip"))]
)
def test_stored_answers_are_given_again(partitions: int, changes: Sequence[str], tmp_path: Path) -> None:
    """Each server is killed."""
    _check(Life(tmp_path / "data", tmp_path / "clock", partitions, seed=0, steps=40), *changes)


def test_stored_answers_survive_a_power_cut(tmp_path: Path) -> None:
    with PowerDisk(tmp_path) as disk:
        _check(Life(disk.folder, tmp_path / "clock", 1, seed=1, steps=40, disk=disk))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 21))
@pytest.mark.parametrize("partitions", [1, 4])
def test_stored_answers_survive_every_change(partitions: int, seed: int, tmp_path: Path) -> None:
    """The changes come in any order, half of the runs with power cuts in place of kills."""
    changes = 2 * list(CHANGES)
    random.Random(f"changes {seed}").shuffle(changes)
    with PowerDisk(tmp_path, megabytes=256) as disk:
        has_power_cuts = seed % 2 == 0
        folder = disk.folder if has_power_cuts else tmp_path / "data"
        life = Life(folder, tmp_path / "clock", partitions, seed, 100, disk if has_power_cuts else None)
        _check(life, *changes)
