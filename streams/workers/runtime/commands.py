"""Runs a command once per batch.

    argv, without a shell ──► the changes on stdin, one line of JSON each ──► exit status 0: handled

The content of items reaches the command on stdin alone, never in its arguments or environment. Its output is the output
of this process. When it has ended, every process that it started is ended too, daemons included.
"""

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress

from ....materializer.os_process import adopt_orphans
from ..frames import WorkerMessage
from .modules import Modules
from .supervisor import end_descendants


def load(
    _modules: Modules, message: WorkerMessage
) -> tuple[Callable[[WorkerMessage, bytes], WorkerMessage], bool]:
    """Prepare to run `argv`. Return the function that runs it, and False: it takes batches."""
    argv: list[str] = message["argv"]
    adopt_orphans()

    def call(_message: WorkerMessage, body: bytes) -> WorkerMessage:
        status = run(argv, body)
        if status == 0:
            return {}
        how = f"exit status {status}" if status > 0 else f"killed by {signal.Signals(-status).name}"
        return {"error": f"{message['name']}: {how}", "traceback": None, "tail": True}

    return call, False


def run(argv: list[str], lines: bytes) -> int:
    """Run a command and end all processes that it started. Return its exit status, negative for a signal."""
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, process_group=0)  # noqa: S603  from the folder of triggers
    try:
        process.communicate(lines + b"\n" if lines else b"")
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        end_descendants()
    return process.returncode
