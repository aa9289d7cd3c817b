"""Folders that need not outlive the process, and do not: what a process that was killed has left, the next removes.

Each is locked by whoever made it, so one that nobody has locked is nobody's.
"""

import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

from ..log.local.filesystem import SystemFilesystem

_PREFIX: Final = "foldb-scratch-"
_LOCK: Final = "lock"

# Between a folder and its lock a process may take a breath.
_NEW_S: Final = 60.0


def scratch(within: Path | None = None) -> tuple[Path, Callable[[], None]]:
    """A new folder, and what removes it; in the system's place for such things, if none is named.

    Raises:
        OSError: There is no room for it.
    """
    parent = Path(tempfile.gettempdir()) if within is None else within
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _sweep(parent)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    try:
        lock = SystemFilesystem().lock(folder / _LOCK, b"")
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        raise

    def remove() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        lock.close()

    return folder, remove


@cache
def _sweep(parent: Path) -> None:
    """Remove, once, what nobody has locked. What another user has is not ours to remove, and stays."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > _NEW_S:
                lock = SystemFilesystem().lock(folder / _LOCK, b"")
                shutil.rmtree(folder, ignore_errors=True)
                lock.close()
