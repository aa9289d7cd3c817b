"""One history, from its seed to its checks.

tables ──► clients and faults ──► no more faults ──► all comes to rest ──► idle ──► folded again, and checked
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from foldb.materializer import worker
from foldb.materializer.fold import state as fold_state
from foldb.materializer.fold.dump import digest, dump
from foldb.materializer.fold.load import load
from foldb.materializer.fold.state import PartitionState
from tests.verification.histories.linearizable import linearizable
from tests.verification.histories.serializable import serializable
from tests.verification.simulator.checks import (
    check_at_rest,
    check_indexes,
    check_whole,
    contents,
    keys_of,
    look,
)
from tests.verification.simulator.cuts import Folded, Rest, check_causes, folded, until
from tests.verification.simulator.faults import Faults
from tests.verification.simulator.feed import check_feed, expected_feed, read_feed
from tests.verification.simulator.past import check_past
from tests.verification.simulator.world import World

OPERATIONS = 16
CUTS = 0.3
"""The share of histories that are also checked at a moment before their end."""
PATIENCE_S = 180.0
"""Virtual seconds after the last fault within which all work must end."""
FAULTS_S = 120.0
"""Virtual seconds for the clients' requests."""
QUIET_S = 30.0
"""Virtual seconds until copies of entries that are still in flight are in the log."""
IDLE_S = 60.0
"""Virtual seconds without requests, in which no entry may be written."""


@dataclass(slots=True)
class Report:
    """The report of a history; `digest` is the hash of its log."""

    seed: int
    faults: Counter[str]
    operations: int
    acknowledged: int
    transactions: int
    index_reads: int
    digest: str
    records: int
    seconds: float
    steps: int


def simulate(
    seed: int,
    operations: int = OPERATIONS,
    say: Callable[[str], None] | None = None,
    *,
    contended: bool = False,
) -> Report:
    """Run the history of a seed and check it; `say` receives its events. For `contended` see World.

    Raises:
        AssertionError: A check failed. A ViolationError is one.
    """
    world = World(seed, say, contended=contended)
    with _bounds(world):
        _live(world, operations)
        _judge(world)
    return _report(world)


@contextmanager
def _bounds(world: World) -> Iterator[None]:
    """Lower the limits that so small a history would never reach, in some histories."""
    origins, untold = fold_state.ORIGINS_KEPT, worker.UNACKNOWLEDGED_BYTES
    if world.few_origins:
        fold_state.ORIGINS_KEPT = 3
    if world.few_messages:
        worker.UNACKNOWLEDGED_BYTES = 300
    try:
        yield
    finally:
        fold_state.ORIGINS_KEPT, worker.UNACKNOWLEDGED_BYTES = origins, untold


def _live(world: World, operations: int) -> None:
    world.prepare()
    _wait(world, lambda: world.is_ready, PATIENCE_S, "the tables are there")
    faults = Faults(world)
    faults.start()
    world.ask(operations)
    _wait(world, lambda: world.is_idle, FAULTS_S)
    faults.end()
    world.ask_no_more()
    _wait(world, lambda: world.is_idle, PATIENCE_S, "all clients have their answers")
    _wait(world, lambda: world.is_at_rest, PATIENCE_S, "nothing is under way")
    world.wait(QUIET_S)
    ends = world.ends
    world.wait(IDLE_S)
    assert ends == world.ends, f"somebody writes to an idle log: {ends} became {world.ends}"


def _wait(world: World, is_so: Callable[[], bool], seconds: float, what: str = "") -> None:
    """Advance the time until a condition holds."""
    end = world.timeline.now + seconds
    while not is_so():
        if world.timeline.now >= end:
            assert not what, (
                f"{seconds} seconds without a fault, and it is not so that {what}: {world.situation()}"
            )
            return
        world.wait(0.25)


def _judge(world: World) -> None:
    partitions = [folded(world.log, number) for number in range(world.partitions)]
    states = [each.state for each in partitions]
    for node in world.nodes:
        for number, hosted in node.hosted.items():
            assert digest(hosted.state) == digest(states[number]), f"{node} folded {number} to another state"
    check_causes(states)
    check_at_rest(states)
    _judge_contents(world, states)
    check_feed(partitions, world.captured, world.table)
    _judge_feeds(world, partitions)
    check_past(world.history, partitions, world.table)
    if world.dice.random() < CUTS:
        _judge_cut(world, [each.times for each in partitions])
    world.history.begin(1, world.now_us)
    world.history.operations += look(contents(states, world.table, keys_of(world.history)), world.now_us + 1)
    linearizable(world.history)
    serializable(world.history)


def _judge_feeds(world: World, partitions: list[Folded]) -> None:
    """Check that each node's feed has the captured changes, from its beginning on."""
    for number in range(world.partitions):
        expected = expected_feed(partitions, number, world.table)
        for node in world.nodes:
            if number in node.hosted:
                found, after = read_feed(node.hosted[number].feed.ask, world.table)
                assert found == [each for each in expected if each[0] > after], (
                    f"the feed of {node} for {number} has, after {after}, {found}, not {expected}"
                )


def _judge_contents(world: World, states: list[PartitionState]) -> None:
    check_indexes(states)
    check_whole(world.history, contents(states, world.table, keys_of(world.history)))


def _judge_cut(world: World, times: list[list[int]]) -> None:
    """Bring the states at some moment to rest, also from their dumps, and check them."""
    moment = world.dice.choice([time for each in times for time in each if time >= world.ready_ms])
    states = [until(world.log, number, times[number], moment) for number in range(world.partitions)]
    check_causes(states)
    loaded = [load(dump(state)) for state in states]
    assert [digest(state) for state in loaded] == [digest(state) for state in states], (
        "a dump is loaded as another"
    )
    Rest(loaded).come()
    check_at_rest(loaded)
    _judge_contents(world, loaded)


def _report(world: World) -> Report:
    history = world.history.counts()
    return Report(
        seed=world.seed,
        faults=world.faults,
        operations=history["operations"],
        acknowledged=world.acknowledged,
        transactions=history["transactions"],
        index_reads=world.index_reads,
        digest=world.log.digest,
        records=sum(world.ends),
        seconds=world.timeline.now,
        steps=world.timeline.steps,
    )
