"""What the user's code raised, as the server is told it."""

import importlib
import traceback
from pathlib import Path
from typing import Final

from ..frames import Head

_NOT_THEIRS: Final = (str(Path(__file__).parent), importlib.__file__, "<frozen importlib")
_LINE_MOST: Final = 1_000
_TRACEBACK_MOST: Final = 16_000


def told(error: BaseException) -> Head:
    """The error in one line, and where it happened without the frames that are not the user's."""
    found = traceback.TracebackException.from_exception(error)
    _leave_out_ours(found)
    return {
        "error": _legible(line_of(error)),
        "traceback": _legible("".join(found.format()))[-_TRACEBACK_MOST:],
    }


def line_of(error: BaseException) -> str:
    """Its type and what it says."""
    try:
        said = " ".join(str(error).split())
    except Exception:  # a user's own exception may not be able to say what it is
        said = ""
    name = type(error).__qualname__
    return f"{name}: {said}"[:_LINE_MOST] if said else name


def _leave_out_ours(found: traceback.TracebackException) -> None:
    theirs = [frame for frame in found.stack if not frame.filename.startswith(_NOT_THEIRS)]
    found.stack = traceback.StackSummary.from_list(theirs)
    for other in (found.__cause__, found.__context__):
        if other is not None:
            _leave_out_ours(other)


def _legible(text: str) -> str:
    """Text that can be written as UTF-8: a name of a file, say, may not be."""
    return text.encode(errors="backslashreplace").decode()
