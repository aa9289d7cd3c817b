"""Describes the exceptions of user code for the server."""

import importlib
import traceback
from pathlib import Path
from typing import Final

from ..frames import WorkerMessage

_RUNTIME_FILES: Final = (str(Path(__file__).parent), importlib.__file__, "<frozen importlib")
_MAX_LINE: Final = 1_000
_MAX_CHAIN: Final = 20
_MAX_TRACEBACK: Final = 16_000


def describe(error: BaseException) -> WorkerMessage:
    """Return an error in one line, and its traceback without the frames of the worker runtime."""
    return {
        "error": _as_utf8(line_of(error)),
        "traceback": _as_utf8(_traceback_of(error))[-_MAX_TRACEBACK:],
    }


def line_of(error: BaseException) -> str:
    """Return the type and text of an error."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # a user's own exception class may raise here
        text = ""
    name = type(error).__qualname__
    return f"{name}: {text}"[:_MAX_LINE] if text else name


def _traceback_of(error: BaseException) -> str:
    """Return the traceback of an error and of its causes: of a long chain the last ones."""
    found = traceback.TracebackException.from_exception(error, compact=True)
    is_complete = _shorten(found)
    written = "".join(found.format())
    return written if is_complete else f"(The causes of the first of these are left out.)\n\n{written}"


def _shorten(found: traceback.TracebackException) -> bool:
    """Remove the frames of the worker runtime, and the causes far back. Return whether no cause was removed."""
    for _ in range(_MAX_CHAIN):
        theirs = [frame for frame in found.stack if not frame.filename.startswith(_RUNTIME_FILES)]
        found.stack = traceback.StackSummary.from_list(theirs)
        before = found.__cause__ or found.__context__
        if before is None:
            return True
        last, found = found, before
    last.__cause__ = last.__context__ = None
    return False


def _as_utf8(text: str) -> str:
    """Return text that can be encoded as UTF-8; a file name, for example, may have other characters."""
    return text.encode(errors="backslashreplace").decode()
