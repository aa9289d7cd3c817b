"""Every system call that changes a disk fails, or is the last one, at each of its occurrences.

strace injects the fault into a real process on a real disk (workload.py). A normal start then has all acknowledged and
no refused writes, and makes the same state from its snapshot as from the whole log.
tests/unit/log does the same with a disk in memory, which can also lose power.
"""

import os
import random
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from foldb.log.local.filesystem import SystemFilesystem
from foldb.materializer.fold.dump import digest
from foldb.materializer.fold.state import PartitionState
from foldb.materializer.refold import refold
from foldb.materializer.snapshots import Snapshots
from tests.unit.materializer.fake_loop import FakeLoop
from tests.verification.crash.workload import Lives, live, lives, open_log
from tests.verification.reliability import record

SOAK = bool(os.environ.get("FOLDB_SOAK"))
# Of each call's occurrences; all of them in a long run.
POINTS = 1000 if SOAK else 1
CALLS = (
    "openat",
    "pwrite64",
    "ftruncate",
    "fdatasync",
    "fsync",
    "linkat",
    "rename",
    "unlink",
    "unlinkat",
)
FAULTS = {
    "killed": "signal=KILL:when={}",
    "EIO": "error=EIO:when={}",
    "EIO from then on": "error=EIO:when={}+",
    "ENOSPC": "error=ENOSPC:when={}",
    "ENOSPC from then on": "error=ENOSPC:when={}+",
    "EINTR": "error=EINTR:when={}",
}
# Calls that Python makes again when a signal interrupted them; but not the openat that lists a folder.
REPEATED = {"pwrite64", "ftruncate", "fdatasync", "fsync"}
pytestmark = [pytest.mark.soak] if SOAK else []


@pytest.fixture(scope="module")
def traced() -> Iterator[Lives]:
    if sys.platform != "linux" or shutil.which("strace") is None:
        pytest.skip("making calls of the system fail takes strace on Linux")
    with lives() as born:
        yield born


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, list[str]]]:
    """The folders to begin with, and the fates of their writes: an empty one, and one after a crash."""
    root = tmp_path_factory.mktemp("before")
    reported: list[str] = []
    assert live(root / "torn", reported.append) == 0
    with max(root.joinpath("torn").glob("*.avro")).open("ab") as last:
        last.write(b"\x02\x90\x03" + b"half of a write")
    (root / "torn" / "00000000000000000099.avro.new").write_bytes(b"half of a segment")
    (root / "torn" / "snapshots" / "00000000000000000099.snapshot.new").write_bytes(b"half of a snapshot")
    return {"new": (root / "new", []), "torn": (root / "torn", reported)}


@pytest.fixture(scope="module")
def occurrences(
    traced: Lives, before: dict[str, tuple[Path, list[str]]], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Counter[str]]:
    """Return how often each system call occurs in a run without faults."""
    counts = {}
    for kind in before:
        root = tmp_path_factory.mktemp("counted")
        trace = root / "trace"
        reported, code = _life(traced, before[kind], root, "-o", str(trace), "-e", f"trace={','.join(CALLS)}")
        assert (code, {"acknowledged"}) == (0, {line.split(maxsplit=1)[1] for line in reported})
        counts[kind] = Counter(re.findall(r"^(\w+)\(", trace.read_text(), re.MULTILINE))
    assert counts["torn"].keys() >= set(CALLS)
    return counts


@pytest.mark.guarantee("G3")
@pytest.mark.parametrize("kind", ["new", "torn"])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("call", CALLS)
def test_any_system_call_may_fail_or_be_the_last(
    call: str,
    fault: str,
    kind: str,
    traced: Lives,
    before: dict[str, tuple[Path, list[str]]],
    occurrences: dict[str, Counter[str]],
    tmp_path: Path,
) -> None:
    count = occurrences[kind][call]
    places = random.Random(f"{call} {fault} {kind}").sample(range(1, count + 1), min(POINTS, count))
    acknowledged = 0
    for place in sorted(places):
        root = tmp_path / str(place)
        root.mkdir()
        inject = f"inject={call}:{FAULTS[fault].format(place)}"
        reported, code = _life(
            traced, before[kind], root, "-o", "/dev/null", "-e", f"trace={call}", "-e", inject
        )

        _check_what_was_told(reported, code, call, fault)
        acknowledged += _check_what_is_there(root / "data", before[kind][1] + reported)
    record(
        test=f"system calls: {fault}",
        cycles=len(places),
        faults={call: len(places)},
        acknowledged=acknowledged,
        checked=acknowledged,
    )


def _life(traced: Lives, before: tuple[Path, list[str]], root: Path, *options: str) -> tuple[list[str], int]:
    """One run under strace, in a copy of a folder."""
    folder, _ = before
    if folder.exists():
        shutil.copytree(folder, root / "data")
    return traced.trace(root / "data", *options)


def _check_what_was_told(reported: list[str], code: int, call: str, fault: str) -> None:
    """Assert that no write is acknowledged after a write in doubt, and that harmless faults have no effect."""
    fates = [line.split(maxsplit=1)[1] for line in reported]
    if "in doubt" in fates:
        after = fates[fates.index("in doubt") :]
        assert (9, False) == (code, "acknowledged" in after)
    if fault == "killed":
        assert code == -9
    if fault == "EINTR" and call in REPEATED:
        assert (0, {"acknowledged"}) == (code, set(fates))
    if fault.startswith("ENOSPC") and call == "pwrite64":
        assert "in doubt" not in fates


def _check_what_is_there(folder: Path, reported: list[str]) -> int:
    """Assert that a normal start has all acknowledged writes, and the same state from snapshot and log."""
    log = open_log(folder, FakeLoop(), [])
    start = Snapshots(folder, SystemFilesystem()).load_newest(log)
    whole = PartitionState()
    for state in (start.state, whole):
        refold(state, log.read(0, state.next_offset))
    log.close()

    assert digest(whole) == digest(start.state)
    for line in reported:
        number, fate = line.split(maxsplit=1)
        is_there = any(table.items.get(number.encode(), b"") for table in whole.tables.values())
        assert fate == "in doubt" or is_there == (fate == "acknowledged"), line
    return sum(line.endswith("acknowledged") for line in reported)
