"""Inside a child: what the user's code raised, as the server is told it."""

import traceback
from pathlib import Path
from typing import Final

from .frames import Head

_OURS: Final = str(Path(__file__).parent)
_LINE_MOST: Final = 1_000
_TRACEBACK_MOST: Final = 16_000


def told(error: BaseException) -> Head:
    """The error in one line, and where it happened without the frames that are ours."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith((_OURS, "<frozen importlib")):
        trace = trace.tb_next
    lines = traceback.format_exception(type(error), error, trace)
    return {"error": line_of(error), "traceback": "".join(lines)[-_TRACEBACK_MOST:]}


def line_of(error: BaseException) -> str:
    """Its type and what it says."""
    return "".join(traceback.format_exception_only(type(error), error)).strip()[-_LINE_MOST:]
