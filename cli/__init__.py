"""The command line: `foldb` and its commands, the client of a server, and the sample data."""

import signal

from .lib.imports import importing
from .lib.init_process import run_in_child


def run() -> None:
    """Run the `foldb` command. An interrupt during the import ends the process without a traceback."""
    run_in_child()
    handler = signal.getsignal(signal.SIGINT)
    if handler is not signal.SIG_IGN:  # a shell ignores SIGINT in background jobs
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    with importing():
        from .main import run
    signal.signal(signal.SIGINT, handler)
    run()
