"""Programs that are a `foldb` whose calls of the system fail, or that lie to it."""

import sys
from pathlib import Path

from foldb.log.local import disk_worker

# What foldb asks of a disk that changes something on it.
DISK_CALLS = ("open", "pwrite", "ftruncate", "fdatasync", "fsync", "link", "rename", "remove")


def with_disk_process() -> list[str | Path]:
    """Return a foldb whose log has a disk process from the second group on."""
    return _foldb_after("")


def with_failing_sync(from_when: Path) -> list[str | Path]:
    """Return a foldb whose syncs fail with EIO once the file exists."""
    return _foldb_after(f"""
import errno, os
def fdatasync(descriptor, sync=os.fdatasync):
    if os.path.exists({str(from_when)!r}): raise OSError(errno.EIO, os.strerror(errno.EIO))
    sync(descriptor)
os.fdatasync = fdatasync
""")


def with_stalled_sync(while_there: Path) -> list[str | Path]:
    """Return a foldb whose syncs do not return while the file exists. A killed one does not wait for it."""
    return _foldb_after(f"""
import os, time
parent = os.getppid()
def fdatasync(descriptor, sync=os.fdatasync):
    while os.path.exists({str(while_there)!r}) and os.getppid() == parent: time.sleep(0.01)
    sync(descriptor)
os.fdatasync = fdatasync
""")


def without_sync() -> list[str | Path]:
    """Return a foldb that acknowledges syncs without syncing."""
    return _foldb_after("import os; os.fdatasync = lambda descriptor: None")


def with_power_cut(mounted: Path, calls: int) -> list[str | Path]:
    """Return a foldb that cuts the power of its disk right before its nth call of the disk, and dies."""
    return _foldb_after(f"""
import itertools, os, signal, sys
from pathlib import Path
from tests.verification.crash.power import cut
count = itertools.count(1)
def counted(call):
    def before(*arguments, **options):
        if next(count) == {calls}:
            cut(Path({str(mounted)!r}))
            if sys.argv[1].isdecimal(): os.kill(os.getppid(), signal.SIGKILL)  # this is the disk process
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments, **options)
    return before
for name in {DISK_CALLS!r}:
    setattr(os, name, counted(getattr(os, name)))
""")


def with_moved_clock(by_ms: Path) -> list[str | Path]:
    """Return a foldb whose system clock is ahead by the number of milliseconds in a file, which can be replaced."""
    return _foldb_after(f"""
from pathlib import Path
from foldb.server import clock
def moved(system_ms=clock.system_ms):
    return system_ms() + int(Path({str(by_ms)!r}).read_text())
clock.system_ms = moved
""")


def with_limit(limit: int, most: int, hard: int | None = None) -> list[str | Path]:
    """Return a foldb with a soft limit of a resource, which a test can raise up to `hard`."""
    hard = most if hard is None else hard
    return _foldb_after(f"import resource; resource.setrlimit({limit}, ({most}, {hard}))")


def _foldb_after(preparation: str) -> list[str | Path]:
    """Return a foldb that is prepared, and has an equally prepared disk process from the second group on."""
    worker = f"{preparation}\nimport runpy\nrunpy.run_path({disk_worker.__file__!r}, run_name='__main__')\n"
    disk = f"disk_process.COMMAND[:] = {[sys.executable, '-c', worker]!r}\ndisk_process.STARTS_AFTER = 1\n"
    program = f"from foldb.log.local import disk_process\n{disk}from foldb.cli.main import run\nrun()\n"
    return [sys.executable, "-c", f"{preparation}\n{program}"]
