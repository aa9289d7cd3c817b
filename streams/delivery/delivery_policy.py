"""How one subscription is to be run, read off its settings once."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias
from zlib import crc32

from ...model.subscriptions import milliseconds

OnFailure: TypeAlias = Literal["isolate", "batch", "block"]

MOST_DEPTH: Final = 16
"""A change that so many triggers in a row led to is a loop's, and is delivered to nobody."""

_LEAST_AHEAD: Final = 10_000


@dataclass(frozen=True, slots=True)
class DeliveryPolicy:
    """How changes become calls.

    Attributes:
        batch: At most so many changes a call.
        window_s: A batch that is not full waits so long for more.
        lanes: So many calls at a time.
        retries: So many calls again after the first; None for ever.
        age_ms: What is older than that is given up; None whatever its age.
        bisect: Whether a batch that failed is halved before it is tried again.
        first_s: The pause after the first failure; it doubles with each.
        most_s: The longest pause.
        on_failure: What is given up when a batch has failed too often: the change that makes it fail, all of it, or
            nothing, and the lane stands still.
        tumbling_ms: How long a tumbling window is; 0 where there are none.
        together: Whether the changes of a transaction are one batch.
        replay: Whether all of it was delivered before.
        timeout_s: How long a call may take.
    """

    batch: int = 100
    window_s: float = 0.0
    lanes: int = 1
    retries: int | None = None
    age_ms: int | None = None
    bisect: bool = False
    first_s: float = 1.0
    most_s: float = 60.0
    on_failure: OnFailure = "isolate"
    tumbling_ms: int = 0
    together: bool = False
    replay: bool = False
    timeout_s: float = 60.0

    @staticmethod
    def of(settings: Mapping[str, Any]) -> "DeliveryPolicy":
        """Read checked settings."""
        retries = settings["MaximumRetryAttempts"]
        backoff = settings["Backoff"]
        together = settings["Transactions"] == "together"
        return DeliveryPolicy(
            batch=settings["BatchSize"],
            window_s=_seconds(settings["MaximumBatchingWindowInSeconds"]),
            lanes=1 if together else settings["ParallelizationFactor"],
            retries=None if retries == -1 else retries,
            age_ms=milliseconds(settings["MaximumRecordAgeInSeconds"]),
            bisect=settings["BisectBatchOnFunctionError"],
            first_s=_seconds(backoff["First"]),
            most_s=_seconds(backoff["Most"]),
            on_failure=settings["OnFailure"],
            tumbling_ms=milliseconds(settings["TumblingWindowInSeconds"]) or 0,
            together=together,
            replay=settings["Replay"],
            timeout_s=_seconds(settings["TimeoutSeconds"]),
        )

    @property
    def ahead(self) -> int:
        """How many changes may wait for their calls before no more are read."""
        return max(_LEAST_AHEAD, 2 * self.batch * self.lanes)

    def lane_of(self, pk: bytes) -> int:
        """Which of its partition's lanes a change of that partition key goes through."""
        return crc32(pk) % self.lanes if self.lanes > 1 else 0

    def pause(self, tries: int, jitter: float) -> float:
        """How long to wait after the `tries`th failure; `dice` is from 0 to 1 and keeps many from coming at once.

        >>> Terms().pause(3, 1.0)
        4.0
        """
        return min(self.most_s, self.first_s * 2.0 ** min(tries - 1, 40)) * (0.5 + jitter / 2)


def _seconds(setting: int | str) -> float:
    return (milliseconds(setting) or 0) / 1000
