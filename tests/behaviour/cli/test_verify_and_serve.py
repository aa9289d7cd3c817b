"""`foldb verify` and a start of the server give one verdict on every damaged log.

files ──► damaged ──► foldb verify       exit 0, or 9 (8 for a log of a later version)
                 └──► a start's reading  accepted, or refused
"""

import itertools
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from foldb.log.local import segment
from foldb.materializer.fold.state import PartitionState
from foldb.materializer.refold import refold
from foldb.model.errors import FoldbError
from tests.behaviour.cli.conftest import at, lines
from tests.support.served import Process, killed
from tests.support.served import foldb as command
from tests.support.write_ledger import Ledger, Writers, create
from tests.unit.log import damage
from tests.unit.log.damage import Files, Sample
from tests.unit.log.local_logs import open_log
from tests.verification.reliability import record

SOAK = bool(os.environ.get("FOLDB_SOAK"))
pytestmark = [pytest.mark.soak] if SOAK else []

# Each kind of damage yields thousands of logs. Try every Nth, a prime, at most MOST of a kind.
EVERY, MOST = (23, 600) if SOAK else (211, 12)

WHOLE = damage.sample(24, segment_bytes=10_260)
TORN = damage.sample(24, segment_bytes=10_260, in_flight=3)
SAMPLES = {"closed": WHOLE, "crashed": TORN, "without its mark": damage.without_mark(TORN)}


def flipped_bits(sample: Sample) -> Iterator[Files]:
    for name in sample.files:
        yield from damage.flips(sample, name, 0, len(sample.files[name]))


def truncated(sample: Sample) -> Iterator[Files]:
    for name in sample.files:
        yield from damage.truncations(sample, name)


def zeroed(sample: Sample) -> Iterator[Files]:
    for name in sample.files:
        for length in (1, 16, 512, None):
            yield from damage.zeros(sample, name, length)


def random_damage(sample: Sample) -> Iterator[Files]:
    return damage.at_random(sample, random.Random(5), EVERY * MOST)


KINDS: dict[str, Callable[[Sample], Iterator[Files]]] = {
    "flipped bits": flipped_bits,
    "truncations": truncated,
    "zeros": zeroed,
    "swapped sectors": damage.sector_swaps,
    "copied sectors": damage.sector_copies,
    "random": random_damage,
}


def without(sample: Sample, *names: str) -> Files:
    return {name: data for name, data in sample.files.items() if name not in names}


def whole_files(sample: Sample) -> dict[str, Files]:
    """The sample after each thing that can happen to whole files."""
    first, middle, last = sample.segments
    files, data = sample.files, sample.files[last].rstrip(b"\0")
    return {
        "as it was": files,
        "without the first segment": without(sample, first),
        "without the middle segment": without(sample, middle),
        "without the last segment": without(sample, last),
        "without the last segment and the mark": without(sample, last, "mark"),
        "without the last two segments": without(sample, middle, last),
        "without any segment": without(sample, first, middle, last),
        "without the mark": without(sample, "mark"),
        "an empty mark": files | {"mark": b""},
        "a mark of zeros": files | {"mark": bytes(32)},
        "an empty last segment": files | {last: b""},
        "a last segment of zeros": files | {last: bytes(len(files[last]))},
        "zeros behind the last segment": files | {last: data + bytes(70_000)},
        "zeros behind an older segment": files | {middle: files[middle] + bytes(512)},
        "a torn write": files | {last: data + b"\x02\x90\x03half of a write"},
        "an older segment under a later name": files | {segment.name(99): files[middle]},
        "an unfinished segment": files | {f"{segment.name(99)}.new": b"Obj"},
        "an unfinished copy of the last": files | {f"{last}.new": files[last][:100]},
        "extra files": files | {"notes.txt": b"x", f"{last}.torn-9": b"x", f"{last}.bak": files[last][:99]},
        "an unfinished segment that is not the last's": without(sample, last) | {f"{last}.new": files[last]},
    }


def accepted(files: Files) -> bool:
    """Return whether a start accepts these files: the log opens, and all of it folds."""
    try:
        refold(PartitionState(), open_log(damage.disk_of(files), create=False).read(0))
    except FoldbError:
        return False
    return True


def verified(files: Files, folder: Path) -> int:
    """Run `foldb verify`, which changes nothing, and return its exit code."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    result = at(folder)("verify", str(folder))
    assert files == {path.name: path.read_bytes() for path in folder.iterdir()}, result.output
    assert result.exit_code == 0 or (result.stdout, result.stderr.count("\n")) == ("", 1), result.output
    return result.exit_code


def check(files: Files, folder: Path) -> int:
    code = verified(files, folder)
    assert accepted(files) is (code == 0), f"verify ends with {code}"
    return code


@pytest.mark.guarantee("G12")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)
def test_verify_and_a_start_agree_on_damaged_bytes(kind: str, sample: Sample, tmp_path: Path) -> None:
    damaged = itertools.islice(KINDS[kind](sample), None, EVERY * MOST, EVERY)
    codes = Counter(check(files, tmp_path / "data") for files in damaged)

    assert codes
    record(test="verify and serve agree", cycles=codes.total(), faults={kind: codes.total()})


@pytest.mark.guarantee("G12")
@pytest.mark.parametrize("what", whole_files(WHOLE))
@pytest.mark.parametrize("sample", [WHOLE, TORN], ids=["closed", "crashed"])
def test_verify_and_a_start_agree_on_damaged_files(what: str, sample: Sample, tmp_path: Path) -> None:
    check(whole_files(sample)[what], tmp_path / "data")


def test_the_kinds_of_damage_are_both_refused_and_accepted(tmp_path: Path) -> None:
    """The agreement would prove nothing if every log were refused."""
    codes = {what: verified(files, tmp_path / "data") for what, files in whole_files(TORN).items()}

    assert 9 == codes["without the last segment"] == codes["without the last two segments"]
    assert {0, 8, 9} == set(codes.values())


def test_verify_refuses_a_log_without_the_segment_of_its_mark(tmp_path: Path) -> None:
    files = without(WHOLE, WHOLE.segments[-1])
    verified(files, tmp_path)

    result = at(tmp_path)("verify", str(tmp_path))

    assert result.stderr.startswith(
        f"foldb: {WHOLE.segments[-1]}: the segment is missing, but the log's file `mark` names it"
    )


@pytest.mark.guarantee("G12")
def test_verify_refuses_a_log_that_lacks_acknowledged_writes(tmp_path: Path) -> None:
    """
    With `--fsync never` a power cut takes acknowledged writes, and the server starts without them. So 0 is more than
    a promise that the server starts.
    """
    sample = damage.sample(24, segment_bytes=1 << 20, in_flight=2, fsync="never")
    [name] = sample.segments
    files = sample.with_file(name, sample.files[name][:-3000])

    assert accepted(files)
    assert 9 == verified(files, tmp_path / "data")
    assert "acknowledged" in at(tmp_path / "data")("verify", str(tmp_path / "data")).stderr


def test_verify_refuses_a_side_file_that_a_start_takes_back(tmp_path: Path) -> None:
    """The log alone lacks its records, and a start is needed to say whether they continue it."""
    last = WHOLE.segments[-1]
    files = without(WHOLE, last, "mark") | {f"{last}.unlinked": WHOLE.files[last]}

    assert accepted(files)
    assert 9 == verified(files, tmp_path / "data")
    assert "`foldb serve` on that folder" in at(tmp_path)("verify", str(tmp_path / "data")).stderr


def test_verify_reports_a_torn_write_that_was_not_acknowledged(tmp_path: Path) -> None:
    files = whole_files(WHOLE)["a torn write"]
    assert 0 == verified(files, tmp_path)

    said = at(tmp_path)("verify", str(tmp_path)).stderr

    assert "18 bytes behind the last record are an unfinished write" in said, said


def test_a_snapshot_ahead_of_the_log_shows_missing_records(tmp_path: Path) -> None:
    """Without its mark a log that lost its last segment is a whole, shorter log. A snapshot may remember more."""
    folder = tmp_path / "data"
    with killed(folder, "--segment-bytes", "2000") as url:
        at(url)("sample", "load", "music")
        assert 0 == at(url)("snapshot", "make").exit_code
    lose_the_last(folder)
    lose_the_mark(folder)

    result = at(folder)("verify", str(folder))

    assert 9 == result.exit_code, result.output
    assert "records are missing" in result.stderr


def test_a_server_ahead_of_its_folder_shows_missing_records(tmp_path: Path) -> None:
    """An older copy of the folder came in place of the one that is served."""
    folder = tmp_path / "data"
    with killed(folder) as url:
        lines(at(url)("table", "create", "Notes", "id:N"))
        copied = shutil.copytree(folder, tmp_path / "copy")
        lines(at(url)("item", "put", "Notes", '{"id": 1}'))
        folder.rename(tmp_path / "moved")
        copied.rename(folder)
        result = at(url)("verify")

    assert 9 == result.exit_code, result.output
    assert "acknowledged writes are not in" in result.stderr


@dataclass(frozen=True)
class Served:
    """A folder that a server has written under load, and its ledger."""

    folder: Path
    ledger: Ledger


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Served:
    folder, ledger = tmp_path_factory.mktemp("served") / "data", Ledger()
    with Process(folder, "--segment-bytes", "20000") as server:
        create(server.url)
        with Writers(ledger, server.url, writers=4) as writers:
            writers.wait_for(150)
        server.terminate()
    return Served(folder, ledger)


def lose_the_last(folder: Path) -> None:
    sorted(folder.glob("*.avro"))[-1].unlink()


def lose_the_middle(folder: Path) -> None:
    sorted(folder.glob("*.avro"))[2].unlink()


def lose_the_first(folder: Path) -> None:
    sorted(folder.glob("*.avro"))[0].unlink()


def lose_the_mark(folder: Path) -> None:
    (folder / "mark").unlink()


def shorten_the_last(folder: Path) -> None:
    last = sorted(folder.glob("*.avro"))[-1]
    os.truncate(last, last.stat().st_size - 40)


def leave_an_unfinished_segment(folder: Path) -> None:
    (folder / f"{segment.name(10**6)}.new").write_bytes(b"Obj")


@pytest.mark.guarantee("G12")
@pytest.mark.parametrize(
    "harm",
    [
        lose_the_last,
        lose_the_middle,
        lose_the_first,
        lose_the_mark,
        shorten_the_last,
        leave_an_unfinished_segment,
    ],
    ids=lambda harm: harm.__name__,
)
def test_verify_and_a_served_process_agree(
    harm: Callable[[Path], None], original: Served, tmp_path: Path
) -> None:
    folder = shutil.copytree(original.folder, tmp_path / "data")
    harm(folder)

    code = command("verify", folder).returncode
    with Process(folder, may_end=True) as server:
        started = bool(server.url)
        if started:
            original.ledger.check(server.url)

    assert started is (code == 0), (code, server.said)
