"""Temporary folders are removed with their process, or by the next process."""

import os
from pathlib import Path

from foldb.log.local.filesystem import SystemFilesystem
from foldb.streams.temp_dirs import make_temp_dir


def test_only_folders_of_ended_processes_are_removed(tmp_path: Path) -> None:
    used, left = tmp_path / "foldb-scratch-used", tmp_path / "foldb-scratch-left"
    for folder in (used, left):
        folder.mkdir()
        (folder / "1-0.avro").write_bytes(b"x")
    lock = SystemFilesystem().lock(used / "lock", b"")
    for folder in (used, left):
        os.utime(folder, (0, 0))

    new, remove = make_temp_dir(tmp_path)

    assert {used, new} == set(tmp_path.iterdir())
    remove()
    lock.close()
    assert [used] == list(tmp_path.iterdir())


def test_left_over_folders_are_searched_once(tmp_path: Path) -> None:
    make_temp_dir(tmp_path)[1]()
    left = tmp_path / "foldb-scratch-left"
    left.mkdir()
    os.utime(left, (0, 0))

    make_temp_dir(tmp_path)[1]()

    assert [left] == list(tmp_path.iterdir())
