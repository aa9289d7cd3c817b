"""Every log that a release wrote is read by this version, record for record."""

import shutil
from pathlib import Path

import pytest

from foldb.log.codec import schema_files
from foldb.log.local import LocalLog

from .generate_golden import GOLDEN, number, text


def test_every_released_schema_has_a_golden_log() -> None:
    assert [number(known) for known in schema_files()] == sorted(path.name for path in GOLDEN.iterdir())


@pytest.mark.parametrize("folder", sorted(GOLDEN.iterdir()), ids=lambda folder: folder.name)
def test_a_golden_log_reads_as_it_did_when_it_was_written(folder: Path) -> None:
    reader = LocalLog.open_reader(folder)

    assert (folder / "expected.json").read_text() == text([*reader.read(0), *reader.read(1)])


@pytest.mark.parametrize("folder", sorted(GOLDEN.iterdir()), ids=lambda folder: folder.name)
def test_a_golden_log_can_be_gone_on_with(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "data"
    shutil.copytree(folder, path, ignore=shutil.ignore_patterns("expected.json"))

    log = LocalLog(path, clock=lambda: 0, deliver=print, random_bytes=bytes, on_fatal=print, create=False)
    records = [*log.read(0), *log.read(1)]
    log.close()

    assert (folder / "expected.json").read_text() == text(records)
