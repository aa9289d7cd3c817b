"""Folders that need not outlive the process are gone when it is: by itself, or by the next."""

import os
from pathlib import Path

from foldb.log.local.filesystem import SystemFilesystem
from foldb.streams.temp_dirs import make_temp_dir


def test_what_a_killed_process_has_left_is_removed_and_what_is_used_is_not(tmp_path: Path) -> None:
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


def test_what_others_have_left_is_looked_for_once(tmp_path: Path) -> None:
    make_temp_dir(tmp_path)[1]()
    left = tmp_path / "foldb-scratch-left"
    left.mkdir()
    os.utime(left, (0, 0))

    make_temp_dir(tmp_path)[1]()

    assert [left] == list(tmp_path.iterdir())
