"""The interface between a subscription and its target.

    Batch ──► sink.deliver ──► DeliveryResult: Success | PartialFailure | Failure | Unsubscribed

A sink tries once and returns the result. The dispatcher alone decides whether, when and with which changes it calls
again. So a sink counts no attempts, waits for nothing but its own answer, and may be cancelled at any time.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import orjson

from ...log.local.filesystem import Filesystem, SystemFilesystem
from ...model.lazy_dataclass import dataclass
from ...model.sequence_numbers import SequenceNumber
from ..formats.table_view import Delivery


@dataclass(frozen=True, slots=True)
class Window:
    """The tumbling window of a batch.

    Attributes:
        start_ms: The first log time of the window.
        end_ms: The first log time after the window.
        state: The state that the sink returned for the window's previous batch; {} for the first.
        is_final: Whether this is the window's last call; such a batch has no changes.
    """

    start_ms: int
    end_ms: int
    state: dict[str, Any]
    is_final: bool


@dataclass(slots=True)
class Batch:
    """Changes that are delivered together; those of one key in order.

    Attributes:
        subscription: The name of the subscription.
        lane: The subscription's lane that delivers; a lane delivers one batch at a time.
        attempt: How often the first of the changes has been tried, this attempt included.
        replay: Whether a user requested to deliver the changes again.
        window: The tumbling window, if the subscription has tumbling windows.
    """

    subscription: str
    changes: Sequence[Delivery]
    lane: int = 0
    attempt: int = 1
    replay: bool = False
    window: Window | None = None


@dataclass(frozen=True, slots=True)
class Success:
    """The target handled the whole batch. `state` is the input of the window's next batch."""

    state: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class PartialFailure:
    """The target handled the changes before one change, which failed; later changes count as not tried.

    Attributes:
        partition: The partition of the failed change.
        sequence_number: The sequence number of the failed change itself; for an item of a snapshot it counts the items
            of the table. If several changes of the batch match, as items of two tables may, no change counts as
            handled.
        error: The error, in one line.
        traceback: The traceback, if the target has one.
        state: As in Success.
        retry_after_s: As in Failure.
    """

    partition: int
    sequence_number: SequenceNumber
    error: str
    traceback: str | None = None
    state: dict[str, Any] | None = None
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """The target handled no change, or an unknown part of the batch.

    Attributes:
        error: The error, in one line.
        traceback: The traceback, if the target has one.
        retry_after_s: The minimum time before the next call.
    """

    error: str
    traceback: str | None = None
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Unsubscribed:
    """The target refuses all further calls: the subscription stops with `reason`."""

    reason: str


DeliveryResult: TypeAlias = Success | PartialFailure | Failure | Unsubscribed


class Sink(Protocol):
    """The target of a subscription.

    Calls of `deliver` are concurrent, at most one per lane. A cancelled `deliver` ends soon; its effects may remain.
    """

    @property
    def version(self) -> str:
        """A hash of the code or the settings of the target; dead letters and checkpoints hold it."""
        ...

    @property
    def is_single(self) -> bool:
        """Whether each change is a call of its own; it may be known after `start` only."""
        ...

    @property
    def problem(self) -> str | None:
        """The error for which the newest code is not in use; None if it is."""
        ...

    async def start(self) -> None:
        """Prepare for calls. An error becomes the subscription's last error, and the sink is started again later."""
        ...

    async def deliver(self, batch: Batch) -> DeliveryResult:
        """Call the target once. An error counts as a Failure."""
        ...

    async def close(self) -> None:
        """Release processes, connections and files. No `deliver` is in progress."""
        ...


class ConfiguredSink:
    """Base of sinks that run no user code: their version is a hash of their settings."""

    is_single = False
    problem: str | None = None

    def __init__(self, settings: dict[str, Any]) -> None:
        self.version = blake2b(orjson.dumps(settings, option=orjson.OPT_SORT_KEYS), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class SinkContext:
    """The parts of the process and its configuration that a sink may use.

    Attributes:
        loop: The event loop of all calls.
        subscription: The name of the subscription.
        instance: The name of this sink, unique among sinks that deliver for the subscription at the same time.
        reports_failures: Whether the subscription's FunctionResponseTypes has ReportBatchItemFailures.
        endpoint: Returns the URL of this node.
        folder: The folder of triggers, the only source of functions and commands; None if no code may run.
        trigger_user: The user that runs the code; None for the user of this process.
        webhooks: Private addresses and networks that webhooks may call.
        destinations: `kafka://HOST:PORT/PREFIX` for topics; None without brokers.
        kafka: The file with the brokers' security settings.
        kafka_variables: Environment variables with such settings, which override the file.
        scratch: A folder for temporary files.
        data: The folder of the database; None for a database in memory.
        disk: The filesystem of that folder.
        outdated: Tables whose rows in the target a snapshot replaces (`outdated_tables`).
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
