"""The clock of a node: the system clock, guarded against steps.

    system time ──► within `limit_ms` of the monotonic clock ──► accepted
                    beyond it ──► refused, until the step has lasted for `confirm_ms`

Log time never goes back, so a clock that is wrong for two seconds would advance it permanently: streams would be
trimmed and items would expire too early. A node reads the time only from this clock.
"""

import logging
import time
from collections.abc import Callable

from ..model.lazy_dataclass import dataclass
from .settings import Settings

logger = logging.getLogger(__name__)

_HOUR_MS = 3_600_000
_MINUTE_MS = 60_000


@dataclass(slots=True)
class _Step:
    """A refused step.

    Attributes:
        offset: The difference between the system clock and the monotonic clock since the step, in ms.
        since: The monotonic time at which the step was detected.
    """

    offset: int
    since: int


class GuardedClock:
    """Returns milliseconds since 1970 from `system`, checked against `monotonic`.

    Args:
        system: Returns milliseconds since 1970. Its clock can be set.
        monotonic: Returns milliseconds since some moment. Its clock cannot be set.
        limit_ms: A step of more than this, forward or back, is refused at first.
        confirm_ms: A step is accepted after this time.
    """

    def __init__(
        self,
        system: Callable[[], int],
        monotonic: Callable[[], int],
        *,
        limit_ms: int,
        confirm_ms: int,
    ) -> None:
        self._system = system
        self._monotonic = monotonic
        self._limit_ms = limit_ms
        self._confirm_ms = confirm_ms
        self._offset = system() - monotonic()
        self._step: _Step | None = None

    def __call__(self) -> int:
        """Return the time."""
        now = self._monotonic()
        offset = self._system() - now
        if abs(offset - self._offset) <= self._limit_ms:
            if self._step is not None:
                logger.warning("the system clock has reverted its step of %s", self._size(self._step.offset))
                self._step = None
            self._offset = offset
        else:
            self._check(offset, now)
        return now + self._offset

    @property
    def refused_ms(self) -> int:
        """The milliseconds that the system clock is ahead of this one, negative if behind; 0 if no step is refused."""
        return 0 if self._step is None else self._step.offset - self._offset

    def _check(self, offset: int, now: int) -> None:
        """Accept a step that has lasted for `confirm_ms`; refuse a new one."""
        step = self._step
        if step is None:
            logger.warning(
                "the system clock has made a step of %s; log time ignores the step unless it lasts for %s. Restart the "
                "server to accept it at once, or correct the clock.",
                self._size(offset),
                span(self._confirm_ms),
            )
        if step is None or abs(offset - step.offset) > self._limit_ms:
            self._step = _Step(offset, now)
        elif now - step.since >= self._confirm_ms:
            logger.warning(
                "the step of the system clock of %s has lasted; log time follows it now", self._size(offset)
            )
            self._offset, self._step = offset, None

    def _size(self, offset: int) -> str:
        ahead = offset - self._offset
        return f"{span(abs(ahead))} {'ahead' if ahead > 0 else 'back'}"


def system_ms() -> int:
    """Return milliseconds since 1970 by the system clock."""
    return time.time_ns() // 1_000_000


def monotonic_ms() -> int:
    """Return milliseconds since this machine started.

    On Linux the time includes suspension, so that a machine that resumes has made no step.
    """
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
    return time.monotonic_ns() // 1_000_000


def clock_of(settings: Settings) -> Callable[[], int]:
    """Return the clock of a node with these settings."""
    if not settings.clock_step_ms:
        return system_ms
    return GuardedClock(
        system_ms, monotonic_ms, limit_ms=settings.clock_step_ms, confirm_ms=settings.clock_confirm_ms
    )


def refused_ms(clock: Callable[[], int]) -> int:
    """Return the milliseconds of the step that a node's clock refuses; 0 if it refuses none."""
    return clock.refused_ms if isinstance(clock, GuardedClock) else 0


def span(milliseconds: int) -> str:
    """Return a duration for messages, in its two largest units.

    >>> span(11_000_000), span(61_000), span(2_500)
    ('3 h 3 min', '1 min 1 s', '2.5 s')
    """
    if milliseconds >= _HOUR_MS:
        return f"{milliseconds // _HOUR_MS} h {milliseconds % _HOUR_MS // _MINUTE_MS} min"
    if milliseconds >= _MINUTE_MS:
        return f"{milliseconds // _MINUTE_MS} min {milliseconds % _MINUTE_MS // 1000} s"
    return f"{milliseconds / 1000:g} s"
