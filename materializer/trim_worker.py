"""Prepares a trim in a process of its own, and verifies it in another one.

    server, or `foldb log trim` ──► job on stdin ──► prepare ──► a second process: verify ──► the new head on stdout

The caller holds the writer's lock, and puts the foundation into force. The verifying process reads the foundation from
the disk, not from the system's cache.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import orjson

from ..log.local.filesystem import Filesystem, SystemFile, SystemFilesystem
from ..log.local.foundation import Foundation
from ..model.errors import CorruptionError, FoldbError
from .history.epochs import delete_epochs_before
from .history.history import FOLDER
from .os_process import end_with_parent, helper_environment
from .trim import Progress, Voids, prepare, verify_foundation
from .trim_job import MODULE, TrimCut, TrimJob, encode_line

# -P: Python must not import modules from the folder that the server runs in.
COMMAND: Final = (sys.executable, "-P", "-m", MODULE)


def prepare_here(disk: Filesystem, job: TrimJob, progress: Progress = lambda _: None) -> Foundation | None:
    """Prepare a trim in this process, have it verified by another one, and delete the older epochs of histories.

    Raises: as `prepare`.
    """
    foundation = prepare(disk, job, verify_elsewhere(job.folder), progress)
    if foundation is not None and (job.folder / FOLDER).is_dir():
        delete_epochs_before(job.folder / FOLDER, foundation.chain.ends)
    return foundation


def verify_elsewhere(folder: Path) -> Callable[[Foundation, Voids], None]:
    """Return the function that verifies a foundation in another process."""

    def verify(foundation: Foundation, voids: Voids) -> None:
        job = {"folder": str(folder.absolute()), "foundation": foundation.encode().hex()}
        line = encode_line(job | {"voids": [sorted(each, key=str) for each in voids]})
        done = subprocess.run(  # noqa: S603  our own command
            COMMAND, input=line, stdout=subprocess.PIPE, env=helper_environment(), check=False
        )
        result = orjson.loads(done.stdout) if done.stdout else {"error": f"it ended with {done.returncode}"}
        if "error" in result:
            raise CorruptionError(
                "foundation",
                f"the process that verifies the trim found: {result['error']}. Nothing was removed",
            )

    return verify


class _UncachedDisk(SystemFilesystem):
    """A disk whose files are read again, and not taken from the system's cache."""

    def open(self, path: Path, *, create: bool = False, write: bool = True) -> SystemFile:
        file = super().open(path, create=create, write=write)
        if hasattr(os, "posix_fadvise"):
            with suppress(OSError):
                os.posix_fadvise(file.descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        return file


def _run(job: dict[str, Any]) -> dict[str, Any]:
    folder = Path(job["folder"])
    if "foundation" in job:
        foundation = Foundation.decode(bytes.fromhex(job["foundation"]))
        voids = [frozenset((offset, index) for offset, index in each) for each in job["voids"]]
        verify_foundation(_UncachedDisk(), folder, foundation, voids)
        return {}
    trim = TrimJob(
        folder,
        TrimCut(job["time_ms"], dict(job["offsets"])),
        None if job["archive"] is None else Path(job["archive"]),
        job["retention_ms"],
        job["is_lenient"],
    )
    prepared = prepare_here(SystemFilesystem(), trim)
    return {"foundation": None if prepared is None else prepared.encode().hex()}


def main() -> None:
    """Run the job on stdin. The process ends with its parent."""
    end_with_parent(os.getppid())
    try:
        result = _run(orjson.loads(sys.stdin.buffer.readline()))
    except (FoldbError, OSError) as error:
        result = {"error": str(error)}
    sys.stdout.buffer.write(encode_line(result))


if __name__ == "__main__":
    main()
