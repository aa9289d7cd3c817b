"""The versions of items, the refused writes to them and the members of transactions, against a model of random logs."""

import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from foldb.log.commands import Check, Context, Delete, Position, Put, Record, Transact, Update
from foldb.materializer.fold import fold
from foldb.materializer.fold.outcomes import (
    MessageFolded,
    Outcome,
    Refused,
    Transacted,
    TransactionRefused,
    TransactionStarted,
)
from foldb.materializer.fold.state import PartitionState
from foldb.materializer.history.epoch_storage import EpochMemory
from foldb.materializer.history.epochs import EpochHistory, Epochs, memory_history
from foldb.materializer.history.history import PartitionCut, TimeCut
from foldb.materializer.history.reads import read_past
from foldb.materializer.history.requests import (
    ItemVersion,
    PastMembers,
    PastVersions,
    ReadMembers,
    ReadVersions,
)
from foldb.materializer.history.version_keys import pack_position, unpack_position
from foldb.model.key_schema import KeyAttribute, KeySchema
from tests.unit.materializer.history.past import ListLog, newest, states
from tests.unit.materializer.ledger import Ledger, put, update
from tests.unit.materializer.partitions.cluster import Cluster
from tests.unit.materializer.partitions.life import Life
from tests.unit.materializer.random_log import random_log

Key = tuple[int, bytes, bytes]
REFUSED = b"refused"


def outcomes(records: Sequence[Record]) -> Iterator[tuple[Record, int, Any, Outcome]]:
    """Yield record, index, command and outcome of each command, from a fold in memory."""
    state = PartitionState()
    for record in records:
        for index, outcome in enumerate(fold(state, record)):
            yield record, index, record.entry.commands[index], outcome


def written(records: Sequence[Record]) -> dict[Key, dict[int, bytes | None]]:
    """Return the versions of each key by packed position, from the differences between states, and its refusals."""
    found: dict[Key, dict[int, bytes | None]] = defaultdict(dict)
    before: dict[Key, bytes] = {}
    for offset, index, state in states(records):
        number = len(records[offset].entry.commands) - 1 if index is None else index
        items = {
            (table_id, pk, sk): stored[0]
            for table_id, table in state.tables.items()
            for _, pk, sk, stored in table.items.scan()
        }
        for key in items.keys() | before.keys():
            if items.get(key) != before.get(key) and key[0] in state.tables:
                found[key][pack_position(offset, number)] = items.get(key)
        before = items
    for record, index, command, outcome in outcomes(records):
        if isinstance(outcome, Refused | TransactionRefused) and isinstance(
            command, Put | Update | Delete | Transact
        ):
            for action in command.actions if isinstance(command, Transact) else [command]:
                if not isinstance(action, Check):
                    found[action.table, action.pk, action.sk][pack_position(record.offset, index)] = REFUSED
    return found


def read(
    history: EpochHistory, key: Key, until: PartitionCut, limit: int = 1000, **options: Any
) -> list[ItemVersion]:
    """Return all pages of the history of a key."""
    found: list[ItemVersion] = []
    before = None
    while True:
        request = ReadVersions(*key, before=before, limit=limit, **options)
        answer, _ = read_past(history, until, request, 1)
        assert isinstance(answer, PastVersions)
        found += answer.versions
        before = answer.before
        if before is None:
            return found


def content(version: ItemVersion) -> bytes | None:
    return REFUSED if version.refused is not None else version.item


@pytest.mark.parametrize("seed", range(6))
def test_an_item_has_the_versions_and_refusals_of_the_log(seed: int, floor: float) -> None:
    records = random_log(seed, 80).records
    follower = memory_history(ListLog(records), 0, floor=floor)
    follower.catch_up()

    model = written(records)
    assert {REFUSED, None} <= {each for versions in model.values() for each in versions.values()}
    for key, versions in model.items():
        whole = read(follower.history, key, follower.history.position)
        assert sorted(versions.items(), reverse=True) == [(each.position, content(each)) for each in whole]
        assert whole == read(follower.history, key, follower.history.position, limit=3)


@pytest.mark.parametrize("seed", range(4))
def test_a_range_of_cuts_selects_versions(seed: int, floor: float) -> None:
    dice, records = random.Random(seed), random_log(seed, 80).records
    follower = memory_history(ListLog(records), 0, floor=floor)
    follower.catch_up()

    for key, versions in written(records).items():
        low, high = sorted(dice.randrange(len(records)) for _ in range(2))
        found = read(follower.history, key, Position(0, high), since=Position(0, low), limit=2)
        expected = [each for each in versions if low < unpack_position(each)[0] <= high]
        assert sorted(expected, reverse=True) == [each.position for each in found]


@pytest.mark.parametrize("seed", range(4))
def test_a_version_is_read_at_its_position_and_not_before(seed: int, floor: float) -> None:
    records = random_log(seed, 60).records
    follower = memory_history(ListLog(records), 0, floor=floor)
    follower.catch_up()
    history = follower.history

    for key in written(records):
        older: bytes | None = None
        for version in reversed(read(history, key, history.position)):
            offset, index = unpack_position(version.position)
            before = Position(0, offset, index - 1) if index else Position(0, offset - 1)
            newer = older if version.refused is not None else version.item
            for cut, expected in ((before, older), (Position(0, offset, index), newer)):
                table = history.at(cut).tables.get(key[0])
                stored = None if table is None else table.items.get(*key[1:])
                assert expected == (None if stored is None else stored[0])
            older = newer


@pytest.mark.parametrize("seed", range(4))
def test_a_version_has_the_context_of_its_command(seed: int, floor: float) -> None:
    records = random_log(seed, 80).records
    follower = memory_history(ListLog(records), 0, floor=floor)
    follower.catch_up()

    for key in written(records):
        for version in read(follower.history, key, follower.history.position):
            offset, index = unpack_position(version.position)
            command: Any = records[offset].entry.commands[index]
            assert version.context is not None
            assert command.context == Context(version.context)


def test_a_restart_leaves_no_row_of_records_that_the_log_lost() -> None:
    records, cut = random_log(1, 60).records, random_log(1, 60).records[:20]
    stored = []
    for each in (records[:40], cut, cut):
        storage = EpochMemory()
        follower = Epochs(storage, ListLog(each), 0, floor=math.inf)
        follower.catch_up()
        follower.close()
        stored.append(storage)
    whole, half, fresh = stored
    for name in ("_rows", "_versions"):  # a checkpoint after 20 records, and all rows of 40
        newer, older = getattr(whole.engines[1], name), getattr(half.engines[1], name)
        older.update({key: newer[key] for key in newer.keys() - older.keys()})
    Epochs(half, ListLog(cut), 0, floor=math.inf)

    kinds = (b"W", b"X", b"R", b"U")
    rows = [
        {key: value for key, value in each.engines[1]._rows.items() if key[:1] in kinds}
        for each in (half, fresh)
    ]
    assert rows[0] == rows[1]


def resolved(cluster: Cluster) -> Iterator[tuple[tuple[int, int], Transact, Outcome]]:
    """Yield the name of each transaction, its command and its outcome at the client."""
    for partition, records in enumerate(cluster.records):
        started: dict[int, tuple[tuple[int, int], Transact]] = {}
        for record, index, command, outcome in outcomes(records):
            name = partition, pack_position(record.offset, index)
            if isinstance(outcome, TransactionStarted):
                started[outcome.transaction_number] = name, command
            elif isinstance(command, Transact):
                yield name, command, outcome
            elif isinstance(outcome, MessageFolded):
                for number, result, _ in outcome.resolved:
                    yield *started[number], result


def followers(cluster: Cluster, floor: float) -> list[Epochs]:
    found = [
        memory_history(ListLog(records), each, floor=floor) for each, records in enumerate(cluster.records)
    ]
    for follower in found:
        follower.catch_up()
    return found


def members(histories: list[Epochs], name: tuple[int, int], first_ms: int, last_ms: int) -> list[Any]:
    """Return the members of a transaction in all partitions."""
    found: list[Any] = []
    for follower in histories:
        history, last = follower.history, min(last_ms, newest(follower).closed_before - 1)
        request = ReadMembers([(*name, first_ms, last)])
        answer, _ = read_past(history, history.position, request, len(histories))
        assert isinstance(answer, PastMembers)
        found += [(each.table, each.key) for each in answer.members[0]]
    return sorted(found)


def keys_of(actions: Sequence[Any]) -> list[Any]:
    """Return the keys of the actions of a transaction, in the form of `members`."""
    keys = KeySchema((KeyAttribute("pk", "S"),))
    return sorted((("One", "Two")[each.table - 1], keys.write(each.pk, each.sk)) for each in actions)


def test_the_members_of_a_transaction_are_its_actions(cluster: Cluster, floor: float) -> None:
    histories = followers(cluster, floor)

    applied = 0
    for name, command, outcome in resolved(cluster):
        is_applied = isinstance(outcome, Transacted)
        expected = keys_of(command.actions) if is_applied else []
        assert expected == members(histories, name, 0, 1 << 50)
        applied += is_applied
    assert applied


def test_a_refused_transaction_is_a_refusal_of_each_write(cluster: Cluster, floor: float) -> None:
    histories = followers(cluster, floor)
    expected: Counter[Key] = Counter()
    for _, command, outcome in resolved(cluster):
        if not isinstance(outcome, Transacted):
            expected.update((a.table, a.pk, a.sk) for a in command.actions if not isinstance(a, Check))
    keys = {(1, str(each).encode(), b"") for each in range(6)}
    keys |= {(2, str(each).encode(), b"") for each in range(6)}
    for records in cluster.records:
        for _, _, command, outcome in outcomes(records):
            if isinstance(outcome, Refused) and isinstance(command, Put | Update | Delete):
                expected[command.table, command.pk, command.sk] += 1
    assert expected.keys() <= keys
    assert any(isinstance(outcome, TransactionRefused) for _, _, outcome in resolved(cluster))

    for key in keys:
        history = histories[cluster.home_of(key[0], key[1])].history
        found = [each for each in read(history, key, history.position) if each.refused is not None]
        assert expected[key] == len(found), key
        assert all(each.context is not None for each in found)


def test_versions_of_a_transaction_name_it(cluster: Cluster, floor: float) -> None:
    histories = followers(cluster, floor)
    applied = {
        name: command for name, command, outcome in resolved(cluster) if isinstance(outcome, Transacted)
    }

    named = 0
    for key in {(table, str(each).encode(), b"") for table in (1, 2) for each in range(6)}:
        history = histories[cluster.home_of(key[0], key[1])].history
        for version in read(history, key, history.position):
            if version.transaction is not None:
                name = version.transaction[0], version.transaction[1]
                actions, time_ms = applied[name].actions, version.effective_time
                assert key in {(each.table, each.pk, each.sk) for each in actions}
                assert keys_of(actions) == members(histories, name, time_ms, time_ms)
                named += 1
    assert named


@pytest.mark.parametrize("seed", [0, 3, 5, 6, 7, 9])
def test_a_time_has_what_counts_as_written_at_it(seed: int, floor: float) -> None:
    """Of several partitions: a version may count before a refused write that is older in the log."""
    dice, life = random.Random(seed), Life(seed)
    life.live(steps=200)

    late = 0
    for partition, records in enumerate(life.cluster.records):
        follower = memory_history(ListLog(records), partition, floor=floor)
        follower.catch_up()
        history = follower.history
        times = range(records[0].time, newest(follower).closed_before)
        for key in [
            (table, str(n).encode(), b"") for table in newest(follower).definitions.newest for n in range(12)
        ]:
            whole = read(history, key, history.position)
            late += sum(each.effective_time < each.log_time for each in whole)
            for _ in range(8 if whole and times else 0):
                since, until = sorted(dice.choice(times) for _ in range(2))
                found = read(history, key, TimeCut(until), since=TimeCut(since), limit=2)
                assert [each for each in whole if since < each.effective_time <= until] == found
    assert late


def test_a_page_ends_after_a_mebibyte_of_items_or_expressions(floor: float) -> None:
    ledger = Ledger()
    table = ledger.create("T")
    value = {"S": "x" * 300_000}
    ledger.fold(put(table, {"pk": {"S": "a"}}))
    for number in range(8):
        changed = update(
            table, {"pk": {"S": "a"}}, "SET v = :v, n = :n", {":v": value, ":n": {"N": str(number)}}
        )
        if number % 2:
            assert changed.expression is not None
            changed.expression.condition = "attribute_not_exists(pk)"
        ledger.fold(changed)
    follower = memory_history(ListLog(ledger.records), 0, floor=floor)
    follower.catch_up()

    history, key = follower.history, (table.definition.id, b"a", b"")
    page, _ = read_past(history, history.position, ReadVersions(*key), 1)
    assert isinstance(page, PastVersions)
    assert 4 == len(page.versions)
    assert 9 == len(read(history, key, history.position))
