"""Code that crashes, hangs, hogs or floods: its process pays for it, the batch fails, and the next one is served."""

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
def test_a_process_that_ends_itself_fails_the_batch(hostile: Folder) -> None:
    verdict = hostile.deliver(function("leave"))

    assert verdict == Failure("app:leave: its process ended: exit status 7")


def test_a_crash_names_its_signal_and_shows_what_was_printed_last(hostile: Folder) -> None:
    verdict = hostile.deliver(function("crash"))

    assert verdict == Failure("app:crash: its process ended: killed by SIGSEGV", "about to crash\n")


@pytest.mark.guarantee("G44")
def test_a_loop_without_end_is_ended_and_told_with_its_line(hostile: Folder) -> None:
    verdict = hostile.deliver(function("spin"), timeout_s=0.5)

    assert isinstance(verdict, Failure)
    assert verdict.error == "app:spin: took longer than 0.5 s and was ended"
    assert verdict.traceback is not None
    assert re.search(r'app\.py", line 1[67] in spin', verdict.traceback)
    assert "streams/workers" not in verdict.traceback


@pytest.mark.guarantee("SEC26")
def test_what_ignores_every_signal_is_killed_with_all_that_it_started(hostile: Folder) -> None:
    assert isinstance(hostile.deliver(function("sleep"), timeout_s=1), Failure)

    _assert_gone(int(hostile.out))


@pytest.mark.guarantee("SEC26")
def test_memory_is_bounded(hostile: Folder) -> None:
    verdict = hostile.deliver({**function("hog"), "MemorySize": 512})

    assert isinstance(verdict, Failure)
    assert verdict.error == "MemoryError"


def test_a_file_is_bounded(hostile: Folder) -> None:
    verdict = hostile.deliver(function("fill"))

    assert isinstance(verdict, Failure)
    assert "File too large" in verdict.error or "SIGXFSZ" in verdict.error


@pytest.mark.guarantee("SEC26")
def test_a_gigabyte_of_output_is_read_and_dropped(hostile: Folder, caplog: pytest.LogCaptureFixture) -> None:
    """The first of it is logged, so that whoever looks knows; nothing grows with the rest, and the loop turns on."""
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
def test_after_a_crash_the_next_batch_is_served(hostile: Folder) -> None:
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
def test_a_process_that_has_no_room_left_is_followed_by_one_that_has(folder: Folder, taken: str) -> None:
    """
    How many processes there may be is counted for a user as a whole, and said when one begins: as others go on to be
    started it comes to have no room. Its files are its own, and may never be closed.
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
            verdict = await sink.deliver(batch(changes))
            assert isinstance(verdict, Failure)
            assert verdict.error.startswith(("ValueError", "OSError"))

    folder.using(function("f"), three)

    first, second, third = folder.out.split()
    assert first == second != third


def test_a_delivery_that_is_cancelled_ends_soon_and_leaves_no_process(hostile: Folder) -> None:
    async def cancelled(sink: Sink) -> None:
        delivering = asyncio.ensure_future(sink.deliver(batch(numbered(1))))
        while not hostile.out:
            await asyncio.sleep(0)
        delivering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await delivering

    hostile.using(function("sleep"), cancelled)

    _assert_gone(int(hostile.out))


def test_a_process_that_forked_and_is_gone_does_not_keep_the_batch(hostile: Folder) -> None:
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
def test_a_process_that_the_function_forked_answers_for_nobody(
    folder: Folder, definition: str, leaves: str, status: int
) -> None:
    """It comes back from the function first, and would have the change be done, or go on with the next."""
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

    for verdict in folder.using(function("f"), twice):
        assert isinstance(verdict, Failure | PartialFailure)
        assert verdict.error == f"ValueError: it left {status}"


def test_a_process_that_a_module_forked_while_it_was_imported_answers_for_nobody(folder: Folder) -> None:
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

    verdict = folder.deliver(function("f"), numbered(1))

    assert isinstance(verdict, PartialFailure)
    assert verdict.error == "ValueError: of the parent"


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

    verdict = folder.deliver(function("f"), numbered(1))

    assert isinstance(verdict, PartialFailure)
    assert verdict.error == "ValueError: 90"


@pytest.mark.guarantee("SEC26")
def test_nothing_of_the_servers_environment_is_seen(hostile: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLDB_CLUSTER_SECRET", "hush")
    hostile.write(
        "app.py",
        "import os\ndef f(change):\n    raise ValueError(' '.join(sorted(os.environ)) + ' in ' + os.getcwd())",
    )

    verdict = hostile.deliver(function("f"), numbered(1))

    assert isinstance(verdict, PartialFailure)
    names, _, where = verdict.error.removeprefix("ValueError: ").partition(" in ")
    assert set(names.split()) - {"LC_CTYPE"} == {
        "AWS_ACCESS_KEY_ID", "AWS_CONFIG_FILE", "AWS_DEFAULT_REGION", "AWS_EC2_METADATA_DISABLED",
        "AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL_DYNAMODB_STREAMS", "AWS_REGION", "AWS_SDK_UA_APP_ID",
        "AWS_SECRET_ACCESS_KEY", "AWS_SHARED_CREDENTIALS_FILE", "HOME", "LANG", "OUT", "PATH", "PYTHONUNBUFFERED",
        "TMPDIR", "TZ",
    }  # fmt: skip
    assert Path(where).parents[1] == hostile.scratch


@pytest.mark.parametrize("name", [".", "..", "declarations", "receipts"])
def test_a_crew_removes_its_own_folder_and_nothing_beside_it(folder: Folder, name: str) -> None:
    """Whatever its subscription is called: a log of before may hold any name. `dlq retry` has a crew beside another."""
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


def test_children_end_with_a_server_that_is_killed(hostile: Folder) -> None:
    """Whatever they do: here one hangs, and has started another process."""
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
    """It ends; who is nobody's child is collected by the system a moment later."""
    ends = time.monotonic() + 30
    while time.monotonic() < ends:
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return
        if state == "Z":
            return
    pytest.fail(f"process {process} still runs")
