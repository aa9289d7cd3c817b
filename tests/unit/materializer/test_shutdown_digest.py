"""The digest that an owner appends when it stops, to verify later refolds."""

import pytest

from foldb.log.commands import Command, Digest, Genesis
from foldb.log.memory_log import MemoryLog
from foldb.materializer import digest_task
from foldb.materializer.fold.dump import digest
from foldb.materializer.fold.state import PartitionState
from foldb.materializer.refold import refold
from foldb.model.errors import AppendUnknownError
from tests.unit.materializer.ledger import put
from tests.unit.materializer.test_worker import Bench, order


def close(bench: Bench) -> bool:
    """Close the bench's worker as an owner does, and return whether it has closed."""
    closed: list[bool] = []
    bench.worker.close(lambda: closed.append(True), leave_digest=True)
    bench.run()
    return closed == [True]


def last_command(log: MemoryLog) -> Command:
    return [command for record in log.read(0) for command in record.entry.commands][-1]


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.submit(put(bench.table(), order(1)))
    bench.run()
    return bench


@pytest.mark.guarantee("G14")
def test_the_last_entry_is_the_digest_of_all_before_it(bench: Bench) -> None:
    bench.submit(put(bench.worker.state.tables[1], order(2)))

    assert close(bench)

    *records, last = bench.log.read(0)
    state = PartitionState()
    refold(state, records)
    assert [Digest(records[-1].offset, digest(state))] == last.entry.commands


def test_nothing_is_left_of_a_log_that_has_only_begun() -> None:
    bench = Bench()

    assert close(bench)
    assert isinstance(last_command(bench.log), Genesis)


def test_nothing_is_left_where_nothing_happened_since(bench: Bench) -> None:
    close(bench)
    end = bench.log.end(0)

    assert close(Bench(bench.log))
    assert end == bench.log.end(0)


def test_the_next_stop_digests_commands_before_a_crash(bench: Bench) -> None:
    assert close(Bench(bench.log))
    assert isinstance(last_command(bench.log), Digest)


def test_a_large_state_leaves_none(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digest_task, "DIGEST_ITEMS_MAX", 0)
    end = bench.log.end(0)

    assert close(bench)
    assert end == bench.log.end(0)


def test_large_items_leave_none(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digest_task, "DIGEST_BYTES_MAX", 4)
    end = bench.log.end(0)

    assert close(bench)
    assert end == bench.log.end(0)


def test_a_full_disk_does_not_keep_an_owner_from_stopping(bench: Bench) -> None:
    closed: list[bool] = []
    bench.worker.close(lambda: closed.append(True), leave_digest=True)
    bench.loop.settle()
    bench.log.fail()

    assert [True] == closed


def test_a_worker_that_went_wrong_leaves_none(bench: Bench) -> None:
    bench.submit(put(bench.worker.state.tables[1], order(2)))
    bench.loop.settle()
    bench.log.fail(AppendUnknownError("the disk failed"))
    end = bench.log.end(0)

    assert close(bench)
    assert end == bench.log.end(0)
