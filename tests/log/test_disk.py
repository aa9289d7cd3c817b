"""What the disk of this machine asks of the system, where a process that is killed cannot tell the difference.

A page that was written is there for every process until the power goes. So these look at the calls themselves.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from foldb.log.disk import SystemDisk

Synced = list[tuple[str, int]]


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> Synced:
    """The calls that make something durable: their name, and the inode that it is about."""
    calls: Synced = []

    def watched(name: str, real: Callable[[int], None]) -> Callable[[int], None]:
        def call(descriptor: int) -> None:
            calls.append((name, os.fstat(descriptor).st_ino))
            real(descriptor)

        return call

    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, watched(name, getattr(os, name)))
    return calls


def inode(path: Path) -> int:
    return path.stat().st_ino


def test_a_file_is_synced_by_the_system(synced: Synced, tmp_path: Path) -> None:
    if not hasattr(os, "fdatasync"):
        pytest.skip("this system has no fdatasync")
    file = SystemDisk().open(tmp_path / "file", create=True)
    file.write(0, b"data")
    assert [] == synced

    file.sync()
    file.close()

    assert [("fdatasync", inode(tmp_path / "file"))] == synced


def test_a_folders_names_are_synced_by_the_system(synced: Synced, tmp_path: Path) -> None:
    SystemDisk().sync_folder(tmp_path)

    assert [("fsync", inode(tmp_path))] == synced


def test_a_new_folder_is_synced_into_each_that_is_above_it(synced: Synced, tmp_path: Path) -> None:
    SystemDisk().make_folder(tmp_path / "a" / "b")

    assert [("fsync", inode(tmp_path)), ("fsync", inode(tmp_path / "a"))] == synced
