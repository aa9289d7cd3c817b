"""Temporary folders that are removed with their process or, after a crash, by the next process.

Each has a lock file that its process locks. A folder whose lock file is not locked is left over.
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

# A process makes the folder before its lock, so a new folder may not be locked yet.
_NEW_S: Final = 60.0


def make_temp_dir(parent: Path | None = None) -> tuple[Path, Callable[[], None]]:
    """Make a folder, in the system's temporary folder by default. Return it and a function that removes it.

    Raises:
        OSError: The disk refused the folder.
    """
    if parent is None:
        parent = Path(tempfile.gettempdir())
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
    """Remove, once, the folders that no process has locked. Folders of other users stay."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > _NEW_S:
                lock = SystemFilesystem().lock(folder / _LOCK, b"")
                shutil.rmtree(folder, ignore_errors=True)
                lock.close()
