"""The first process of a container.

    docker stop ──SIGTERM──► process 1: forward signals, reap orphans ──SIGTERM──► process 2: the program

The kernel gives process 1 no default action for any signal, so SIGTERM would not end a program that has not installed a
handler yet. The kernel also makes process 1 the parent of every process whose own parent has ended; a parent that does
not wait for them leaves them as zombies. So process 1 does these two things, and the program runs in a child.
"""

import os
import signal
from collections.abc import Set


def run_in_child() -> None:
    """Return in a child process if this is process 1, else return at once."""
    if os.getpid() != 1:
        return
    signals = {
        signal.SIGTERM,
        signal.SIGINT,
        signal.SIGHUP,
        signal.SIGQUIT,
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGCHLD,
    }
    # The kernel keeps blocked signals, also those that process 1 would ignore.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return
    _hide_variables()
    os._exit(_wait_for(child, signals))


def _hide_variables() -> None:
    """Overwrite the variables of this process, from which other processes of the user could read secrets."""
    from ...materializer.os_process import forget_variables

    forget_variables()


def _wait_for(program: int, signals: Set[signal.Signals]) -> int:
    """Forward signals to the program and reap every child until the program ends; return its exit code."""
    while True:
        received = signal.sigwaitinfo(signals)
        if received.si_signo != signal.SIGCHLD:
            if received.si_code <= 0:  # the kernel sends the signals of a terminal to the program too
                os.kill(program, received.si_signo)
            continue
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == program:
                code = os.waitstatus_to_exitcode(ended[1])
                return code if code >= 0 else 128 - code
