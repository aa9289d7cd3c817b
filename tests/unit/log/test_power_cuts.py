"""Power cuts in a row, sector by sector: groups of all sizes, filled segments, rolls, and cuts while recovering.

What was acknowledged is there afterwards, and what was served once stays. The states are compared, not the numbers of
records: the digest after each record is known beforehand. On a disk whose syncs do nothing the same test fails, or it
would prove nothing.
"""

import contextlib
import os
import random
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from foldb.log.local import LocalLog
from foldb.log.log import Appended
from foldb.materializer.fold.dump import digest
from foldb.materializer.fold.state import PartitionState
from foldb.materializer.refold import refold
from foldb.model.errors import FoldbError, LogError
from tests.unit.log import damage
from tests.unit.log.fake_disk import FakeDisk, PowerCut
from tests.unit.log.local_logs import Held, open_log
from tests.verification.reliability import record

SOAK = bool(os.environ.get("FOLDB_SOAK"))
pytestmark = [pytest.mark.soak] if SOAK else []

SEEDS = 3000 if SOAK else 200
CUTS = 6
# Entries have times of their own, because the test's clock restarts at each start and is part of the state.
ENTRIES = [replace(entry, time=10_000 + n) for n, entry in enumerate(damage.entries(120))]


@cache
def expected() -> tuple[str, ...]:
    """The digest of the state after each of the entries; the first is that of Genesis alone."""
    log = open_log(FakeDisk())
    for entry in ENTRIES:
        log.append(0, entry, lambda result: None)
    return tuple(damage.digests(list(log.read(0))))


class Machine:
    """A disk, a log on it, and the results that its clients received."""

    def __init__(self, dice: random.Random, *, syncs: bool = True) -> None:
        self.disk = FakeDisk()
        self.disk.syncs = syncs
        self.acknowledged = 0
        self.cuts = 0
        self._dice = dice
        self._segment_bytes = dice.choice([8900, 12_000, 1 << 20])

    def run(self) -> None:
        """Start, serve and lose power, again and again; then start once more."""
        for _ in range(CUTS):
            self._disturb()
            with contextlib.suppress(PowerCut):
                self._serve()
            self._lose_power()
        self._open(Held())

    def _disturb(self) -> None:
        """Let the power go at one of the next calls: of the start, of a roll, of a group or of filling ahead."""
        left = self._dice.choice([self._dice.randrange(1, 9), self._dice.randrange(1, 60)])

        def hook(call: str, path: Path) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise PowerCut

        self.disk.hook = hook
        self.disk.short = self._dice.random() < 0.2

    def _lose_power(self) -> None:
        self.disk.hook = lambda call, path: None
        self.disk.power_cut(self._dice)
        self.cuts += 1

    def _serve(self) -> None:
        held = Held()
        log = self._open(held)
        sent = self.acknowledged
        for _ in range(20):
            for _ in range(self._dice.randrange(1, 6)):
                if sent == len(ENTRIES):
                    return
                log.append(0, ENTRIES[sent], self._told)
                sent += 1
            held.close()
        if self._dice.random() < 0.3:
            log.close()

    def _told(self, result: Appended | LogError) -> None:
        assert isinstance(result, Appended)
        self.acknowledged = result.offset

    def _open(self, held: Held) -> LocalLog:
        """Start, and look whether all is there that clients know of."""
        log = open_log(self.disk, background=held, segment_bytes=self._segment_bytes)
        state = PartitionState()
        refold(state, log.read(0))
        served = state.next_offset - 1
        assert served >= self.acknowledged, f"{self.acknowledged} were acknowledged, {served} are there"
        assert digest(state) == expected()[served]
        self.acknowledged = served
        return log


@pytest.mark.parametrize("tenth", range(10))
def test_acknowledged_entries_survive_repeated_power_cuts(tenth: int) -> None:
    acknowledged = cuts = 0
    for seed in range(tenth, SEEDS, 10):
        machine = Machine(random.Random(seed))
        machine.run()
        acknowledged += machine.acknowledged
        cuts += machine.cuts
    record(
        test="log: power cuts of a disk in memory",
        seeds=f"{tenth}-{SEEDS - 10 + tenth} by tens",
        cycles=cuts,
        faults={"power cut": cuts},
        acknowledged=acknowledged,
        checked=acknowledged,
    )

    assert acknowledged > 20 * SEEDS // 10


def test_a_disk_whose_syncs_do_nothing_is_found_out() -> None:
    """The test can fail: where nothing is synced, nearly every seed loses something that was acknowledged."""
    found = 0
    for seed in range(20):
        with contextlib.suppress(AssertionError, FoldbError, OSError):
            Machine(random.Random(seed), syncs=False).run()
            found -= 1
        found += 1

    assert found >= 18
