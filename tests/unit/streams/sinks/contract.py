"""The guarantees of every sink, as test classes: a subclass names the target of a sink."""

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
from tests.unit.streams.sinks.context import batch

Received = list[tuple[str, str]]
"""Customer and sequence number of each received change, in the order of receipt."""


class Target(Protocol):
    """The target of a sink under test."""

    settings: dict[str, Any]
    context: SinkContext

    async def received(self) -> Received:
        """Return all changes received so far."""
        ...


class BreakableTarget(Target, Protocol):
    """A target that can be made to fail."""

    def fail(self) -> None:
        """Refuse all changes."""
        ...

    def repair(self) -> None:
        """Accept all changes again."""
        ...


def history(customer: str, count: int, start: int = 1) -> list[Delivery]:
    """Return the changes of an order that is placed and then updated."""
    item, changes = None, []
    for nth in range(start, start + count):
        new = order(customer, state={"N": str(nth)})
        changes.append(delivery(item, new, offset=nth))
        item = new
    return changes


def expected(*histories: list[Delivery]) -> dict[str, list[str]]:
    """Return the sequence numbers of each customer, in order."""
    return {
        changes[0].change.pk.decode(): [str(each.change.sequence_number) for each in changes]
        for changes in histories
    }


def by_customer(received: Received) -> dict[str, list[str]]:
    """Return the sequence numbers of each customer in the order of receipt, duplicates included."""
    found: dict[str, list[str]] = defaultdict(list)
    for customer, sequence_number in received:
        found[customer].append(sequence_number)
    return dict(found)


def once(received: Received) -> dict[str, list[str]]:
    """Return the same for a reader that skips sequence numbers not above the last of the customer."""
    found: dict[str, list[str]] = defaultdict(list)
    for customer, sequence_number in received:
        if not found[customer] or int(sequence_number) > int(found[customer][-1]):
            found[customer].append(sequence_number)
    return dict(found)


class SinkContract(ABC):
    module: ModuleType

    @abstractmethod
    def target(self, folder: Path) -> AbstractAsyncContextManager[Any]:
        """Yield a new target on the running loop."""

    def run(self, folder: Path, scenario: Callable[[Sink, Any], Awaitable[None]]) -> None:
        """Run a scenario with a started sink, and close the sink."""

        async def whole() -> None:
            async with self.target(folder) as target:
                sink = self.module.make(target.settings, target.context)
                await sink.start()
                try:
                    await scenario(sink, target)
                finally:
                    await sink.close()

        asyncio.run(whole())

    def test_handled_changes_are_received_in_order(self, tmp_path: Path) -> None:
        async def scenario(sink: Sink, target: Target) -> None:
            ann, bob = history("ann", 4), history("bob", 3, start=20)
            for changes in (ann[:2], [*ann[2:], *bob]):
                assert Success() == await sink.deliver(batch(changes))
            assert expected(ann, bob) == by_customer(await target.received())

        self.run(tmp_path, scenario)

    def test_duplicates_have_the_same_sequence_number(self, tmp_path: Path) -> None:
        """After a crash changes are delivered again, in batches with other bounds."""

        async def scenario(sink: Sink, target: Target) -> None:
            ann = history("ann", 6)
            await sink.deliver(batch(ann[:5]))
            for attempt, changes in enumerate((ann[:2], ann[1:4], ann[4:]), 2):
                assert Success() == await sink.deliver(batch(changes, attempt=attempt))
            assert expected(ann) == once(await target.received())

        self.run(tmp_path, scenario)

    def test_lanes_deliver_concurrently(self, tmp_path: Path) -> None:
        async def scenario(sink: Sink, target: Target) -> None:
            histories = [history(f"customer-{lane}", 5, start=1 + 10 * lane) for lane in range(4)]

            async def lane(number: int) -> None:
                for change in histories[number]:
                    assert Success() == await sink.deliver(batch([change], lane=number))

            await asyncio.gather(*map(lane, range(4)))
            assert expected(*histories) == by_customer(await target.received())

        self.run(tmp_path, scenario)

    def test_the_delivery_after_a_cancelled_one_is_handled(self, tmp_path: Path) -> None:
        async def scenario(sink: Sink, target: Target) -> None:
            ann = history("ann", 5)
            task = asyncio.create_task(sink.deliver(batch(ann)))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert Success() == await sink.deliver(batch(ann, attempt=2))
            assert expected(ann) == once(await target.received())

        self.run(tmp_path, scenario)

    def test_an_empty_batch_is_handled(self, tmp_path: Path) -> None:
        async def scenario(sink: Sink, target: Target) -> None:
            assert Success() == await sink.deliver(batch([]))
            assert [] == await target.received()

        self.run(tmp_path, scenario)

    def test_equal_settings_have_equal_versions(self, tmp_path: Path) -> None:
        async def scenario(sink: Sink, target: Target) -> None:
            other = self.module.make(dict(target.settings), target.context)
            assert sink.version
            assert sink.version == other.version
            await other.close()  # it was never started

        self.run(tmp_path, scenario)

    def test_an_unknown_member_is_refused(self, tmp_path: Path) -> None:
        async def scenario(_: Sink, target: Target) -> None:
            self.module.KIND.check(target.settings)
            with pytest.raises(ValidationError, match="Nonsense"):
                self.module.KIND.check({**target.settings, "Nonsense": 1})

        self.run(tmp_path, scenario)


class BreakableSinkContract(SinkContract):
    def test_a_failed_delivery_succeeds_later(self, tmp_path: Path) -> None:
        async def scenario(sink: Sink, target: BreakableTarget) -> None:
            ann = history("ann", 4)
            await sink.deliver(batch(ann[:1]))
            target.fail()
            verdict = await sink.deliver(batch(ann[1:]))
            assert isinstance(verdict, Failure | PartialFailure)
            assert verdict.error
            target.repair()
            assert Success() == await sink.deliver(batch(ann[1:], attempt=2))
            assert expected(ann) == once(await target.received())

        self.run(tmp_path, scenario)
