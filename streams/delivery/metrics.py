"""Metrics of a subscription."""

from collections import deque
from dataclasses import field
from typing import Any, Final

from ...model.lazy_dataclass import dataclass

_RECENT_CALLS: Final = 512
_LOG_INTERVAL_MS: Final = 1_000
_LOG_REPEAT_MS: Final = 60_000


@dataclass(slots=True)
class SubscriptionMetrics:
    """Counts since the subscription was started on this node.

    Attributes:
        calls: Completed calls.
        failed: Calls that failed for some or all of their changes.
        handled: Changes that were delivered or filtered.
        delivered: Changes that were delivered.
        dead: Changes that became dead letters.
        error: The last error, in one line.
        traceback: The traceback of the last error, if it has one.
        error_ms: Time of the last error.
    """

    calls: int = 0
    failed: int = 0
    handled: int = 0
    delivered: int = 0
    dead: int = 0
    error: str | None = None
    traceback: str | None = None
    error_ms: int | None = None
    _logged: str | None = field(default=None, repr=False)
    _logged_ms: int = field(default=0, repr=False)
    _calls: deque[tuple[float, float, int]] = field(
        default_factory=lambda: deque(maxlen=_RECENT_CALLS), repr=False
    )

    def called(self, ended_s: float, took_s: float, changes: int) -> None:
        self.calls += 1
        self._calls.append((ended_s, took_s, changes))

    def failure(self, error: str, traceback: str | None, now_ms: int) -> bool:
        """Record the last error. Return whether to log it.

        A new error is logged at most once per second, the same error at most once per minute.
        """
        self.error, self.traceback, self.error_ms = error, traceback, now_ms
        since_ms = now_ms - self._logged_ms
        is_due = since_ms >= (_LOG_REPEAT_MS if error == self._logged else _LOG_INTERVAL_MS)
        if is_due:
            self._logged, self._logged_ms = error, now_ms
        return is_due

    def to_json(self, now_s: float) -> dict[str, Any]:
        """Return the metrics; rates cover the last minute, or the last 512 calls if that is shorter."""
        recent = [call for call in self._calls if call[0] > now_s - 60.0]
        span = max(1.0, now_s - recent[0][0] + recent[0][1]) if recent else 1.0
        took = sorted(call[1] for call in recent)
        return {
            "Calls": self.calls,
            "FailedCalls": self.failed,
            "Handled": self.handled,
            "Delivered": self.delivered,
            "DeadLetters": self.dead,
            "ChangesPerSecond": round(sum(call[2] for call in recent) / span, 1),
            "CallMilliseconds": {
                "P50": _milliseconds(took, 0.50),
                "P95": _milliseconds(took, 0.95),
                "P99": _milliseconds(took, 0.99),
            },
            "LastError": self.error,
            "LastTraceback": self.traceback,
            "LastErrorTime": self.error_ms,
        }


def _milliseconds(took: list[float], share: float) -> float | None:
    return round(took[min(len(took) - 1, int(len(took) * share))] * 1000, 3) if took else None
