"""A disk whose power can be cut: an ext4 in a file, which drops all data that was not synced.

    make ──► mount ──► ... writes ... ──► the writer is killed ──► cut ──► unmount ──► mount, which replays the journal

The file below is written through. So a cut loses every page, size and name that the file system held back, as a power
cut does.
"""

import fcntl
import os
import shutil
import signal
import struct
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from tests.support.served import Process

# EXT4_IOC_SHUTDOWN, with the flag that the journal is not flushed before.
_SHUTDOWN = 0x8004587D
_NO_LOG_FLUSH = struct.pack("I", 2)


class PowerDisk:
    """Mounted at `mounted` from the start of the block to its end. Its database goes into `folder`."""

    def __init__(self, at: Path, *, megabytes: int = 64) -> None:
        if missing := _missing():
            pytest.skip(f"cutting the power takes {missing}")
        self._image = at / "disk.ext4"
        self.mounted = at / "disk"
        self.folder = self.mounted / "data"
        self.mounted.mkdir(parents=True)
        with self._image.open("wb") as image:
            image.truncate(megabytes << 20)
        subprocess.run(["mkfs.ext4", "-q", self._image], check=True)

    def __enter__(self) -> Self:
        self._mount()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Lazily, because a disk that stayed after a failure would break pytest's removal of old folders.
        subprocess.run(["umount", "--lazy", self.mounted], check=True)
        self._image.unlink()

    def cut(self) -> None:
        """Cut the power: every call fails, and data that were not synced are lost.

        The writer must be killed with SIGKILL before, as by a power cut. Else ext4 may report success for a sync in
        progress whose data it has dropped (in 11 of 300 cuts, of a loop of writes and syncs).
        """
        cut(self.mounted)

    def restore(self) -> None:
        """Restore the power. No process may have a file of the disk open."""
        subprocess.run(["umount", self.mounted], check=True)
        self._mount()

    def _mount(self) -> None:
        subprocess.run(["mount", "-o", "loop", self._image, self.mounted], check=True)


def cut(mounted: Path) -> None:
    """See PowerDisk.cut."""
    descriptor = os.open(mounted, os.O_RDONLY)
    try:
        fcntl.ioctl(descriptor, _SHUTDOWN, _NO_LOG_FLUSH)
    finally:
        os.close(descriptor)


def _missing() -> str:
    """Return the missing requirement of these tests, if there is one."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "root on Linux"
    if shutil.which("mkfs.ext4") is None:
        return "mkfs.ext4"
    if not Path("/dev/loop-control").exists():
        return "loop devices"
    return ""


def lose_power(server: Process, disk: PowerDisk) -> None:
    """Let a server run no further instruction, and leave what has reached the disk."""
    server.signal(signal.SIGKILL)
    disk.cut()
    server.wait()
