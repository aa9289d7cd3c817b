"""Invariants of captured changes, for every node that folded them.

A partition captures its writes between the definitions in its own log that enable and disable the capture; the check
does not use the state's capture periods. A subscription's checkpoint is the highest of its epoch. The changes of a
transaction are complete and carry its id. A node's feed holds, from its beginning on, the changes of a refold.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import TypeGuard

import orjson

from foldb.log.commands import Checkpoint, Command, Defined, DefineSubscription, Relay
from foldb.materializer import feed_requests
from foldb.materializer.fold.outcomes import Change, Outcome, Skipped, Subscribed, Tx
from foldb.materializer.fold.outcomes import TableDefined as TableDefined
from foldb.model.sequence_numbers import sequence_number
from foldb.streams.changes import changes
from tests.verification.simulator.cuts import Folded


def check_feed(partitions: list[Folded], captured: list[list[int]], table: int) -> None:
    """Check the captured changes; `captured` holds the ends of the logs when a subscription was acknowledged."""
    parts: dict[str, list[Tx]] = defaultdict(list)
    for number, state in enumerate(each.state for each in partitions):
        for change, labels in walked(partitions, number):
            windows = state.capture_periods(change.table)
            found = {window.label for window in windows if window.holds(change.sequence_number)}
            assert found == labels, f"{number} has {change} in {found}, not {labels}: {windows}"
            if change.tx is not None:
                parts[change.tx.id].append(change.tx)
    for name, txs in parts.items():
        expected = [Tx(name, n, txs[0].of) for n in range(txs[0].of)]
        assert sorted(txs) == expected, f"a transaction is {txs}, not {expected}"
    for ends in captured:
        for number, state in list(enumerate(each.state for each in partitions))[1:]:
            end = sequence_number(ends[number], 0, 0)
            assert any(window.begun < end for window in state.capture_periods(table) if not window.label), (
                f"{number} did not capture at {ends[number]} when somebody was told so"
            )
    catalog = partitions[0]
    there = {
        name: (one.epoch, one.checkpoints, one.handled) for name, one in catalog.state.subscriptions.items()
    }
    assert there == marks(catalog), f"subscriptions are {there}, not {marks(catalog)}"


def walked(partitions: list[Folded], number: int) -> Iterator[tuple[Change, set[int]]]:
    """Yield the changes of a partition, each with the labels of the captures that were open at it."""
    on = _On()
    for record, outcomes in partitions[number].records:
        for command, outcome in zip(record.entry.commands, outcomes, strict=True):
            for change in changes([outcome], None, number, len(partitions)):
                yield change, on.labels(change.table)
            on.hear(command, outcome)


class _On:
    """The enabled streams and watched tables, as a partition learns them."""

    def __init__(self) -> None:
        self._streams: dict[int, set[int]] = {}
        self._watched: dict[str, list[int]] = {}
        self._heard = 0

    def labels(self, table: int) -> set[int]:
        watched = any(table in tables for tables in self._watched.values())
        return self._streams.get(table, set()) | ({0} if watched else set())

    def hear(self, command: Command, outcome: Outcome) -> None:
        if isinstance(outcome, TableDefined):
            stream = outcome.definition.stream
            on = {stream.created_ms} if stream is not None and stream.enabled else set()
            self._streams[outcome.definition.id] = on
        elif isinstance(outcome, Subscribed) and isinstance(command, DefineSubscription):
            self._watched[command.name] = (
                [] if command.operation == "Remove" else outcome.subscription.table_ids
            )
        elif self._is_next(command, outcome):
            self._heard += 1
            if isinstance(command.message, Defined):
                self._define(command.message)

    def _is_next(self, command: Command, outcome: Outcome) -> TypeGuard[Relay]:
        """Whether a command relays the catalog's next definition."""
        return (
            isinstance(command, Relay)
            and not isinstance(outcome, Skipped)
            and (command.sender, command.message_number) == (0, self._heard)
        )

    def _define(self, message: Defined) -> None:
        definition = {} if message.definition is None else orjson.loads(message.definition)
        stream = definition.get("stream") or {}
        self._streams[message.table] = {stream["created_ms"]} if stream.get("enabled") else set()
        self._watched[str(message.table)] = [message.table] if definition.get("watched") else []


def marks(catalog: Folded) -> dict[str, tuple[int, dict[int, int], int]]:
    """Return epoch, checkpoints and number of handled changes of each subscription, from the catalog's log."""
    found: dict[str, tuple[int, dict[int, int], int]] = {}
    names: dict[int, str] = {}
    for record, outcomes in catalog.records:
        for command, outcome in zip(record.entry.commands, outcomes, strict=True):
            if isinstance(outcome, Subscribed) and isinstance(command, DefineSubscription):
                match command.operation:
                    case "Create":
                        names[outcome.subscription.id] = command.name
                        found[command.name] = (0, {}, 0)
                    case "Remove":
                        del names[outcome.subscription.id], found[command.name]
                    case "Reset":
                        epoch, _, handled = found[command.name]
                        found[command.name] = (epoch + 1, {}, handled)
            elif isinstance(command, Checkpoint) and not isinstance(outcome, Skipped):
                name = names.get(command.subscription)
                if name is not None and found[name][0] == command.epoch:
                    epoch, before, handled = found[name]
                    risen = {each: max(number, before.get(each, 0)) for each, number in command.checkpoints}
                    found[name] = (epoch, {**before, **risen}, handled + command.handled)
    return found


def expected_feed(partitions: list[Folded], number: int, table: int) -> list[tuple[int, bytes | None]]:
    """Return sequence number and new image of all captured changes of a table in a partition."""
    return [
        (change.sequence_number, change.new)
        for change, labels in walked(partitions, number)
        if change.table == table and labels
    ]


def read_feed(
    ask: Callable[[feed_requests.FeedRequest, feed_requests.OnFed], None], table: int
) -> tuple[list[tuple[int, bytes | None]], int]:
    """Return the changes of a table in a node's feed, and its trim horizon."""
    answers: list[object] = []
    ask(feed_requests.ReadChanges(table, 0, limit=10_000), lambda answer, _: answers.append(answer))
    [page] = answers
    assert isinstance(page, feed_requests.Changes), page
    return [(change.sequence_number, change.new) for change in page.changes], page.trim_horizon
