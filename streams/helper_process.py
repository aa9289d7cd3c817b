"""Helper processes: Python modules of foldb that run beside the server, at low priority.

job, one line of JSON ──► stdin ──► python -m MODULE ──► stdout ──► lines, read by a thread
"""

import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from ..materializer.os_process import start_helper_process


def start_helper(
    module: str,
    job: bytes,
    on_line: Callable[[bytes], None],
    on_exit: Callable[[int], None],
    descriptors: Sequence[int] = (),
) -> "subprocess.Popen[bytes]":
    """Start a helper, and call `on_line` with each line that it writes and `on_exit` with its exit code, in a thread.

    The helper inherits the file `descriptors`, under the same numbers.

    Raises:
        OSError: The system has no room for another process, or another thread.
    """
    # -P: Python must not import modules from the folder that the server runs in.
    process = start_helper_process(
        [sys.executable, "-P", "-m", module], stdout=subprocess.PIPE, descriptors=descriptors
    )

    def listen() -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        with process:
            with suppress(BrokenPipeError):
                process.stdin.write(job)
                process.stdin.close()
            for line in process.stdout:
                on_line(line)
            on_exit(process.wait())

    try:
        threading.Thread(target=listen, name=module.rpartition(".")[2], daemon=True).start()
    except RuntimeError as error:  # the system has no room for another thread
        with process:
            process.kill()
        raise OSError(str(error)) from error
    return process
