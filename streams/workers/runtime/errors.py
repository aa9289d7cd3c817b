"""What the user's code raised, as the server is told it."""

import importlib
import traceback
from pathlib import Path
from typing import Final

from ..frames import Head

_NOT_THEIRS: Final = (str(Path(__file__).parent), importlib.__file__, "<frozen importlib")
_LINE_MOST: Final = 1_000
_CHAIN_MOST: Final = 20
_TRACEBACK_MOST: Final = 16_000


def told(error: BaseException) -> Head:
    """The error in one line, and where it happened without the frames that are not the user's."""
    return {
        "error": _legible(line_of(error)),
        "traceback": _legible(_traceback_of(error))[-_TRACEBACK_MOST:],
    }


def line_of(error: BaseException) -> str:
    """Its type and what it says."""
    try:
        said = " ".join(str(error).split())
    except Exception:  # a user's own exception may not be able to say what it is
        said = ""
    name = type(error).__qualname__
    return f"{name}: {said}"[:_LINE_MOST] if said else name


def _traceback_of(error: BaseException) -> str:
    """Where it happened, and the errors that led to it: the last of them, if they are many."""
    found = traceback.TracebackException.from_exception(error, compact=True)
    is_whole = _shorten(found)
    written = "".join(found.format())
    return written if is_whole else f"(What led to the first of these is left out.)\n\n{written}"


def _shorten(found: traceback.TracebackException) -> bool:
    """Leave out our frames, and errors that are far back; whether none was."""
    for _ in range(_CHAIN_MOST):
        theirs = [frame for frame in found.stack if not frame.filename.startswith(_NOT_THEIRS)]
        found.stack = traceback.StackSummary.from_list(theirs)
        before = found.__cause__ or found.__context__
        if before is None:
            return True
        last, found = found, before
    last.__cause__ = last.__context__ = None
    return False


def _legible(text: str) -> str:
    """Text that can be written as UTF-8: a name of a file, say, may not be."""
    return text.encode(errors="backslashreplace").decode()
