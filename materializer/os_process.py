"""This process as the system shows it to others: who may read it, and what becomes of the processes it starts.

The calls are Linux's. Elsewhere they do nothing; docs/operations.md names what that leaves open.
"""

import ctypes
import os
import signal
import sys
from typing import Final

_PDEATHSIG: Final = 1
_CHILD_SUBREAPER: Final = 36


def adopt_orphans() -> None:
    """Make this process the parent of every descendant whose own parent has ended, daemons included."""
    _prctl(_CHILD_SUBREAPER, 1)


def end_with_parent(parent: int) -> None:
    """Have this process killed when its parent ends. A change of user clears this: change it before."""
    _prctl(_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it has ended already
        os._exit(1)


def _prctl(option: int, value: int) -> None:
    if sys.platform != "linux":
        return
    if ctypes.CDLL(None, use_errno=True).prctl(option, ctypes.c_ulong(value), *3 * (ctypes.c_ulong(0),)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl {option}: {os.strerror(number)}")
