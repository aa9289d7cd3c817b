"""The operation Digest: one computation at a time, each of the state at which it was begun."""

import asyncio
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from foldb.materializer import digest_task as digesting_module
from foldb.materializer.fold.dump import digest
from foldb.materializer.fold.state import PartitionState
from foldb.materializer.refold import refold
from foldb.server.partitions.digest_jobs import DigestJobs
from tests.unit.materializer.ledger import put
from tests.unit.materializer.test_worker import Bench, order


class Asking:
    """A bench with a table of fifty items, and Digest requests to it."""

    def __init__(self) -> None:
        self.bench = Bench()
        self.table = self.bench.table()
        for number in range(50):
            self.write(number)
        worker = self.bench.worker
        hosted: Any = {0: SimpleNamespace(worker=worker, state=worker.state)}
        partitions: Any = SimpleNamespace(count=1, hosted=hosted, snapshots=lambda _: None)
        self.digests = DigestJobs(partitions, self.bench.loop)

    def write(self, number: int) -> None:
        answers = self.bench.submit(put(self.table, order(number)))
        while not answers:
            self.bench.loop.turn()
            self.bench.log.commit()

    def ask(self) -> list[dict[str, Any]]:
        """Request a digest, and return the list that the answer will be in."""
        answers: list[dict[str, Any]] = []
        self.digests.ask(lambda answer: answers.append(orjson.loads(answer[0])))
        return answers

    def digest_as_of(self, position: str) -> str:
        state = PartitionState()
        refold(state, (record for record in self.bench.log.read(0) if record.offset <= int(position)))
        return digest(state)


@pytest.fixture(autouse=True)
def _small_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digesting_module, "PORTION_BYTES", 500)


def test_a_digest_is_of_the_position_that_it_names() -> None:
    asking = Asking()
    before = str(asking.bench.worker.position.offset)

    answers = asking.ask()
    while not answers:
        asking.write(100)

    [answer] = answers
    assert (before, asking.digest_as_of(before)) == (answer["Position"], answer["Digest"])
    assert ["Orders"] == [*answer["Tables"]]


def test_requests_beside_a_digest_share_the_next() -> None:
    """Each of them sees the writes that were acknowledged before it."""
    asking = Asking()
    first = asking.ask()
    asking.write(100)
    later = asking.ask(), asking.ask()
    after = asking.bench.worker.position.offset

    turns = 0
    while not first:
        asking.bench.loop.turn()
        turns += 1
    assert turns > 3
    assert ([], []) == later

    asking.bench.loop.settle()
    assert later[0] == later[1]
    assert str(after) == later[0][0]["Position"]
    assert asking.digest_as_of(str(after)) == later[0][0]["Digest"]


async def test_a_digest_at_an_offset_is_of_that_entry() -> None:
    """Writes go on while the digest is computed."""
    asking = Asking()
    offset = asking.bench.worker.position.offset + 2
    answer = asyncio.create_task(asking.digests.at(0, offset))
    await asyncio.sleep(0)

    for number in range(100, 104):
        asking.write(number)
    asking.bench.loop.settle()

    found = await answer
    assert (offset, asking.digest_as_of(str(offset))) == (found["folded"], found["digest"])


async def test_an_offset_that_is_passed_has_no_digest() -> None:
    asking = Asking()
    last = asking.bench.worker.position.offset

    assert {"folded": last} == await asking.digests.at(0, last - 1)


async def test_an_offset_that_is_not_reached_has_no_digest() -> None:
    asking = Asking()
    last = asking.bench.worker.position.offset
    answer = asyncio.create_task(asking.digests.at(0, last + 1))
    await asyncio.sleep(0)

    asking.bench.loop.advance(2)

    assert {"folded": last} == await answer
    assert () == asking.bench.worker.on_records.callbacks
