"""A disk process writes and syncs for a log. If one of both dies, nothing is lost or acknowledged early."""

import os
import queue
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from foldb.log.local import LocalLog, disk_process, disk_worker
from foldb.log.local.disk_process import COMMAND, MOST_BYTES, DiskProcess, DiskWrite, Done
from foldb.log.local.writer import Fsync
from foldb.log.log import Appended, Log
from foldb.model.errors import AppendUnknownError, LogError, LogLockedError
from tests.unit.contracts.log_contract import LogContract, Logs, Loop, entry

# Programs that are a disk process with a disk of a certain kind.
STALLED = """
import os, runpy, time
from pathlib import Path
def fdatasync(descriptor, sync=os.fdatasync):
    while os.path.exists({stalled!r}):
        Path({stalled!r} + " now").touch()
        time.sleep(0.01)
    sync(descriptor)
os.fdatasync = fdatasync
runpy.run_path({worker!r}, run_name="__main__")
"""
SLOW_MARK = """
import os, runpy, time
def pwrite(descriptor, data, position, write=os.pwrite):
    if position == 0:
        time.sleep(0.02)
    return write(descriptor, data, position)
os.pwrite = pwrite
runpy.run_path({worker!r}, run_name="__main__")
"""
FAILING = """
import errno, os, runpy
def fdatasync(descriptor): raise OSError(errno.EIO, "planted")
os.fdatasync = fdatasync
runpy.run_path({worker!r}, run_name="__main__")
"""

# A program that is killed while its disk process syncs.
OWNER = """
import sys
from pathlib import Path
from foldb.log.local import disk_process
from tests.unit.log.test_disk_process import Opened, WatchingLoop, command, STALLED
folder, stalled = map(Path, sys.argv[1:])
disk_process.COMMAND = command(STALLED, stalled=str(stalled))
opened = Opened(folder, WatchingLoop())
opened.start()
opened.stall(stalled)
print("stalled", flush=True)
sys.stdin.read()
"""


class WatchingLoop(Loop):
    """An owner's loop that also watches descriptors."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = selectors.DefaultSelector()

    def watch(self, descriptor: int, callback: Callable[[], None]) -> None:
        self._selector.register(descriptor, selectors.EVENT_READ, callback)

    def unwatch(self, descriptor: int) -> None:
        if descriptor in self._selector.get_map():
            self._selector.unregister(descriptor)

    def turn(self, until: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not until():
            assert time.monotonic() < deadline
            with suppress(queue.Empty):
                self._callbacks.get(timeout=0.005)()
            for key, _ in self._selector.select(timeout=0):
                key.data()


@pytest.fixture
def loop() -> WatchingLoop:
    return WatchingLoop()


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process starts with the first entry."""
    monkeypatch.setattr(disk_process, "STARTS_AFTER", 1)


class CountingProcess(DiskProcess):
    """A disk process that counts its groups."""

    groups = 0

    def write(self, write: DiskWrite, done: Done) -> None:
        self.groups += 1
        super().write(write, done)


class Opened:
    """A log with a disk process, the number of its appends, and their results."""

    def __init__(
        self, path: Path, loop: WatchingLoop, segment_bytes: int = 32 << 20, fsync: Fsync = "always"
    ) -> None:
        self.sent = 0
        self.results: list[Appended | LogError] = []
        self.fatal: list[BaseException] = []
        self.process = CountingProcess(loop.watch, loop.unwatch, {})
        self._loop = loop
        self.log = LocalLog(
            path,
            clock=lambda: 1000,
            deliver=loop.deliver,
            random_bytes=lambda size: b"l" * size,
            on_fatal=self.fatal.append,
            fsync=fsync,
            segment_bytes=segment_bytes,
            disk_writer=self.process,
        )

    def send(self, count: int, size: int = 10) -> None:
        """Append the next entries."""
        for _ in range(count):
            self.log.append(0, entry(self.sent, size), self.results.append)
            self.sent += 1

    def append(self, count: int, size: int = 10) -> None:
        """Append the next entries, one after the other."""
        for _ in range(count):
            self.send(1, size)
            self._loop.turn(lambda: len(self.results) == self.sent)

    def start(self) -> int:
        """Append until the process has written; return its process id."""
        while not self.process.groups:
            self.append(1)
        assert self.process.pid is not None
        return self.process.pid

    def stall(self, stalled: Path) -> None:
        """Append until the process of STALLED is in a sync that does not end, with two entries unanswered.

        The thread writes those that come while it prepares the next segment.
        """
        stalled.touch()

        def has_stalled() -> bool:
            if len(self.results) == self.sent:
                self.send(2)
            return Path(f"{stalled} now").exists()

        self._loop.turn(has_stalled)


@pytest.fixture
def stalled(tmp_path: Path, loop: WatchingLoop, monkeypatch: pytest.MonkeyPatch) -> tuple[Opened, Path]:
    """Return a log whose process is in a sync, with two entries unanswered, and the file that holds the sync up."""
    stalled = tmp_path / "stalled"
    monkeypatch.setattr(disk_process, "COMMAND", command(STALLED, stalled=str(stalled)))
    opened = Opened(tmp_path / "data", loop)
    opened.start()
    opened.stall(stalled)
    return opened, stalled


@pytest.fixture
def opened(tmp_path: Path, loop: WatchingLoop) -> Iterator[Opened]:
    opened = Opened(tmp_path / "data", loop)
    yield opened
    opened.log.close()


def fail(error: BaseException) -> None:
    raise AssertionError("the disk failed") from error


def numbers(path: Path) -> list[int]:
    return [record.entry.entry_number for record in LocalLog.open_reader(path).read(0, 1)]


@pytest.mark.parametrize("segment_bytes", [1, 32 << 20])
class TestLogWithDiskProcess(LogContract):
    @pytest.fixture
    def loop(self) -> Loop:
        return WatchingLoop()

    @pytest.fixture
    def logs(self, loop: Loop, tmp_path: Path, segment_bytes: int) -> Logs:
        def make(partitions: int, clock: Callable[[], int]) -> Log:
            assert isinstance(loop, WatchingLoop)
            return LocalLog(
                tmp_path / "data",
                clock=clock,
                deliver=loop.deliver,
                random_bytes=lambda size: b"l" * size,
                on_fatal=fail,
                segment_bytes=segment_bytes,
                partitions=partitions,
                disk_writer=DiskProcess(loop.watch, loop.unwatch, {}),
            )

        return make


def test_a_reader_shows_an_entry_as_soon_as_it_is_acknowledged(
    tmp_path: Path, loop: WatchingLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_process, "COMMAND", command(SLOW_MARK))
    opened = Opened(tmp_path / "data", loop)
    opened.start()
    reader = LocalLog.open_reader(tmp_path / "data")
    for _ in range(50):
        opened.append(1)
        assert 1 + opened.sent == reader.end(0)
    opened.log.close()

    assert opened.process.groups > 40
    assert list(range(opened.sent)) == numbers(tmp_path / "data")


def test_entries_larger_than_the_socket_has_room_for_are_written_too(opened: Opened, tmp_path: Path) -> None:
    opened.start()
    for number in range(8):
        opened.append(1, size=MOST_BYTES // 2 * (number % 4))
    opened.log.close()
    assert list(range(opened.sent)) == numbers(tmp_path / "data")


def test_segments_begin_while_a_process_writes(tmp_path: Path, loop: WatchingLoop) -> None:
    opened = Opened(tmp_path / "data", loop, segment_bytes=20_000)
    opened.start()
    opened.append(100, size=1000)
    opened.log.close()

    assert len(list((tmp_path / "data").glob("*.avro"))) > 4
    assert opened.process.groups > 50
    assert list(range(opened.sent)) == numbers(tmp_path / "data")


def test_the_thread_waits_for_the_write_of_the_process(
    tmp_path: Path, loop: WatchingLoop, stalled: tuple[Opened, Path]
) -> None:
    opened, stalling = stalled
    thread = threading.Thread(target=opened.log.maintain)
    thread.start()
    thread.join(0.2)
    has_waited = thread.is_alive()
    stalling.unlink()
    loop.turn(lambda: len(opened.results) == opened.sent)
    thread.join()
    opened.log.close()

    assert has_waited
    assert list(range(opened.sent)) == numbers(tmp_path / "data")


@pytest.mark.parametrize("fsync", ["interval", "never"])
def test_a_log_that_syncs_later_has_no_process(fsync: Fsync, tmp_path: Path, loop: WatchingLoop) -> None:
    opened = Opened(tmp_path / "data", loop, fsync=fsync)
    opened.append(10)
    opened.log.close()
    assert opened.process.pid is None


def test_a_log_goes_on_without_its_process(
    opened: Opened, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    os.kill(opened.start(), signal.SIGKILL)
    opened.append(20)

    assert "the disk process" in caplog.text
    assert 1 + opened.sent == LocalLog.open_reader(tmp_path / "data").end(0)
    assert list(range(opened.sent)) == numbers(tmp_path / "data")
    assert not opened.fatal


@pytest.mark.guarantee("G1")
def test_a_process_that_dies_during_a_sync_loses_nothing(
    tmp_path: Path, loop: WatchingLoop, stalled: tuple[Opened, Path]
) -> None:
    opened, _ = stalled
    assert opened.sent - 2 == len(opened.results)
    assert opened.process.pid is not None
    os.kill(opened.process.pid, signal.SIGKILL)
    loop.turn(lambda: len(opened.results) == opened.sent)
    opened.log.close()

    assert all(isinstance(result, Appended) for result in opened.results)
    assert list(range(opened.sent)) == numbers(tmp_path / "data")


@pytest.mark.guarantee("G1")
def test_a_failed_sync_of_the_process_stops_the_log(
    tmp_path: Path, loop: WatchingLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_process, "COMMAND", command(FAILING))
    opened = Opened(tmp_path / "data", loop)
    opened.start()
    opened.append(1)
    loop.turn(lambda: bool(opened.fatal))
    opened.log.close()

    *earlier, first, second = opened.results
    assert all(isinstance(result, Appended) for result in earlier)
    assert isinstance(first, AppendUnknownError)
    assert isinstance(second, AppendUnknownError)
    assert list(range(len(earlier))) == numbers(tmp_path / "data")


@pytest.mark.guarantee("G1")
def test_the_process_of_a_killed_log_keeps_others_out_until_it_ends(
    tmp_path: Path, loop: WatchingLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So no other log continues while a write of the dead one is under way. A start waits for a moment."""
    stalled, data = tmp_path / "stalled", tmp_path / "data"
    program = [sys.executable, "-c", OWNER, str(data), str(stalled)]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        assert "stalled\n" == owner.stdout.readline()
        owner.kill()
    with monkeypatch.context() as patch:
        patch.setattr("foldb.log.local.recovery._TRIES", 3)
        with pytest.raises(LogLockedError):
            Opened(data, loop)
    stalled.unlink()
    Opened(data, loop).log.close()
    assert [0, 1] == numbers(data)[:2]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_process_ignores_the_signals_that_stop_a_server(opened: Opened, number: signal.Signals) -> None:
    process_id = opened.start()
    os.kill(process_id, number)
    opened.append(10)
    os.kill(process_id, 0)


def test_a_closed_log_has_no_process(tmp_path: Path, loop: WatchingLoop) -> None:
    opened = Opened(tmp_path / "data", loop)
    process_id = opened.start()
    opened.send(1)
    opened.log.close()

    with pytest.raises(ProcessLookupError):
        os.kill(process_id, 0)
    assert opened.sent == len(numbers(tmp_path / "data"))


def test_without_room_for_a_process_the_thread_writes(
    tmp_path: Path, loop: WatchingLoop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(disk_process, "COMMAND", [str(tmp_path / "no such program")])
    opened = Opened(tmp_path / "data", loop)
    opened.append(10)
    opened.append(10)
    opened.log.close()

    assert "cannot start the disk process" in caplog.text
    assert list(range(opened.sent)) == numbers(tmp_path / "data")


def test_the_process_imports_nothing_of_foldb() -> None:
    program = f"import runpy, sys; runpy.run_path({disk_worker.__file__!r}); print(*sys.modules)"
    started = subprocess.run([*COMMAND[:3], "-c", program], capture_output=True, text=True, check=True)
    modules = started.stdout.split()
    assert "socket" in modules
    assert not {"asyncio", "ctypes", "foldb", "subprocess"} & set(modules)


def command(program: str, **values: str) -> list[str]:
    return [sys.executable, "-c", program.format(worker=disk_worker.__file__, **values)]
