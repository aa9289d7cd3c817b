"""A stalled disk: the queue is bounded in bytes, reads continue, and every write is answered."""

from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import islice
from pathlib import Path

import pytest

from tests.support.raw import ask
from tests.support.served import Process
from tests.support.write_ledger import TABLE, Ledger, Request, Writers, create, put
from tests.verification.crash.programs import with_stalled_sync

ITEM_BYTES = 10_000
QUEUE_BYTES = "50000"
PUTS = 40


@pytest.mark.guarantee("G6")
def test_a_stalled_disk_throttles_writes_and_serves_reads(tmp_path: Path) -> None:
    ledger, stalled = Ledger(), tmp_path / "stalled"
    program = with_stalled_sync(stalled)
    with (
        Process(tmp_path / "data", "--queue-bytes", QUEUE_BYTES, program=program) as server,
        ThreadPoolExecutor(PUTS) as clients,
    ):
        create(server.url)
        with Writers(ledger, server.url, writers=16) as writers:
            writers.wait_for(100)
            known = next(key for key, fate in ledger.items.copy().items() if fate == "acknowledged")
            stalled.touch()
            puts = [clients.submit(ask, server.url, *big(n)) for n in range(PUTS)]
            refused = [put.result() for put in islice(as_completed(puts), PUTS // 2)]
            read = ask(server.url, "GetItem", {"TableName": TABLE, "Key": {"pk": {"S": known}}})
            stalled.unlink()
            writers.wait_for(100)
        assert {200, 400} == {put.result().status for put in puts}
        assert "in doubt" not in ledger.answers
        server.kill()
    with Process(tmp_path / "data") as server:
        for n, put in enumerate(puts):
            key = big(n)[1]["Item"]["pk"]
            delete = {"TableName": TABLE, "Key": {"pk": key}, "ReturnValues": "ALL_OLD"}
            was_there = "Attributes" in ask(server.url, "DeleteItem", delete).body
            assert was_there == (put.result().status == 200)
        ledger.check(server.url)

    assert {400} == {answer.status for answer in refused}
    assert all(answer.body["__type"].endswith("#ThrottlingException") for answer in refused)
    assert (200, True) == (read.status, "Item" in read.body)


def test_a_kill_during_a_stalled_sync_finds_no_early_answers(
    tmp_path: Path,
) -> None:
    ledger, stalled = Ledger(), tmp_path / "stalled"
    with Process(tmp_path / "data", program=with_stalled_sync(stalled)) as server:
        create(server.url)
        with Writers(ledger, server.url, writers=16) as writers:
            writers.wait_for(50)
            stalled.touch()
            before = ledger.answers["acknowledged"]
            ask(server.url, "DescribeTable", {"TableName": TABLE})
            server.kill()
            writers.join()
    with Process(tmp_path / "data") as server:
        ledger.check(server.url)
    assert ledger.answers["acknowledged"] - before <= 16


def big(number: int) -> Request:
    """Return a put of an item so large that few fit into the queue."""
    return put(f"big {number}", {"S": "x" * ITEM_BYTES})
