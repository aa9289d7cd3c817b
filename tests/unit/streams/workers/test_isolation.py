"""Code that crashes, hangs, or uses too many resources fails its batch; the next batch is handled."""

import asyncio
import logging
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from foldb.streams.sinks import sink_kind
from foldb.streams.sinks.sink import DeliveryResult, Failure, PartialFailure, Sink, Success
from tests.unit.streams.deliveries import numbered
from tests.unit.streams.sinks.context import batch, sink_context
from tests.unit.streams.workers.working import Folder, function

HOSTILE = """
import ctypes, os, signal, subprocess, sys, time
from pathlib import Path
from foldb import Change

calls = 0

def leave(changes: list[Change]):
    os._exit(7)

def crash(changes: list[Change]):
    print("about to crash", flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)

def spin(changes: list[Change]):
    while True:
        pass

def sleep(changes: list[Change]):
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(os.environ["OUT"]).write_text(str(child.pid))
    time.sleep(600)

def hog(changes: list[Change]):
    bytearray(1 << 40)

def flood(changes: list[Change]):
    line = b"x" * 65535 + b"\\n"
    for _ in range(1 << 14):
        os.write(1, line)

def fill(changes: list[Change]):
    with open("large", "wb") as file:
        file.seek(1 << 31)
        file.write(b"x")

def fine(changes: list[Change]):
    pass
"""


@pytest.fixture
def hostile(folder: Folder) -> Folder:
    folder.write("app.py", HOSTILE)
    return folder


@pytest.mark.guarantee("G44", "SEC26")
def test_a_process_that_exits_fails_the_batch(hostile: Folder) -> None:
    result = hostile.deliver(function("leave"))

    assert result == Failure("app:leave: its process ended: exit status 7")


def test_a_crash_names_its_signal_and_shows_the_last_output(hostile: Folder) -> None:
    result = hostile.deliver(function("crash"))

    assert result == Failure("app:crash: its process ended: killed by SIGSEGV", "about to crash\n")


@pytest.mark.guarantee("G44")
def test_an_endless_loop_is_ended_and_shows_its_line(hostile: Folder) -> None:
    result = hostile.deliver(function("spin"), timeout_s=0.5)

    assert isinstance(result, Failure)
    assert result.error == "app:spin: took longer than 0.5 s and was ended"
    assert result.traceback is not None
    assert re.search(r'app\.py", line 1[67] in spin', result.traceback)
    assert "streams/workers" not in result.traceback


@pytest.mark.guarantee("SEC26")
def test_code_that_ignores_signals_is_killed_with_its_processes(hostile: Folder) -> None:
    assert isinstance(hostile.deliver(function("sleep"), timeout_s=1), Failure)

    _assert_gone(int(hostile.out))


@pytest.mark.guarantee("SEC26")
def test_memory_is_bounded(hostile: Folder) -> None:
    result = hostile.deliver({**function("hog"), "MemorySize": 512})

    assert isinstance(result, Failure)
    assert result.error == "MemoryError"


def test_a_file_is_bounded(hostile: Folder) -> None:
    result = hostile.deliver(function("fill"))

    assert isinstance(result, Failure)
    assert "File too large" in result.error or "SIGXFSZ" in result.error


@pytest.mark.guarantee("SEC26")
def test_a_gigabyte_of_output_is_read_and_dropped(hostile: Folder, caplog: pytest.LogCaptureFixture) -> None:
    """The start is logged for the operator; memory does not grow with the rest, and the loop keeps running."""
    turns = 0

    async def flooded(sink: Sink) -> DeliveryResult:
        nonlocal turns
        delivering = asyncio.ensure_future(sink.deliver(batch(numbered(1))))
        while not delivering.done():
            await asyncio.wait([delivering], timeout=0.001)
            turns += 1
        return await delivering

    with caplog.at_level(logging.INFO):
        assert hostile.using(function("flood"), flooded) == Success()

    assert turns > 20
    assert sum(len(record.getMessage()) for record in caplog.records) < 1 << 18
    assert "the rest of this call's output is dropped" in caplog.text


@pytest.mark.guarantee("G44")
def test_the_next_batch_after_a_crash_is_handled(hostile: Folder) -> None:
    hostile.write(
        "app.py",
        "import os\ndef f(change):\n    os._exit(1) if change.new['order'] == 2 else None",
    )

    async def three(sink: Sink) -> list[DeliveryResult]:
        return [await sink.deliver(batch([change])) for change in numbered(3)]

    first, second, third = hostile.using(function("f"), three)

    assert (first, third) == (Success(), Success())
    assert isinstance(second, Failure)


@pytest.mark.parametrize(
    "taken",
    ["resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))", "kept.extend(map(open, 2000 * [os.devnull]))"],
)
def test_a_worker_without_free_resources_is_replaced(folder: Folder, taken: str) -> None:
    """
    The limit of processes counts all processes of a user and is set at the start, so other processes of the user may
    exhaust it. The file limit belongs to the worker, whose code may never close its files.
    """
    folder.write(
        "app.py",
        f"""
        import os, resource
        from pathlib import Path
        from foldb import Change

        kept = []

        def f(changes: list[Change]):
            with Path(os.environ["OUT"]).open("a") as file:
                file.write(f"{{os.getpid()}} ")
            if len(changes) == 1:
                {taken}
            raise ValueError
        """,
    )

    async def three(sink: Sink) -> None:
        for changes in (numbered(2), numbered(1), numbered(2)):
            result = await sink.deliver(batch(changes))
            assert isinstance(result, Failure)
            assert result.error.startswith(("ValueError", "OSError"))

    folder.using(function("f"), three)

    first, second, third = folder.out.split()
    assert first == second != third


def test_a_cancelled_delivery_leaves_no_process(hostile: Folder) -> None:
    async def cancelled(sink: Sink) -> None:
        delivering = asyncio.ensure_future(sink.deliver(batch(numbered(1))))
        while not hostile.out:
            await asyncio.sleep(0)
        delivering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await delivering

    hostile.using(function("sleep"), cancelled)

    _assert_gone(int(hostile.out))


def test_a_batch_ends_with_its_worker_despite_forks(hostile: Folder) -> None:
    hostile.write(
        "app.py",
        """
        import os, time
        def f(change):
            if os.fork() == 0:
                time.sleep(600)
            os._exit(3)
        """,
    )

    assert hostile.deliver(function("f"), numbered(1)) == Failure("app:f: its process ended: exit status 3")


@pytest.mark.parametrize(
    ("definition", "leaves", "status"),
    [
        ("def f(change):", "return", 0),
        ("def f(change):", "raise KeyError", 1),
        ("def f(change):", "sys.exit(3)", 3),
        ("def f(changes: list[Change]):", "sys.exit('no')", 1),
        ("async def f(change):", "return", 0),
    ],
)
def test_a_fork_of_a_function_does_not_answer(
    folder: Folder, definition: str, leaves: str, status: int
) -> None:
    """It returns from the function first, and would report success or handle the next change."""
    folder.write(
        "app.py",
        f"""
        import os, sys
        from pathlib import Path
        from foldb import Change

        {definition}
            forked = os.fork()
            if forked == 0:
                {leaves}
            _, status = os.waitpid(forked, 0)
            raise ValueError(f"it left {{os.waitstatus_to_exitcode(status)}}")
        """,
    )

    async def twice(sink: Sink) -> list[DeliveryResult]:
        return [await sink.deliver(batch(numbered(2))) for _ in range(2)]

    for result in folder.using(function("f"), twice):
        assert isinstance(result, Failure | PartialFailure)
        assert result.error == f"ValueError: it left {status}"


def test_a_fork_during_an_import_does_not_answer(folder: Folder) -> None:
    folder.write(
        "app.py",
        """
        import os

        forked = os.fork()
        if forked:
            os.waitpid(forked, 0)

        def f(change):
            raise ValueError("of the parent" if forked else "of the fork")
        """,
    )

    result = folder.deliver(function("f"), numbered(1))

    assert isinstance(result, PartialFailure)
    assert result.error == "ValueError: of the parent"


def test_a_pool_of_processes_works_in_a_function(folder: Folder) -> None:
    folder.write(
        "app.py",
        """
        import multiprocessing

        def double(n):
            return 2 * n

        def f(change):
            with multiprocessing.get_context("fork").Pool(2) as pool:
                raise ValueError(str(sum(pool.map(double, range(10)))))
        """,
    )

    result = folder.deliver(function("f"), numbered(1))

    assert isinstance(result, PartialFailure)
    assert result.error == "ValueError: 90"


@pytest.mark.guarantee("SEC26")
def test_the_servers_environment_is_hidden(hostile: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLDB_CLUSTER_SECRET", "hush")
    hostile.write(
        "app.py",
        "import os\ndef f(change):\n    raise ValueError(' '.join(sorted(os.environ)) + ' in ' + os.getcwd())",
    )

    result = hostile.deliver(function("f"), numbered(1))

    assert isinstance(result, PartialFailure)
    names, _, where = result.error.removeprefix("ValueError: ").partition(" in ")
    assert set(names.split()) - {"LC_CTYPE"} == {
        "AWS_ACCESS_KEY_ID", "AWS_CONFIG_FILE", "AWS_DEFAULT_REGION", "AWS_EC2_METADATA_DISABLED",
        "AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL_DYNAMODB_STREAMS", "AWS_REGION", "AWS_SDK_UA_APP_ID",
        "AWS_SECRET_ACCESS_KEY", "AWS_SHARED_CREDENTIALS_FILE", "HOME", "LANG", "OUT", "PATH", "PYTHONUNBUFFERED",
        "TMPDIR", "TZ",
    }  # fmt: skip
    assert Path(where).parents[1] == hostile.scratch


@pytest.mark.parametrize("name", [".", "..", "declarations", "receipts"])
def test_a_pool_removes_its_own_folder_alone(folder: Folder, name: str) -> None:
    """The subscription may have any name, because an older log may. `dlq retry` runs a pool beside another."""
    folder.write("app.py", "import os\ndef f(change):\n    open(os.environ['TMPDIR'] + '/here', 'w')")
    kept = [folder.scratch.parent / "kept", folder.scratch / "declarations" / "kept"]
    for path in kept:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    async def beside(sink: Sink) -> None:
        other = sink_kind(function("f")).make(
            function("f"), sink_context(folder.scratch, folder=folder.path, subscription=name)
        )
        for each in (sink, other):
            await each.start()
        await other.close()
        assert await sink.deliver(batch(numbered(1))) == Success()

    folder.using(function("f"), beside, subscription=name)

    assert all(path.exists() for path in kept)
    assert sorted(folder.scratch.rglob("*")) == sorted([*kept[1:], kept[1].parent])


def test_workers_end_with_a_killed_server(hostile: Folder) -> None:
    """One worker hangs, and has started another process."""
    program = textwrap.dedent(
        f"""
        import asyncio, os
        from pathlib import Path
        from foldb.streams.sinks import sink_kind
        from tests.unit.streams.workers.working import function
        from tests.unit.streams.deliveries import numbered
        from tests.unit.streams.sinks.context import batch, sink_context

        async def main():
            settings = function("sleep")
            sink = sink_kind(settings).make(
                settings, sink_context(Path({str(hostile.scratch)!r}), folder=Path({str(hostile.path)!r}))
            )
            await sink.start()
            asyncio.ensure_future(sink.deliver(batch(numbered(1))))
            out = Path({str(hostile.path.parent / "out")!r})
            while not out.exists() or not out.read_text():
                await asyncio.sleep(0)
            os.kill(os.getpid(), 9)

        asyncio.run(main())
        """
    )
    root = Path(__file__).parents[4]
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr

    _assert_gone(int(hostile.out))


def _assert_gone(process: int) -> None:
    """Wait until a process ends; the system reaps an orphan a moment later."""
    ends = time.monotonic() + 30
    while time.monotonic() < ends:
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return
        if state == "Z":
            return
    pytest.fail(f"process {process} still runs")
