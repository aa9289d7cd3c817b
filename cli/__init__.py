"""The command line: `foldb` and its commands, a thin client of a server, and the sample data."""

import signal

from .lib.init_process import run_in_child


def run() -> None:
    """What the console script calls.

    While the program is loaded an interrupt ends the process as the system does, without Python's traceback.
    """
    run_in_child()
    was = signal.getsignal(signal.SIGINT)
    if was is not signal.SIG_IGN:  # as a shell has it for what it runs in the background
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from .main import run

    signal.signal(signal.SIGINT, was)
    run()
