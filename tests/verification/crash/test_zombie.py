"""A stopped process keeps its folder. Another server can open it only after the process has died."""

import signal
from pathlib import Path

import pytest

from tests.support.served import Process, foldb
from tests.support.write_ledger import Ledger, Writers, create


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.mark.guarantee("G17")
def test_a_paused_server_resumes_as_the_only_owner_of_its_folder(ledger: Ledger, tmp_path: Path) -> None:
    with Process(tmp_path) as server:
        create(server.url)
        with Writers(ledger, server.url, writers=16) as writers:
            writers.wait_for(100)
            server.signal(signal.SIGSTOP)
            second = foldb("serve", "--port", "0", "--db", tmp_path)
            server.signal(signal.SIGCONT)
            writers.wait_for(100)
        ledger.check(server.url)
        server.terminate()

    assert (8, True) == (second.returncode, "is in use by another process" in second.stderr), second
    assert "in doubt" not in ledger.answers


def test_a_server_killed_while_paused_frees_its_folder(ledger: Ledger, tmp_path: Path) -> None:
    with Process(tmp_path) as server:
        create(server.url)
        with Writers(ledger, server.url, writers=16) as writers:
            writers.wait_for(100)
            server.signal(signal.SIGSTOP)
            server.kill()
    with Process(tmp_path) as server:
        ledger.check(server.url)
        with Writers(ledger, server.url, run=1, writers=16) as writers:
            writers.wait_for(100)
        ledger.check(server.url)
