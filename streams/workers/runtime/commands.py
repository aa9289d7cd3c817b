"""Running a command once for a batch.

    argv, never a shell ──► the changes on stdin, one line of JSON each ──► exit status 0: handled

What an item holds reaches the command on stdin alone: nothing of it is ever part of the command line or the
environment. What it prints goes where this process prints. When it has ended, so has every process that it started,
daemons included.
"""

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress

from ....materializer.os_process import adopt_orphans
from ..frames import Head
from .modules import Modules
from .supervisor import end_descendants


def load(_modules: Modules, head: Head) -> tuple[Callable[[Head, bytes], Head], bool]:
    """Get ready to run `argv`; what calls it, and that it gets batches."""
    argv: list[str] = head["argv"]
    adopt_orphans()

    def call(_head: Head, body: bytes) -> Head:
        status = run(argv, body)
        if status == 0:
            return {}
        how = f"exit status {status}" if status > 0 else f"killed by {signal.Signals(-status).name}"
        return {"error": f"{head['name']}: {how}", "traceback": None, "tail": True}

    return call, False


def run(argv: list[str], lines: bytes) -> int:
    """Run it to its end, and end all that it has started; its exit status, below 0 for a signal."""
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, process_group=0)  # noqa: S603  from the folder of triggers
    try:
        process.communicate(lines + b"\n" if lines else b"")
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        end_descendants()
    return process.returncode
