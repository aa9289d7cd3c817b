"""Running a command once for a batch.

    argv, never a shell ──► the changes on stdin, one line of JSON each ──► exit status 0: handled

What an item holds reaches the command on stdin alone: nothing of it is ever part of the command line or the
environment. What it prints goes where this process prints. It has a group of processes of its own, none of which is
left when it has ended.
"""

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress

from ..frames import Head
from .ending import running
from .modules import Modules


def load(
    _modules: Modules, head: Head, say: Callable[[Head], None]
) -> tuple[Callable[[Head, bytes], Head], bool]:
    """Get ready to run `argv`; what calls it, and that it gets batches."""
    argv: list[str] = head["argv"]

    def call(_head: Head, body: bytes) -> Head:
        status = run(argv, body, say)
        if status == 0:
            return {}
        how = f"exit status {status}" if status > 0 else f"killed by {signal.Signals(-status).name}"
        return {"error": f"{head['name']}: {how}", "traceback": None, "tail": True}

    return call, False


def run(argv: list[str], lines: bytes, say: Callable[[Head], None]) -> int:
    """Run it to its end, and end whatever it has left running; its exit status, below 0 for a signal."""
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, process_group=0)  # noqa: S603  from the folder of triggers
    running.add(process.pid)
    say({"group": process.pid})
    try:
        process.communicate(lines + b"\n" if lines else b"")
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        running.discard(process.pid)
    return process.returncode
