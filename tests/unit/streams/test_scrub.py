"""A scrub reports each damaged file, and no other."""

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from foldb.log.local.filesystem import SystemFilesystem
from foldb.materializer.snapshots import Snapshots
from foldb.streams.scrub import Finding, PacedDisk, ScrubJob, scrub
from tests.support.raw import ask
from tests.support.served import foldb, served
from tests.support.tables import table_request
from tests.unit.log.damage import flip

RATE = 1 << 30
STREAM = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
OPTIONS = ("--segment-bytes", "20000", "--scrub-every", "0")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed database of several segments, with snapshots and changes."""
    folder = tmp_path_factory.mktemp("written") / "data"
    with served(folder, *OPTIONS) as url:
        assert (
            ask(url, "CreateTable", table_request("Cars", "pk:S", StreamSpecification=STREAM)).status == 200
        )
        for n in range(100):
            item = {"pk": {"S": f"{n:03}"}, "text": {"S": "x" * 900}}
            assert ask(url, "PutItem", {"TableName": "Cars", "Item": item}).status == 200
            if n == 50:
                assert foldb("--db", str(folder), "snapshot", "make").returncode == 0
    assert foldb("--db", str(folder), "snapshot", "make").returncode == 0
    return folder


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    return shutil.copytree(written, tmp_path / "data")


def found(folder: Path) -> list[Finding]:
    """Return the findings of a scrub, without the last line."""
    *findings, last = scrub(ScrubJob(str(folder), 1, RATE))
    assert ("", True) == (last.kind, last.bytes > 100_000)
    return findings


def sealed(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.avro"))[:-1]


def snapshots(folder: Path) -> list[Path]:
    return sorted(folder.glob("snapshots/*.snapshot"))


def changes(folder: Path) -> list[Path]:
    return sorted(folder.glob("changes/0/*.avro"))


FILES: dict[str, Callable[[Path], list[Path]]] = {"log": sealed, "snapshot": snapshots, "changes": changes}


@pytest.mark.guarantee("G11")
def test_undamaged_files_have_no_findings(folder: Path) -> None:
    assert len(sealed(folder)) > 3
    assert 2 == len(snapshots(folder))
    assert [] == found(folder)


@pytest.mark.guarantee("G11")
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("kind", FILES)
def test_a_flipped_bit_is_found_in_its_file_alone(kind: str, seed: int, folder: Path) -> None:
    dice = random.Random(seed)
    path = dice.choice(FILES[kind](folder))
    flip(path, dice.randrange(path.stat().st_size))

    [finding] = found(folder)
    assert (kind, str(path.relative_to(folder))) == (finding.kind, finding.file)
    assert str(path.name) in finding.text


@pytest.mark.guarantee("G11")
def test_damage_in_one_segment_hides_no_other(folder: Path) -> None:
    paths = sealed(folder)
    for path in paths[1:4]:
        flip(path, path.stat().st_size // 2)

    assert [path.name for path in paths[1:4]] == [finding.file for finding in found(folder)]


@pytest.mark.parametrize("place", [0, 2])
def test_a_missing_segment_is_found(place: int, folder: Path) -> None:
    sealed(folder)[place].unlink()

    assert ["log"] == [finding.kind for finding in found(folder)]


def test_each_partition_is_scrubbed(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with served(folder, "--partitions", "2", *OPTIONS) as url:
        made = table_request("Cars", "pk:S", StreamSpecification=STREAM)
        assert ask(url, "CreateTable", made).status == 200
        for n in range(20):
            assert ask(url, "PutItem", {"TableName": "Cars", "Item": {"pk": {"S": f"{n}"}}}).status == 200
    assert foldb("--db", str(folder), "snapshot", "make").returncode == 0
    *findings, _ = scrub(ScrubJob(str(folder), 3, RATE))
    assert [] == findings

    [path] = (folder / "changes" / "2").glob("*.avro")
    flip(path, path.stat().st_size - 1)
    [snapshot] = (folder / "snapshots").glob("1-*.snapshot")
    flip(snapshot, snapshot.stat().st_size - 1)
    *findings, _ = scrub(ScrubJob(str(folder), 3, RATE))
    assert [("snapshot", 0), ("changes", 2)] == [(each.kind, each.partition) for each in findings]


def test_a_damaged_snapshot_is_removed(folder: Path) -> None:
    """The undamaged snapshot stays, and no start uses the damaged one."""
    old, new = snapshots(folder)
    flip(new, new.stat().st_size // 2)

    assert [True] == [finding.removed for finding in found(folder)]
    assert [old] == snapshots(folder)
    assert [] == found(folder)


def test_a_damaged_snapshot_stays_while_another_is_made(folder: Path) -> None:
    """The process that makes a snapshot removes damaged ones."""
    _, new = snapshots(folder)
    flip(new, new.stat().st_size // 2)
    lock = Snapshots(folder, SystemFilesystem())._lock()
    try:
        assert [False] == [finding.removed for finding in found(folder)]
    finally:
        lock.close()
    assert new in snapshots(folder)


def test_a_damaged_durable_offset_is_found(folder: Path) -> None:
    flip(folder / "changes" / "0" / "mark", 5)

    [finding] = found(folder)
    assert ("changes", "changes/0/mark", None) == (finding.kind, finding.file, finding.table)


def test_a_scrub_reads_no_faster_than_its_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads in portions, and sleeps after each."""
    now, naps = 0.0, list[float]()

    def sleep(seconds: float) -> None:
        nonlocal now
        naps.append(seconds)
        now += seconds

    monkeypatch.setattr("time.monotonic", lambda: now)
    monkeypatch.setattr("time.sleep", sleep)
    path = tmp_path / "file"
    path.write_bytes(bytes(4 << 20))
    disk = PacedDisk(1 << 20)
    file = disk.open(path)
    assert 3 << 20 == len(file.read(1 << 20, 4 << 20))
    file.close()

    assert 3.0 == now
    assert [0.25] * 12 == naps
    assert 3 << 20 == disk.bytes


def test_a_scrub_ends_with_its_server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parents = iter([1, 1, 1])
    monkeypatch.setattr(os, "getppid", lambda: next(parents, 2))

    with pytest.raises(SystemExit):
        list(scrub(ScrubJob(str(folder), 1, RATE)))


def test_the_disk_is_read_rather_than_the_page_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bit that has flipped on the disk is not seen in a cached page."""
    forgotten: list[Any] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda *call: forgotten.append(call[1:]))
    PacedDisk(RATE).open(sealed(folder)[0]).close()

    assert [(0, 0, os.POSIX_FADV_DONTNEED)] == forgotten
