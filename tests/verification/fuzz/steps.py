"""A clock that no other process disturbs: how many lines of Python are run.

A hang, or time that grows faster than the input, is a number of lines that is too large: `bounded` stops at that line,
wherever it is, so that a loop without an end is a failure with a traceback like any other.
"""

import dataclasses
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

from foldb.model import lazy_dataclass

T = TypeVar("T")

# They generate the methods of a class at their first call, which are no steps of that call.
_GENERATORS = (dataclasses.__file__, lazy_dataclass.__file__)


class TooManyStepsError(BaseException):
    """More lines were run than the input allows. No handler of the code under test may catch it."""


def bounded(most: int, do: Callable[..., T], *arguments: Any) -> tuple[T, int]:
    """Call `do`, and return its result and the number of executed lines.

    Raises:
        TooManyStepsError: It was about to take more than `most`.
    """
    steps = 0

    def trace(frame: FrameType, _event: str, _argument: object) -> Callable[..., Any] | None:
        nonlocal steps
        if frame.f_code.co_filename in _GENERATORS:
            return None
        steps += 1
        if steps > most:
            raise TooManyStepsError(f"more than {most} lines")
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        result = do(*arguments)
    finally:
        sys.settrace(before)
    return result, steps
