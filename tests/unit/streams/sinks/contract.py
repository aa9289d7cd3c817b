"""What every sink promises. Subclass one of these, say where its target is, and it is tested."""

import asyncio
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import pytest

from foldb.model.errors import ValidationError
from foldb.streams.formats.table_view import Delivery
from foldb.streams.sinks.sink import Failure, PartialFailure, Sink, SinkContext, Success
from tests.unit.streams.deliveries import delivery, order
from tests.unit.streams.sinks.surroundings import batch

Told = list[tuple[str, str]]
"""The customer whose order it was and the number of the change, in the order in which they came."""


class Target(Protocol):
    """What a sink under test writes to."""

    settings: dict[str, Any]
    surroundings: SinkContext

    async def told(self) -> Told:
        """All that has come so far."""
        ...


class BreakableTarget(Target, Protocol):
    """One that can be made to fail."""

    def fail(self) -> None:
        """Take nothing more."""
        ...

    def mend(self) -> None:
        """Take everything again."""
        ...


def history(customer: str, count: int, start: int = 1) -> list[Delivery]:
    """An order that is placed and then changed so many times."""
    item, changes = None, []
    for nth in range(start, start + count):
        new = order(customer, state={"N": str(nth)})
        changes.append(delivery(item, new, offset=nth))
        item = new
    return changes


def expected(*histories: list[Delivery]) -> dict[str, list[str]]:
    """What is told of each customer, in order."""
    return {
        changes[0].change.pk.decode(): [str(each.change.sequence_number) for each in changes]
        for changes in histories
    }


def by_customer(told: Told) -> dict[str, list[str]]:
    """What was told of each, in the order in which it came; what came twice as often as it did."""
    found: dict[str, list[str]] = defaultdict(list)
    for customer, number in told:
        found[customer].append(number)
    return dict(found)


def once(told: Told) -> dict[str, list[str]]:
    """The same for a reader that passes over what it has had: a number that is not above the last of its customer."""
    found: dict[str, list[str]] = defaultdict(list)
    for customer, number in told:
        if not found[customer] or int(number) > int(found[customer][-1]):
            found[customer].append(number)
    return dict(found)


class SinkContract(ABC):
    module: ModuleType

    @abstractmethod
    def target(self, folder: Path) -> AbstractAsyncContextManager[Any]:
        """A target of its own, on the loop that runs."""

    def run(self, folder: Path, scenario: Callable[[Sink, Any], Awaitable[None]]) -> None:
        """Run a scenario with a sink that was started, and close it."""

        async def whole() -> None:
            async with self.target(folder) as target:
                sink = self.module.make(target.settings, target.surroundings)
                await sink.start()
                try:
                    await scenario(sink, target)
                finally:
                    await sink.close()

        asyncio.run(whole())

    def test_what_is_handled_was_told_in_order(self, tmp_path: Path) -> None:
        async def scenario(sink: Sink, target: Target) -> None:
            ann, bob = history("ann", 4), history("bob", 3, start=20)
            for changes in (ann[:2], [*ann[2:], *bob]):
                assert Success() == await sink.deliver(batch(changes))
            assert expected(ann, bob) == by_customer(await target.told())

        self.run(tmp_path, scenario)

    def test_what_is_told_again_can_be_passed_over(self, tmp_path: Path) -> None:
        """After a crash some are delivered once more, in batches that were cut elsewhere."""

        async def scenario(sink: Sink, target: Target) -> None:
            ann = history("ann", 6)
            await sink.deliver(batch(ann[:5]))
            for attempt, changes in enumerate((ann[:2], ann[1:4], ann[4:]), 2):
                assert Success() == await sink.deliver(batch(changes, attempt=attempt))
            assert expected(ann) == once(await target.told())

        self.run(tmp_path, scenario)

    def test_lanes_deliver_at_the_same_time(self, tmp_path: Path) -> None:
        async def scenario(sink: Sink, target: Target) -> None:
            histories = [history(f"customer-{lane}", 5, start=1 + 10 * lane) for lane in range(4)]

            async def lane(number: int) -> None:
                for change in histories[number]:
                    assert Success() == await sink.deliver(batch([change], lane=number))

            await asyncio.gather(*map(lane, range(4)))
            assert expected(*histories) == by_customer(await target.told())

        self.run(tmp_path, scenario)

    def test_a_delivery_that_is_cancelled_ends_and_the_next_is_handled(self, tmp_path: Path) -> None:
        async def scenario(sink: Sink, target: Target) -> None:
            ann = history("ann", 5)
            task = asyncio.create_task(sink.deliver(batch(ann)))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert Success() == await sink.deliver(batch(ann, attempt=2))
            assert expected(ann) == once(await target.told())

        self.run(tmp_path, scenario)

    def test_nothing_to_tell_is_handled(self, tmp_path: Path) -> None:
        async def scenario(sink: Sink, target: Target) -> None:
            assert Success() == await sink.deliver(batch([]))
            assert [] == await target.told()

        self.run(tmp_path, scenario)

    def test_the_same_settings_have_the_same_version(self, tmp_path: Path) -> None:
        async def scenario(sink: Sink, target: Target) -> None:
            other = self.module.make(dict(target.settings), target.surroundings)
            assert sink.version
            assert sink.version == other.version
            await other.close()  # though it was never started

        self.run(tmp_path, scenario)

    def test_what_it_does_not_know_is_refused(self, tmp_path: Path) -> None:
        async def scenario(_: Sink, target: Target) -> None:
            self.module.KIND.check(target.settings)
            with pytest.raises(ValidationError, match="Nonsense"):
                self.module.KIND.check({**target.settings, "Nonsense": 1})

        self.run(tmp_path, scenario)


class BreakableSinkContract(SinkContract):
    def test_what_could_not_be_told_is_never_handled_and_goes_through_later(self, tmp_path: Path) -> None:
        async def scenario(sink: Sink, target: BreakableTarget) -> None:
            ann = history("ann", 4)
            await sink.deliver(batch(ann[:1]))
            target.fail()
            verdict = await sink.deliver(batch(ann[1:]))
            assert isinstance(verdict, Failure | PartialFailure)
            assert verdict.error
            target.mend()
            assert Success() == await sink.deliver(batch(ann[1:], attempt=2))
            assert expected(ann) == once(await target.told())

        self.run(tmp_path, scenario)
