"""The delivery policy of a subscription: its settings in the form that a dispatcher needs."""

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias
from zlib import crc32

from ...model.lazy_dataclass import dataclass
from ...model.subscriptions.setting_types import milliseconds

FailureMode: TypeAlias = Literal["isolate", "batch", "block"]

MAX_DEPTH: Final = 16
"""Maximum number of triggers in a chain. A change at this depth is part of a loop and is not delivered."""

_MIN_AHEAD: Final = 10_000


@dataclass(frozen=True, slots=True)
class DeliveryPolicy:
    """Limits of batches, concurrency, retries and time.

    Attributes:
        batch: Maximum number of changes per call.
        window_s: Maximum time that a batch waits until it is full.
        lanes: Number of concurrent calls.
        retries: Maximum number of retries; None for no limit.
        age_ms: Maximum age of a change; an older one becomes a dead letter. None for no limit.
        bisect: Whether a failed batch is halved before its retry.
        first_s: Backoff after the first failure; it doubles with each failure.
        max_s: Maximum backoff.
        on_failure: The changes that become dead letters after too many failures: the failing one (isolate), the batch
            (batch), or nothing, and the lane blocks (block).
        tumbling_ms: Length of a tumbling window; 0 without windows.
        together: Whether the changes of a transaction are one batch.
        replay: Whether the changes were delivered before.
    """

    batch: int = 100
    window_s: float = 0.0
    lanes: int = 1
    retries: int | None = None
    age_ms: int | None = None
    bisect: bool = False
    first_s: float = 1.0
    max_s: float = 60.0
    on_failure: FailureMode = "isolate"
    tumbling_ms: int = 0
    together: bool = False
    replay: bool = False
    timeout_s: float = 60.0

    @staticmethod
    def of(settings: Mapping[str, Any]) -> "DeliveryPolicy":
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
            max_s=_seconds(backoff["Most"]),
            on_failure=settings["OnFailure"],
            tumbling_ms=milliseconds(settings["TumblingWindowInSeconds"]) or 0,
            together=together,
            replay=settings["Replay"],
            timeout_s=_seconds(settings["TimeoutSeconds"]),
        )

    @property
    def ahead(self) -> int:
        """Maximum number of changes that wait for their calls; reading pauses there."""
        return max(_MIN_AHEAD, 2 * self.batch * self.lanes)

    def lane_of(self, pk: bytes) -> int:
        """Return the lane of a partition key, among the lanes of its partition."""
        return crc32(pk) % self.lanes if self.lanes > 1 else 0

    def backoff(self, tries: int, jitter: float) -> float:
        """Return the backoff in seconds after the `tries`th failure.

        `jitter` is from 0 to 1, and spreads the retries of many subscriptions.

        >>> DeliveryPolicy().backoff(3, 1.0)
        4.0
        """
        return min(self.max_s, self.first_s * 2.0 ** min(tries - 1, 40)) * (0.5 + jitter / 2)


def _seconds(setting: int | str) -> float:
    return (milliseconds(setting) or 0) / 1000
