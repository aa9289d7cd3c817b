"""The seam between a subscription and what it calls.

    Batch ──► sink.deliver ──► Verdict: Handled | Partly | Failed | Gone

A sink tries once and says what came of it. Whether, when and with what it is called again is the dispatcher's business
alone, so a sink keeps no count of attempts, waits for nothing but its own answer, and loses nothing when it is cut off.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from ...log.local.filesystem import Filesystem, SystemFilesystem
from ..formats.table_view import Delivery


@dataclass(frozen=True, slots=True)
class Window:
    """The tumbling window that a batch falls into.

    Attributes:
        start_ms: Log time from which its changes are.
        end_ms: Log time before which they are.
        state: What the sink gave back for the window's last batch; {} for its first.
        is_final: Whether this is the window's last call; such a batch has no changes.
    """

    start_ms: int
    end_ms: int
    state: dict[str, Any]
    is_final: bool


@dataclass(slots=True)
class Batch:
    """Changes that are delivered together, those of one key in their order.

    Attributes:
        subscription: Whose.
        changes: What is delivered.
        lane: Which of the subscription's lanes delivers; a lane has one batch under way.
        attempt: From 1; how often the first of these changes has been tried, this time included.
        replay: Whether it was all delivered before, and is again because somebody asked for that.
        window: The tumbling window, where the subscription has such.
    """

    subscription: str
    changes: Sequence[Delivery]
    lane: int = 0
    attempt: int = 1
    replay: bool = False
    window: Window | None = None


@dataclass(frozen=True, slots=True)
class Success:
    """All of it is done. `state` is the window's, to be handed to its next batch."""

    state: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class PartialFailure:
    """What stands before one change of the batch is done; that one failed, what stands behind it counts as not tried.

    Attributes:
        partition: Where the failed change was made.
        sequence_number: The sequence number of the change itself, which for an item of a snapshot counts the
        items of its table.
            If several of the batch have it there, as items of two tables may, none counts as done.
        error: What went wrong, in a line.
        traceback: In many lines, if there are any.
        state: As in Handled.
        retry_after_s: As in Failed.
    """

    partition: int
    sequence_number: int
    error: str
    traceback: str | None = None
    state: dict[str, Any] | None = None
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """None of it is done, or nobody knows which.

    Attributes:
        error: What went wrong, in a line.
        traceback: In many lines, if there are any.
        retry_after_s: Not to be called again before so many seconds have passed.
    """

    error: str
    traceback: str | None = None
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Unsubscribed:
    """Whoever is called wants no more calls: the subscription stops, and says why."""

    reason: str


DeliveryResult: TypeAlias = Success | PartialFailure | Failure | Unsubscribed


class Sink(Protocol):
    """What a subscription calls.

    Up to as many `deliver` are under way at a time as the subscription has lanes, one a lane. A `deliver` that is
    cancelled ends soon; what it had begun may have happened.
    """

    @property
    def version(self) -> str:
        """Tells one state of the code or settings that are called from another; letters and checkpoints name it."""
        ...

    async def start(self) -> None:
        """Get ready. What it raises is told as the subscription's last error, and it is started again later."""
        ...

    async def deliver(self, batch: Batch) -> DeliveryResult:
        """Call once with `batch`. What it raises counts as Failed."""
        ...

    async def close(self) -> None:
        """Let go of processes, connections and files; no `deliver` is under way."""
        ...


@dataclass(frozen=True, slots=True)
class SinkContext:
    """What a sink may use of the process that it runs in.

    Attributes:
        loop: Where everything happens.
        clock: Milliseconds since 1970.
        subscription: The name of the subscription that the sink is for.
        instance: What this sink is called, and no other that delivers for the same subscription at the same time.
        timeout_s: How long one call may take.
        reports_failures: Whether the subscription's FunctionResponseTypes has ReportBatchItemFailures.
        endpoint: Where this node answers requests, once it does.
        folder: The only folder that functions and commands come from; None where none may run.
        trigger_user: Who runs them; None is who runs this process.
        webhooks: Addresses and networks that may be called although they are private or of this machine.
        destinations: `kafka://HOST:PORT/PREFIX` for topics; None where there is no Kafka.
        kafka: The file that says how brokers are spoken to.
        kafka_variables: Variables that say so too, and win.
        scratch: A folder for what need not stay.
        data: The folder of the database, for what is to stay; None where it is in memory.
        disk: The disk that holds that folder.
        outdated: Tables of which all that there is will be delivered: what was kept of them before counts no more.
    """

    loop: asyncio.AbstractEventLoop
    clock: Callable[[], int]
    subscription: str
    instance: str
    timeout_s: float
    endpoint: Callable[[], str]
    folder: Path | None
    webhooks: tuple[str, ...]
    destinations: str | None
    kafka: Path | None
    scratch: Path
    kafka_variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    reports_failures: bool = False
    trigger_user: str | None = None
    data: Path | None = None
    disk: Filesystem = field(default_factory=SystemFilesystem)
    outdated: tuple[str, ...] = ()
