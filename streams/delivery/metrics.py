"""How a subscription is doing, in figures that cost next to nothing to keep."""

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

_CALLS: Final = 512
_LEAST_MS: Final = 1_000
_NEWS_MS: Final = 60_000


@dataclass(slots=True)
class SubscriptionMetrics:
    """Counted since the subscription was started here.

    Attributes:
        calls: Calls that came to an end.
        failed: Those that did not handle all they were given.
        handled: Changes that were handled, or passed over by a filter.
        delivered: Of these, those that were delivered.
        dead: Changes that became letters.
        error: The last error, in a line.
        traceback: In many lines, if it had any.
        error_ms: When it was.
    """

    calls: int = 0
    failed: int = 0
    handled: int = 0
    delivered: int = 0
    dead: int = 0
    error: str | None = None
    traceback: str | None = None
    error_ms: int | None = None
    _told: str | None = field(default=None, repr=False)
    _told_ms: int = field(default=0, repr=False)
    _calls: deque[tuple[float, float, int]] = field(default_factory=lambda: deque(maxlen=_CALLS), repr=False)

    def called(self, ended_s: float, took_s: float, changes: int) -> None:
        """Count a call."""
        self.calls += 1
        self._calls.append((ended_s, took_s, changes))

    def failure(self, error: str, traceback: str | None, now_ms: int) -> bool:
        """Remember what went wrong; whether it is news to whoever reads the server's messages.

        That is another error than the last they were told, or the same a minute later; and one a second is enough.
        """
        self.error, self.traceback, self.error_ms = error, traceback, now_ms
        since_ms = now_ms - self._told_ms
        is_news = since_ms >= _NEWS_MS if error == self._told else since_ms >= _LEAST_MS
        if is_news:
            self._told, self._told_ms = error, now_ms
        return is_news

    def to_json(self, now_s: float) -> dict[str, Any]:
        """What an operator is shown; rates are those of the last minute, as far as it is remembered."""
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
