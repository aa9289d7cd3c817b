"""Delivers one batch, from its first call until each of its changes is handled or a dead letter.

    pending ──► call ──► Success                    ──► handled
                 ▲       PartialFailure             ──► changes before the failed one: handled; that one failed
                 └─ pause ── Failure                ──► all changes failed once more
                             too often, or bisect   ──► halve until the failing change is found, then try it alone
                             too often and alone    ──► dead letter; later changes of its key follow it

The count of failures is reset only when a change leaves the batch. Each call therefore either removes changes from the
batch or increments that count, and no change is retried forever unless the subscription is configured so.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias, TypeVar

from ...model.errors import RequestError
from ...model.lazy_dataclass import dataclass
from ..formats.table_view import Delivery
from ..sinks.sink import DeliveryResult, Failure, PartialFailure, Sink, Success, Unsubscribed
from .dead_letters import DeadLetter, DeadLetters, ItemKey, item_key_of
from .delivery_policy import MAX_DEPTH, DeliveryPolicy
from .metrics import SubscriptionMetrics

CallSink: TypeAlias = Callable[[Sequence[Delivery], int], Awaitable[DeliveryResult]]
"""Calls the sink with changes and the number of the attempt, from 1."""

T = TypeVar("T")

_DEAD_LETTER_RETRY_S: Final = 1.0
_LOOP: Final = f"a loop of triggers: {MAX_DEPTH} in a row led to this change"
_TOO_OLD: Final = "older than MaximumRecordAgeInSeconds"


class BlockedError(Exception):
    """A change has failed too often, and the subscription is configured to block then."""


class UnsubscribedError(Exception):
    """The sink has unsubscribed."""


@dataclass(frozen=True, slots=True)
class DeliveryContext:
    """The environment of a subscription's deliveries.

    Attributes:
        subscription: Name of the subscription.
        policy: Limits of batches, retries and time.
        metrics: The subscription's metrics.
        dead_letters: The store of dead letters.
        open: Item keys that may have open dead letters, with the sequence number of the first.
        seconds: Monotonic clock that measures calls.
        jitter: Random numbers from 0 to 1.
        on_dead_lettered: Called with the number of new dead letters.
        report: Called with the text of an error other than that of a call.
    """

    subscription: str
    sink: Sink
    policy: DeliveryPolicy
    metrics: SubscriptionMetrics
    dead_letters: DeadLetters
    open: dict[ItemKey, int]
    clock: Callable[[], int]
    seconds: Callable[[], float]
    jitter: Callable[[], float]
    on_dead_lettered: Callable[[int], None]
    report: Callable[[str], None]


class Attempts:
    """The attempts to deliver one batch.

    Attributes:
        pending: The changes that are neither handled nor dead letters, in order.
    """

    def __init__(
        self,
        batch: list[Delivery],
        call: CallSink,
        context: DeliveryContext,
        on_handled: Callable[[Sequence[Delivery]], None],
        *,
        is_transaction: bool = False,
    ) -> None:
        """Prepare to deliver `batch`; `on_handled` receives the changes that leave it.

        The batch of a transaction is never divided.
        """
        self.pending = batch
        self._call = call
        self._on_handled = on_handled
        self._context = context
        self._policy = context.policy
        self._is_transaction = is_transaction
        self._is_alone = False  # the first pending change is known to fail, and is tried alone
        self._failed = 0  # calls that failed for all pending changes
        self._named = 0  # calls that named the first pending change
        self._first_ms = 0

    async def run(self) -> None:
        """Call until no change is pending.

        Raises:
            BlockedError: A change failed too often, and the policy is to block. It stays pending.
            UnsubscribedError: The sink unsubscribed. The batch stays pending.
        """
        self._first_ms = self._context.clock()
        await self._set_aside()
        while self.pending:
            part = self.pending[:1] if self._is_alone else self.pending
            result = await self._call(part, self.tries + 1)
            if type(result) is Success:
                self._drop(len(part))
            else:
                await self._handle_failure(part, _failure_of(result))
                await self._set_aside()  # changes age during a pause, and changes follow a new dead letter

    @property
    def tries(self) -> int:
        """Number of failed attempts of the first pending change."""
        return self._failed + self._named

    def _drop(self, count: int) -> None:
        """Remove handled changes. The rest keeps its failures, unless the failing change was among the removed."""
        self._advance(count)
        self._named = 0
        if self._is_alone:
            self._is_alone, self._failed = False, 0

    def _advance(self, count: int) -> None:
        handled, self.pending = self.pending[:count], self.pending[count:]
        self._on_handled(handled)

    async def _handle_failure(self, part: Sequence[Delivery], failure: Failure | PartialFailure) -> None:
        failed = self._failed_index(part, failure)
        if failed is None:
            self._failed += 1
        else:
            if failed:
                self._drop(failed)
            self._named += 1
        is_known = failed is not None or len(part) == 1 or self._is_transaction
        if self._policy.bisect and not is_known:
            is_known = await self._bisect()
        if self._policy.retries is None or self.tries <= self._policy.retries:
            await self._pause(failure)
        elif self._policy.on_failure == "block":
            raise BlockedError(failure.error)
        elif self._is_transaction or (self._policy.on_failure == "batch" and not self._is_alone):
            await self._dead_letter(len(self.pending), failure)
        elif is_known or (not self._is_alone and await self._bisect()):
            await self._dead_letter(1, failure)

    def _failed_index(self, part: Sequence[Delivery], failure: Failure | PartialFailure) -> int | None:
        """Return the index in `part` of the failed change; None if the sink named none, or an ambiguous one."""
        if isinstance(failure, Failure) or self._is_transaction:
            return None
        indexes = [
            index
            for index, each in enumerate(part)
            if each.change.sequence_number == failure.sequence_number and each.partition == failure.partition
        ]
        return indexes[0] if len(indexes) == 1 else None

    async def _bisect(self) -> bool:
        """Halve the batch until the first pending change is the failing one.

        The changes before it are handled on the way; at most log2 of the calls fail. Return whether it failed alone.
        """
        width, is_known = len(self.pending), False
        while width > 1:
            half = width // 2
            part = self.pending[:half]
            result = await self._call(part, self.tries + 1)
            if type(result) is Success:
                self._advance(half)
                width, is_known = width - half, False
                continue
            failed = self._failed_index(part, _failure_of(result))
            self._advance(failed or 0)
            width = half if failed is None else 1
            is_known = width == 1
        self._is_alone = True
        return is_known

    async def _pause(self, failure: Failure | PartialFailure) -> None:
        """Sleep for the backoff, or longer if the sink asks for it. Changes that are too old by then are set aside."""
        backoff = self._policy.backoff(self.tries, self._context.jitter())
        await asyncio.sleep(max(backoff, failure.retry_after_s or 0))

    async def _dead_letter(self, count: int, failure: Failure | PartialFailure) -> None:
        """Turn the first pending changes into dead letters."""
        tries = self.tries
        dead = self.pending[:count]
        await self._write(
            [self._make_dead_letter(each, failure.error, failure.traceback, tries) for each in dead]
        )
        self._drop(count)
        self._failed = 0

    async def _set_aside(self) -> None:
        """Turn the changes that may not be delivered into dead letters.

        These are the changes of a loop, changes that are too old, and those behind an open dead letter of their key.
        """
        if not self.pending:
            return
        dead_letters = self._refused()
        if dead_letters or self._context.open:
            dead_letters = await self._with_followers(dead_letters)
        if dead_letters:
            if self._is_transaction:
                dead_letters = self._with_transaction(dead_letters)
            await self._write(dead_letters)
            dead = {id(dead_letter.delivery) for dead_letter in dead_letters}
            if id(self.pending[0]) in dead:
                self._is_alone, self._named = False, 0
            self.pending = [each for each in self.pending if id(each) not in dead]
            self._on_handled([dead_letter.delivery for dead_letter in dead_letters])

    def _refused(self) -> list[DeadLetter]:
        if self.pending[0].change.context.depth >= MAX_DEPTH:  # a batch has one depth
            if self._policy.on_failure == "block":
                raise BlockedError(_LOOP)
            return [self._make_dead_letter(each, _LOOP, None, 0) for each in self.pending]
        if self._policy.age_ms is None:
            return []
        oldest = self._context.clock() - self._policy.age_ms
        old = [each for each in self.pending if each.change.time < oldest]
        return [self._make_dead_letter(each, _TOO_OLD, None, self.tries) for each in old]

    async def _with_followers(self, refused: list[DeadLetter]) -> list[DeadLetter]:
        """Add a dead letter for each change behind one of `refused`, or behind an older one of its key; in order."""
        dead_letters = {id(dead_letter.delivery): dead_letter for dead_letter in refused}
        first_open: dict[ItemKey, int | None] = {}
        for each in self.pending:
            key, sequence_number = item_key_of(each), each.sequence_number
            if key not in first_open:
                first_open[key] = await self._first_open(each) if key in self._context.open else None
            waits_for = first_open[key]
            if id(each) in dead_letters:
                first_open[key] = sequence_number if waits_for is None else min(waits_for, sequence_number)
            elif waits_for is not None and waits_for <= sequence_number:
                # If it is that dead letter itself, a delivery before a restart wrote it, and it stays unchanged.
                error = f"waits for sequence number {waits_for}"
                dead_letters[id(each)] = self._make_dead_letter(each, error, None, 0)
        return [dead_letters[id(each)] for each in self.pending if id(each) in dead_letters]

    def _with_transaction(self, dead_letters: list[DeadLetter]) -> list[DeadLetter]:
        """Add a dead letter for each other change of the transaction, with the error of the first."""
        own = {id(dead_letter.delivery): dead_letter for dead_letter in dead_letters}
        return [own.get(id(each)) or replace(dead_letters[0], delivery=each) for each in self.pending]

    async def _first_open(self, delivery: Delivery) -> int | None:
        """Return the first open dead letter of a key: it may be delivered or dropped since it was recorded."""
        first = await self._retrying(lambda: self._context.dead_letters.first(delivery))
        if first is None:
            del self._context.open[item_key_of(delivery)]
        return first

    def _make_dead_letter(
        self, delivery: Delivery, error: str, traceback: str | None, attempts: int
    ) -> DeadLetter:
        context = self._context
        return DeadLetter(
            delivery, error, traceback, attempts, self._first_ms, context.clock(), context.sink.version
        )

    async def _write(self, dead_letters: list[DeadLetter]) -> None:
        await self._retrying(lambda: self._context.dead_letters.write(dead_letters))
        for dead_letter in dead_letters:
            self._context.open.setdefault(
                item_key_of(dead_letter.delivery), dead_letter.delivery.sequence_number
            )
        self._context.on_dead_lettered(len(dead_letters))

    async def _retrying(self, request: Callable[[], Awaitable[T]]) -> T:
        """Send a request until it succeeds: a change may not be skipped before its dead letter is stored."""
        while True:
            try:
                return await request()
            except RequestError as error:
                self._context.report(f"failed to store dead letters: {error}")
            await asyncio.sleep(_DEAD_LETTER_RETRY_S)


def _failure_of(result: DeliveryResult) -> Failure | PartialFailure:
    if isinstance(result, Unsubscribed):
        raise UnsubscribedError(result.reason)
    assert isinstance(result, Failure | PartialFailure), "the caller handles Success"
    return result
