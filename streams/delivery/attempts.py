"""One batch, from its first call until each of its changes is handled or given up.

    pending ──► call ──► Handled                    ──► done
                 ▲       Partly: all before one     ──► those are done, the one has failed once more
                 └─ pause ── Failed                 ──► all have failed once more
                             too often, or bisect   ──► halve until the one is found, which is tried alone
                             too often and alone    ──► a letter; its key's later changes follow it

A count of failures is dropped only when a change leaves the batch, so every call either takes something out of the
batch or brings the first of it nearer to its end: no change is tried for ever that is not meant to be.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, TypeVar

from ...model.errors import RequestError
from ..formats.table_view import Delivery
from ..sinks.sink import DeliveryResult, Failure, PartialFailure, Success, Unsubscribed
from .dead_letters import DeadLetter, DeadLetters, Key, key_of
from .delivery_policy import MOST_DEPTH, DeliveryPolicy

Call: TypeAlias = Callable[[Sequence[Delivery], int], Awaitable[DeliveryResult]]
"""Calls with some changes; the number is that of the attempt, from 1."""

T = TypeVar("T")

_LETTERS_AGAIN_S: Final = 1.0
_LOOP: Final = f"a loop of triggers: {MOST_DEPTH} in a row led to this change"
_TOO_OLD: Final = "older than MaximumRecordAgeInSeconds"


class BlockedError(Exception):
    """A change has failed too often, and the subscription is to stand still then."""


class GoneError(Exception):
    """Whoever is called wants no more calls."""


@dataclass(frozen=True, slots=True)
class DeliveryContext:
    """What attempts need besides the batch.

    Attributes:
        terms: How often to try, and what then.
        dead_letters: Where letters go.
        open: The keys that are known to have open letters, and the number of each one's first.
        clock: Milliseconds since 1970.
        seconds: A clock for what calls take.
        dice: From 0 to 1, by chance.
        version: Of what is called.
        buried: Told how many became letters.
        troubled: Told what went wrong besides calls.
    """

    terms: DeliveryPolicy
    dead_letters: DeadLetters
    open: dict[Key, int]
    clock: Callable[[], int]
    seconds: Callable[[], float]
    jitter: Callable[[], float]
    version: Callable[[], str]
    on_dead_lettered: Callable[[int], None]
    troubled: Callable[[str], None]


class Attempts:
    """Brings one batch to its end.

    Attributes:
        pending: What is neither handled nor given up, in order.
    """

    def __init__(
        self,
        batch: list[Delivery],
        call: Call,
        around: DeliveryContext,
        left: Callable[[Sequence[Delivery]], None],
        *,
        whole: bool = False,
    ) -> None:
        """`left` is told what leaves the batch; `whole` batches are never divided: a transaction."""
        self.pending = batch
        self._call = call
        self._left = left
        self._around = around
        self._terms = around.terms
        self._whole = whole
        self._alone = False  # the first of what is pending is what fails: it is tried alone
        self._failed = 0  # calls that failed with all that is pending
        self._named = 0  # calls that named the first of it
        self._first_ms = 0

    async def run(self) -> None:
        """Call until nothing is pending.

        Raises:
            BlockedError, GoneError: It is pending still, and is to stay so.
        """
        self._first_ms = self._around.clock()
        await self._set_aside()
        while self.pending:
            part = self.pending[:1] if self._alone else self.pending
            verdict = await self._call(part, self.tries + 1)
            if type(verdict) is Success:
                self._drop(len(part))
            else:
                await self._failure(part, _trouble(verdict))
                await self._set_aside()  # a pause may have made some too old, a letter has others follow

    @property
    def tries(self) -> int:
        """How often the first of what is pending has failed."""
        return self._failed + self._named

    def _drop(self, count: int) -> None:
        """So many are done. What failed with them has failed still, unless what made it fail was among them."""
        self._advance(count)
        self._named = 0
        if self._alone:
            self._alone, self._failed = False, 0

    def _advance(self, count: int) -> None:
        gone, self.pending = self.pending[:count], self.pending[count:]
        self._left(gone)

    async def _failure(self, part: Sequence[Delivery], trouble: Failure | PartialFailure) -> None:
        found = self._place(part, trouble)
        if found is None:
            self._failed += 1
        else:
            if found:
                self._drop(found)
            self._named += 1
        is_known = found is not None or len(part) == 1 or self._whole
        if self._terms.bisect and not is_known:
            is_known = await self._narrow()
        if self._terms.retries is None or self.tries <= self._terms.retries:
            await self._pause(trouble)
        elif self._terms.on_failure == "block":
            raise BlockedError(trouble.error)
        elif self._whole or (self._terms.on_failure == "batch" and not self._alone):
            await self._bury(len(self.pending), trouble)
        elif is_known or (not self._alone and await self._narrow()):
            await self._bury(1, trouble)

    def _place(self, part: Sequence[Delivery], trouble: Failure | PartialFailure) -> int | None:
        """Where in `part` the change stands that is named; None if none is, or more than one."""
        if isinstance(trouble, Failure) or self._whole:
            return None
        places = [
            place
            for place, each in enumerate(part)
            if each.change.sequence_number == trouble.sequence_number and each.partition == trouble.partition
        ]
        return places[0] if len(places) == 1 else None

    async def _narrow(self) -> bool:
        """Halve what fails until the first of what is pending is what fails; True if it has failed alone by then.

        What is before it is done on the way, and no more than log2 of all calls fail for it.
        """
        width, is_known = len(self.pending), False
        while width > 1:
            half = width // 2
            part = self.pending[:half]
            verdict = await self._call(part, self.tries + 1)
            if type(verdict) is Success:
                self._advance(half)
                width, is_known = width - half, False
                continue
            trouble = _trouble(verdict)
            found = self._place(part, trouble)
            self._advance(found or 0)
            width = half if found is None else 1
            is_known = width == 1
        self._alone = True
        return is_known

    async def _pause(self, trouble: Failure | PartialFailure) -> None:
        """Nobody is called before it is wanted; but what has become too old until then is not to be called with."""
        pause = self._terms.pause(self.tries, self._around.jitter())
        await asyncio.sleep(max(pause, trouble.retry_after_s or 0))

    async def _bury(self, count: int, trouble: Failure | PartialFailure) -> None:
        """Give up the first of what is pending: letters hold them from now on."""
        tries = self.tries
        dead = self.pending[:count]
        await self._write([self._letter(each, trouble.error, trouble.traceback, tries) for each in dead])
        self._drop(count)
        self._failed = 0

    async def _set_aside(self) -> None:
        """Make letters of what may not be delivered: a loop's, too old, or behind an open letter of its key."""
        if not self.pending:
            return
        letters = self._refused()
        if letters or self._around.open:
            letters = await self._followed(letters)
        if letters:
            if self._whole:
                letters = self._with_the_rest(letters)
            await self._write(letters)
            gone = {id(letter.delivery) for letter in letters}
            if id(self.pending[0]) in gone:
                self._alone, self._named = False, 0
            self.pending = [each for each in self.pending if id(each) not in gone]
            self._left([letter.delivery for letter in letters])

    def _refused(self) -> list[DeadLetter]:
        if self.pending[0].change.context.depth >= MOST_DEPTH:  # all of a batch have the same
            if self._terms.on_failure == "block":
                raise BlockedError(_LOOP)
            return [self._letter(each, _LOOP, None, 0) for each in self.pending]
        if self._terms.age_ms is None:
            return []
        oldest = self._around.clock() - self._terms.age_ms
        old = [each for each in self.pending if each.change.time < oldest]
        return [self._letter(each, _TOO_OLD, None, self.tries) for each in old]

    async def _followed(self, refused: list[DeadLetter]) -> list[DeadLetter]:
        """Those letters and, in order, one for each change that is behind one of them or an older one of its key."""
        around = self._around
        letters = {id(letter.delivery): letter for letter in refused}
        first: dict[Key, int | None] = {}
        for each in self.pending:
            key, number = key_of(each), each.sequence_number
            if key not in first:
                first[key] = await self._first_open(each) if key in around.open else None
            waits_for = first[key]
            if id(each) in letters:
                first[key] = number if waits_for is None else min(waits_for, number)
            elif waits_for is not None and waits_for <= number:
                # It may be the very one: then it was given up before, and stays as it is.
                letters[id(each)] = self._letter(each, f"waits for number {waits_for}", None, 0)
        return [letters[id(each)] for each in self.pending if id(each) in letters]

    def _with_the_rest(self, letters: list[DeadLetter]) -> list[DeadLetter]:
        """Those letters and, for the same reason as the first of them, one for each other change."""
        own = {id(letter.delivery): letter for letter in letters}
        return [own.get(id(each)) or replace(letters[0], delivery=each) for each in self.pending]

    async def _first_open(self, delivery: Delivery) -> int | None:
        """Look whether the key's letters are still there: they may have been delivered or dropped meanwhile."""
        number = await self._patiently(lambda: self._around.dead_letters.first(delivery))
        if number is None:
            del self._around.open[key_of(delivery)]
        return number

    def _letter(self, delivery: Delivery, error: str, traceback: str | None, attempts: int) -> DeadLetter:
        around = self._around
        return DeadLetter(
            delivery, error, traceback, attempts, self._first_ms, around.clock(), around.version()
        )

    async def _write(self, letters: list[DeadLetter]) -> None:
        await self._patiently(lambda: self._around.dead_letters.write(letters))
        for letter in letters:
            self._around.open.setdefault(key_of(letter.delivery), letter.delivery.sequence_number)
        self._around.on_dead_lettered(len(letters))

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask until there is an answer: what is no letter yet may not be passed over."""
        while True:
            try:
                return await ask()
            except RequestError as error:
                self._around.troubled(f"letters cannot be kept now: {error}")
            await asyncio.sleep(_LETTERS_AGAIN_S)


def _trouble(verdict: DeliveryResult) -> Failure | PartialFailure:
    if isinstance(verdict, Unsubscribed):
        raise GoneError(verdict.reason)
    assert isinstance(verdict, Failure | PartialFailure), "what is handled is no trouble"
    return verdict
