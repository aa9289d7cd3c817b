"""Processes that user code detaches: a fork, a session of its own, and a parent that ends."""

import fcntl
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from foldb.streams.sinks.sink import Failure, Sink, Success
from tests.support.raw import ask
from tests.support.served import killed, served
from tests.support.subscribed import settle
from tests.support.tables import table_request
from tests.unit.streams.deliveries import numbered
from tests.unit.streams.sinks.context import batch
from tests.unit.streams.workers.test_isolation import _assert_gone
from tests.unit.streams.workers.working import Folder, command, function

DAEMON = """
import os, signal, time
from pathlib import Path
from foldb import Change, trigger

def detach():
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))
            os.write(writing, str(os.getpid()).encode())
            os.execvp("sleep", ["sleep", "600"])
        os._exit(0)
    os.wait()
    Path(os.environ["OUT"]).write_text(os.read(reading, 20).decode())

@trigger("Orders")
def leave(change: Change):
    detach()

def hang(changes: list[Change]):
    detach()
    time.sleep(600)

def die(changes: list[Change]):
    detach()
    os.killpg(0, signal.SIGKILL)
"""


@pytest.fixture
def daemons(folder: Folder) -> Folder:
    folder.write("app.py", DAEMON)
    return folder


@pytest.mark.guarantee("G45", "SEC26")
@pytest.mark.parametrize("serve", [served, killed])
def test_a_daemon_of_a_function_ends_with_the_server(
    daemons: Folder, tmp_path: Path, serve: Callable[..., AbstractContextManager[str]]
) -> None:
    with serve(tmp_path / "data", "--triggers", str(daemons.path)) as url:
        ask(url, "CreateTable", table_request("Orders", "id:S"))
        ask(url, "PutItem", {"TableName": "Orders", "Item": {"id": {"S": "o-1"}}})
        settle(url)

        assert Path(f"/proc/{daemons.out}").exists()

    _assert_gone(int(daemons.out))


def test_a_daemon_of_a_function_ends_with_its_worker(daemons: Folder) -> None:
    assert daemons.deliver(function("leave"), numbered(1)) == Success()

    assert not Path(f"/proc/{daemons.out}").exists()


@pytest.mark.guarantee("G45")
def test_a_daemon_ends_with_a_call_that_times_out(daemons: Folder) -> None:
    result = daemons.deliver(function("hang"), timeout_s=1)

    assert isinstance(result, Failure)
    assert not Path(f"/proc/{daemons.out}").exists()


def test_a_daemon_ends_when_user_code_kills_its_group(daemons: Folder) -> None:
    """The group is the worker's own: the supervisor, which ends the daemon, is outside it."""
    result = daemons.deliver(function("die"))

    assert result == Failure("app:die: its process ended: killed by SIGKILL")
    assert not Path(f"/proc/{daemons.out}").exists()


def test_user_code_that_kills_its_supervisor_ends_too(folder: Folder) -> None:
    folder.write(
        "app.py",
        """
        import os, signal, time
        from pathlib import Path

        def f(change):
            Path(os.environ["OUT"]).write_text(str(os.getpid()))
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(600)
        """,
    )

    result = folder.deliver(function("f"), numbered(1))

    assert result == Failure("app:f: its process ended: killed by SIGKILL")
    _assert_gone(int(folder.out))


@pytest.mark.guarantee("G45", "SEC26")
def test_a_daemon_of_a_command_ends_with_the_command(folder: Folder) -> None:
    folder.write(
        "leave.sh",
        '#!/bin/sh\nsetsid sh -c \'echo $$ > "$OUT"; exec sleep 600\' &\nuntil [ -s "$OUT" ]; do :; done\n',
    )

    async def gone(sink: Sink) -> bool:
        assert await sink.deliver(batch(numbered(1))) == Success()
        return not Path(f"/proc/{folder.out.strip()}").exists()

    assert folder.using(command("./leave.sh"), gone)


@pytest.mark.guarantee("SEC26")
def test_a_chain_of_forking_processes_is_ended(folder: Folder) -> None:
    """Each process lives briefly: one that is found may have forked its successor already."""
    folder.write(
        "app.py",
        """
        import fcntl, os

        def hop(change):
            reading, writing = os.pipe()
            if os.fork():
                return os.read(reading, 1)
            held = open(os.environ["OUT"], "w")
            fcntl.flock(held, fcntl.LOCK_EX)
            os.setsid()
            os.write(writing, b"x")
            for _ in range(20_000):  # and no more, where nothing ends it
                if os.fork():
                    os._exit(0)
        """,
    )

    assert folder.deliver(function("hop"), numbered(1)) == Success()

    with (folder.path.parent / "out").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
