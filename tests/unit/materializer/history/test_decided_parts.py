"""A read at the positions of a live answer shows the transactions that were decided there and applied later.

random transactions, messages in any order ──► live reads at instants ──► the same reads of the histories
"""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from foldb.log.commands import Action, Position, Transact, new_context
from foldb.materializer.fold.read_requests import Page, QueryRequest, ScanRequest
from foldb.materializer.fold.reads import PageReader
from foldb.materializer.fold.transactions.decided import decided_effect, decided_effects
from foldb.materializer.history import follower as follower_module
from foldb.materializer.history.decided_parts import decided_parts
from foldb.materializer.history.epochs import Epochs, memory_history, open_history
from foldb.materializer.history.history import NotFoldedError, PartitionCut
from foldb.materializer.history.reads import read_past
from foldb.materializer.history.requests import (
    AtInstant,
    Cuts,
    GetItems,
    OnPast,
    PastDifferences,
    PastItems,
    PastRead,
    ReadDifferences,
)
from foldb.materializer.history.version_history import VersionedState
from foldb.materializer.history.version_keys import pack_position
from foldb.materializer.owner.copy_sources import PastSource, SourcePage
from foldb.model.tables import Restore, TableDefinition
from foldb.model.values import load
from foldb.server.api.admin.history import ResolvedCut
from foldb.server.api.admin.history import _changes as changes_between
from tests.unit.materializer.history.past import ListLog
from tests.unit.materializer.ledger import define, delete, index_request, put
from tests.unit.materializer.partitions.cluster import Cluster


@dataclass
class Answer:
    """A live read of one partition at an instant, and the positions of all partitions."""

    partition: int
    read: GetItems | QueryRequest | ScanRequest
    found: Page | PastItems
    positions: list[Position]

    def again(self, history: Epochs, read: PastRead | None = None) -> Any:
        """Read the past at the positions, or only at that of the partition."""
        own = self.positions[self.partition]
        read = read or AtInstant(self.read, self.positions)
        return read_past(history.history, own, read, len(self.positions))[0]


class Instants:
    """A table with a local index in three partitions, and live reads of it."""

    def __init__(self) -> None:
        self.cluster = Cluster(data=3)
        by_n = index_request("by-n", "pk", "n", projection="KEYS_ONLY")
        self.table = self.cluster.create("T", "pk:S sk:N", LocalSecondaryIndexes=[by_n])
        self.id = self.table.definition.id
        self.answers: list[Answer] = []

    def live(self, dice: random.Random, steps: int) -> None:
        """Write, deliver messages and read at random."""
        for number in range(steps):
            if dice.random() < 0.6:
                chosen = [self._action(dice) for _ in range(dice.randrange(1, 4))]
                actions = {(each.pk, each.sk): each for each in chosen}
                token = None if dice.random() < 0.7 else f"token {number}"
                self.transact(dice.choice(self.cluster.data), list(actions.values()), token)
            else:
                self.cluster.write(self._action(dice))
            for _ in range(dice.randrange(2, 9)):
                self.cluster.disturb(dice)
                self.read_all(dice)
        self.cluster.settle()

    def transact(self, coordinator: int, actions: Sequence[Action], token: str | None = None) -> None:
        self.cluster.fold(coordinator, Transact(actions, new_context("T"), token, b""))

    def _action(self, dice: random.Random) -> Any:
        key = {"pk": {"S": dice.choice("abcdef")}, "sk": {"N": str(dice.randrange(2))}}
        if dice.random() < 0.3:
            return delete(self.table, key)
        return put(self.table, {**key, "n": {"S": str(dice.randrange(5))}})

    def read_all(self, dice: random.Random) -> None:
        """Read every partition, preferably the items of transactions that are decided and not applied."""
        for partition in self.cluster.data:
            held = self.cluster.states[partition].transactions.held
            decided = [each for each in held if decided_effect(self.cluster.states, partition, each)]
            keys = decided or [self._key(dice)]
            index, pk = dice.choice((None, "by-n")), dice.choice(keys)[1]
            limit, forward = dice.choice((None, 2)), dice.random() < 0.5
            for read in (
                ScanRequest(self.id, index, limit=limit, consistent=True),
                QueryRequest(self.id, index, pk, b"", None, forward=forward, consistent=True),
                QueryRequest(self.id, "by-n", pk, b"", None, consistent=True, all_attributes=True),
                GetItems(keys),
            ):
                self.read(partition, read)

    def _key(self, dice: random.Random) -> tuple[int, bytes, bytes]:
        action = self._action(dice)
        return self.id, action.pk, action.sk

    def key_of(self, data: bytes) -> tuple[bytes, bytes]:
        """Return the key of an item."""
        action = put(self.table, load(data))
        return action.pk, action.sk

    def read(self, partition: int, read: GetItems | QueryRequest | ScanRequest) -> Answer:
        """Read one partition as server/routing/instant_reads.py does."""
        positions = [Position(each, len(records) - 1) for each, records in enumerate(self.cluster.records)]
        found = (
            PastItems([self._item(partition, key) for key in read.keys])
            if isinstance(read, GetItems)
            else self._page(partition, read)
        )
        self.answers.append(Answer(partition, read, found, positions))
        return self.answers[-1]

    def _item(self, partition: int, key: tuple[int, bytes, bytes]) -> Any:
        decided = decided_effect(self.cluster.states, partition, key)
        if decided is None:
            return self.cluster.states[partition].tables[key[0]].items.get(key[1], key[2])
        effect: Any = decided[1]
        return (effect.item, effect.size) if hasattr(effect, "item") else None

    def _page(self, partition: int, read: QueryRequest | ScanRequest) -> Page:
        state = self.cluster.states[partition]
        reader = PageReader(state.tables[read.table], read)
        for _, effect in decided_effects(self.cluster.states, partition, read.table):
            reader.lay(effect, state.limits)
        found = reader.read(1 << 62)
        assert found is not None
        return found

    def decided(self, key: dict[str, Any], item: dict[str, Any]) -> int:
        """Commit a put of `item` that the partition of its key does not apply; return that partition."""
        cluster, action = self.cluster, put(self.table, item)
        here = cluster.home(action)
        other = put(self.table, key)
        coordinator = cluster.home(other)
        assert here != coordinator
        self.transact(coordinator, [other, action])
        self.deliver(coordinator, here)
        self.deliver(here, coordinator)
        assert decided_effect(cluster.states, here, (self.id, action.pk, action.sk))
        return here

    def deliver(self, sender: int, receiver: int) -> None:
        """Deliver all messages, and acknowledge them."""
        for relay in list(self.cluster.states[sender].outboxes[receiver].unacknowledged):
            self.cluster.deliver(relay, receiver)
        self.cluster.acknowledge(sender, receiver)

    def histories(self, **settings: Any) -> list[Epochs]:
        """Return the history of each partition."""
        found = []
        for partition, records in enumerate(self.cluster.records):
            found.append(memory_history(ListLog(records), partition, **settings))
            found[-1].catch_up()
        return found


class PastOf:
    """A partition whose past is read."""

    def __init__(self, history: Epochs) -> None:
        self._history = history

    def as_of(self, cut: PartitionCut, read: PastRead, done: OnPast) -> None:
        done(*read_past(self._history.history, cut, read, 4))


def copy_of(instants: Instants, positions: Sequence[Position]) -> TableDefinition:
    """Return a table that is restored as of positions."""
    text = ",".join(each.text(len(positions)) for each in positions)
    definition = instants.table.definition
    restore = Restore(definition.id, "T", definition.arn, 0, positions=text)
    return replace(definition, id=99, name="Copy", restore=restore)


def item(pk: str, sk: int = 0) -> dict[str, Any]:
    return {"pk": {"S": pk}, "sk": {"N": str(sk)}, "n": {"S": "1"}}


@pytest.mark.parametrize("seed", range(4))
def test_an_instant_is_read_again_at_its_positions(seed: int, floor: float) -> None:
    instants = Instants()
    instants.live(random.Random(f"instant {seed}"), steps=40)

    past, differing = instants.histories(floor=floor), 0
    for answer in instants.answers:
        history = past[answer.partition]
        assert answer.found == answer.again(history), answer
        differing += answer.found != answer.again(history, answer.read)

    assert differing > 10, "many answers have a transaction that is not applied"


@pytest.mark.parametrize("seed", range(2))
def test_differences_are_those_of_the_reads_at_both_cuts(seed: int, floor: float) -> None:
    dice, instants = random.Random(f"differences {seed}"), Instants()
    instants.live(dice, steps=40)
    past = instants.histories(floor=floor)

    def items(answer: Answer, read: PastRead | None = None) -> dict[tuple[bytes, bytes], bytes]:
        scan = ScanRequest(instants.id, None, consistent=True)
        page = answer.again(past[answer.partition], read or AtInstant(scan, answer.positions))
        return {instants.key_of(each): each for each in page.items}

    scans = [each for each in instants.answers if isinstance(each.read, ScanRequest)]
    laid = [each for each in scans if items(each) != items(each, ScanRequest(instants.id, None))]
    assert len(laid) > 10, "many answers have a transaction that is not applied"

    for until in [*dice.sample(laid, 10), *dice.sample(scans, 40)]:
        history, own = past[until.partition], until.positions[until.partition]
        earlier = [each for each in scans[: scans.index(until) + 1] if each.partition == until.partition]
        since = dice.choice([each for each in earlier if each in laid] or earlier)
        before, after = items(since), items(until)
        expected = {
            key: (before.get(key), after.get(key))
            for key in before.keys() | after.keys()
            if before.get(key) != after.get(key)
        }
        found, start = [], None
        while True:
            read = ReadDifferences(
                instants.id, since.positions[until.partition], start, dice.randrange(1, 4), since.positions
            )
            page = read_past(history.history, own, AtInstant(read, until.positions), 4)[0]
            assert isinstance(page, PastDifferences)
            found += [((each.pk, each.sk), (each.old, each.new)) for each in page.differences]
            start = page.next
            if start is None:
                break

        assert expected == dict(found)
        assert len(expected) == len(found), "no key twice"


def test_a_copy_has_the_transactions_of_its_instant() -> None:
    """A restore or a fork at the positions of a live Scan has the items of the Scan."""
    instants = Instants()
    here = instants.decided(item("a"), item("b"))
    scan = ScanRequest(instants.id, None, consistent=True)
    answers = [instants.read(each, scan) for each in instants.cluster.data]
    instants.cluster.settle()
    past = [PastOf(history) for history in instants.histories()]
    definition = copy_of(instants, answers[0].positions)
    source = PastSource(instants.cluster.states[0], past, definition)  # type: ignore[arg-type]

    pages: list[Any] = []
    cursor = source.cursor
    while not source.is_end(cursor):
        source.read(cursor, pages.append)
        assert isinstance(pages[-1], SourcePage), pages[-1]
        cursor = pages[-1].following

    live: list[Any] = [each for answer in answers for each in answer.found.items]
    assert here in [each.partition for each in answers]
    assert item("b") in [load(each) for each in live]
    assert live == [each.item for page in pages for each in page.items]


def test_the_changes_of_a_table_have_the_transactions_of_an_instant() -> None:
    instants = Instants()
    before = [Position(each, len(records) - 1) for each, records in enumerate(instants.cluster.records)]
    here = instants.decided(item("a"), item("b"))
    at = instants.read(here, ScanRequest(instants.id, None, consistent=True)).positions
    instants.cluster.settle()
    past = [PastOf(history) for history in instants.histories()]
    database: Any = SimpleNamespace(peers=past, partitions=SimpleNamespace(count=len(past)))

    def changed(*positions: Sequence[Position]) -> list[Any]:
        """Return the keys that differ between two cuts."""
        since, until = (
            ResolvedCut("", Cuts({each.partition: each for each in cut}, 0), {}) for cut in positions
        )
        page = changes_between(database, since, until, instants.table.definition, None, 100)
        found, following = orjson.loads(orjson.dumps(asyncio.run(page)))
        assert following is None
        return sorted(each["Key"]["pk"]["S"] for each in found)

    assert ["a", "b"] == changed(before, at)
    assert [] == changed(at, at)


@pytest.mark.parametrize("seed", range(2))
def test_a_stop_between_prepare_and_commit_loses_nothing(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower_module, "_CHECKPOINT_RECORDS", 7)
    dice, instants = random.Random(f"stopped instant {seed}"), Instants()
    instants.live(dice, steps=25)

    for partition in instants.cluster.data:
        records, end = instants.cluster.records[partition], 1
        while end < len(records):
            history = open_history(tmp_path, ListLog(records[:end]), partition)
            history.catch_up()
            history.abandon() if dice.random() < 0.5 else history.close()
            end += dice.randrange(1, 9)
        history = open_history(tmp_path, ListLog(records), partition)
        history.catch_up()
        for answer in instants.answers:
            if answer.partition == partition:
                assert answer.found == answer.again(history), answer
        history.close()


def test_an_instant_waits_for_the_decision() -> None:
    """A part that is prepared in the last folded record may be decided at the coordinator's position."""
    instants = Instants()
    here = instants.decided(item("a"), item("b"))
    coordinator = instants.cluster.home(put(instants.table, item("a")))
    answer = instants.read(here, ScanRequest(instants.id, None, consistent=True))
    [early] = instants.histories()[here : here + 1]

    with pytest.raises(NotFoldedError):
        answer.again(early)
    others = [each for each in answer.positions if each.partition != coordinator]
    found = answer.again(early, AtInstant(answer.read, others))
    assert answer.again(early, answer.read) == found, "no transaction of another coordinator is prepared"

    instants.cluster.settle()
    early.catch_up()
    assert [load(each) for each in answer.again(early).items] == [item("b")]


def test_an_instant_has_the_item_of_a_table_deleted_since() -> None:
    """The Commit writes no version, because the table is deleted before it arrives."""
    instants = Instants()
    here = instants.decided(item("a"), item("b"))
    answer = instants.read(here, ScanRequest(instants.id, None, consistent=True))
    instants.cluster.define(define("DeleteTable", instants.id, {"TableName": "T"}))
    instants.deliver(0, here)
    assert instants.id not in instants.cluster.states[here].tables
    instants.cluster.settle()

    found = answer.again(instants.histories()[here])

    assert answer.found == found
    assert [item("b")] == [load(each) for each in found.items]


@pytest.mark.parametrize("forward", [True, False])
def test_a_page_that_ends_early_has_no_laid_item_twice(forward: bool) -> None:
    """A page ends after it has looked at many versions. The laid items after its last key are on the next pages."""
    instants = Instants()
    for number in range(40):
        for write in (put, delete):
            key = item("b", number) if write is put else {"pk": {"S": "b"}, "sk": {"N": str(number)}}
            instants.cluster.write(write(instants.table, key))
    actions = [
        put(instants.table, item("a")),
        *(put(instants.table, item("b", each)) for each in range(0, 50, 7)),
    ]
    here, coordinator = instants.cluster.home(actions[1]), instants.cluster.home(actions[0])
    instants.transact(coordinator, actions)
    instants.deliver(coordinator, here)
    instants.deliver(here, coordinator)
    query = QueryRequest(instants.id, None, b"b", b"", None, forward=forward, consistent=True)
    expected = instants.read(here, query)
    instants.cluster.settle()
    history, positions = instants.histories()[here], expected.positions

    found: list[bytes] = []
    sizes: list[int] = []
    start: bytes | None = None
    while True:
        state = history.history.at(positions[here])
        assert isinstance(state, VersionedState)
        state.lay_decided(positions)
        query.start = start
        page = state.read_page(query, looks=25)
        found += page.items
        sizes.append(page.count)
        if page.last is None:
            break
        start = put(instants.table, load(page.last)).sk

    assert isinstance(expected.found, Page)
    assert 8 == len(found)
    assert expected.found.items == found
    assert len(sizes) >= 2


class Steps:
    """A storage that counts the steps of its cursors over rows."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self.count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def rows(self) -> Any:
        return _StepCursor(self, self._engine.rows())


class _StepCursor:
    def __init__(self, steps: Steps, cursor: Any) -> None:
        self._steps = steps
        self._cursor = cursor

    def __getattr__(self, name: str) -> Any:
        self._steps.count += name in ("seek", "seek_back", "next")
        return getattr(self._cursor, name)


def test_an_instant_looks_at_few_parts_of_a_long_history() -> None:
    instants = Instants()
    for number in range(100):
        here = instants.decided(item("a", number), item("b", number))
        if number == 50:
            answer = instants.read(here, GetItems([(instants.id, b"b", b"")]))
        instants.cluster.settle()
    history = instants.histories()[here].newest
    assert history is not None
    cut = pack_position(answer.positions[here].offset, None)
    everything = dict.fromkeys(instants.cluster.data, 1 << 60)
    steps = Steps(history.engine)

    assert 1 == len(list(decided_parts(steps, cut, everything)))

    assert steps.count < 20
