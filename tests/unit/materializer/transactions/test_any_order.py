"""Transactions over partitions whose messages are late and repeated, with dumps and loads in between."""

import os
import random
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

import orjson
import pytest

from foldb.log.commands import Action, Check, Context, Delete, Expression, Put, Transact, Update, new_context
from foldb.materializer.fold.dump import digest
from foldb.materializer.fold.outcomes import Transacted, TransactionRefused, TransactionStarted
from foldb.model.errors import TransactionCanceledError
from foldb.model.values import Item, Value, dump
from tests.unit.materializer.ledger import define, index_request
from tests.unit.materializer.transactions.partitions import Partitions
from tests.verification import reliability
from tests.verification.histories import graph

SOAK = bool(os.environ.get("FOLDB_SOAK"))
pytestmark = [pytest.mark.soak] if SOAK else []
SEEDS, STEPS = (range(20_000), 400) if SOAK else (range(40), 400)

_KEYS = 10
_CODES = {"None", "ConditionalCheckFailed", "TransactionConflict", "ValidationError"}


@dataclass(slots=True)
class _Asked:
    """A transaction over partitions and its client; `looks` are the conditions on earlier items: (key, writer)."""

    who: str
    writes: list[bytes]
    looks: list[tuple[bytes, str | None]]
    table: int


class _Chance:
    """Does random things with a few partitions, and records the requests."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.partitions = Partitions(data=self.dice.choice([2, 3, 5]))
        self.kept = self.partitions.create("Kept").definition.id
        self.dropped = self.partitions.create("Dropped").definition.id
        self.asked: dict[tuple[int, int], _Asked] = {}
        self.asks = 0
        self.is_dropped = self.has_index = False

    def step(self) -> None:
        self.partitions.now += self.dice.choice([0, 1, 50, 3000])
        doing, often = zip(*_OFTEN.items(), strict=True)
        self.dice.choices(doing, often)[0](self)

    def hear(self) -> None:
        """Deliver a message, usually the next."""
        sender, receiver = self.dice.choice(self.partitions.ways())
        again = self.dice.random() < 0.2 and self.partitions.sent(sender, receiver)
        self.partitions.deliver(sender, receiver, self.dice.randrange(again) if again else None)

    def acknowledge(self) -> None:
        self.partitions.acknowledge(*self.dice.choice(self.partitions.ways()))

    def transact(self) -> None:
        table = self.dropped if self.dice.random() < 0.2 else self.kept
        self.asks += 1
        who = new_context(f"t{self.asks}")
        keys = self.dice.sample(range(_KEYS), self.dice.randint(1, 4))
        actions = [self._action(table, b"k%d" % key, who) for key in keys]
        token = f"token{self.dice.randrange(40)}" if self.dice.random() < 0.3 else None
        coordinator = (
            self.partitions.where(table, actions[0].pk)
            if token is None
            else self.partitions.where(0, token.encode())
        )
        outcome = self.partitions.fold(coordinator, Transact(actions, who, token, who.request_id.encode()))
        if isinstance(outcome, TransactionStarted):
            writes = [action.pk for action in actions if isinstance(action, Put | Update)]
            looks = [_looked(action) for action in actions if isinstance(action, Check)]
            self.asked[coordinator, outcome.transaction_number] = _Asked(who.request_id, writes, looks, table)

    def write(self) -> None:
        """Write one item alone."""
        self.asks += 1
        pk = b"k%d" % self.dice.randrange(_KEYS)
        command = _put(self.kept, pk, new_context(f"w{self.asks}"), self._rank())
        self.partitions.fold(self.partitions.where(self.kept, pk), command)

    def give_up(self) -> None:
        """Propose an Abandon; often too early, or after the end."""
        if self.asked:
            self.partitions.abandon(*self.dice.choice(list(self.asked)))

    def reload(self) -> None:
        self.partitions.reload(self.dice.randrange(self.partitions.count))

    def redefine(self) -> None:
        """Delete a table, or add an index that cannot take every item."""
        if not self.is_dropped and self.dice.random() < 0.3:
            self.is_dropped = True
            self.partitions.change(define("DeleteTable", self.dropped, {"TableName": "Dropped"}))
        elif not self.has_index:
            self.has_index = True
            new = {"Create": index_request("by-rank", "rank")}
            request = {
                "TableName": "Kept",
                "AttributeDefinitions": [{"AttributeName": "rank", "AttributeType": "S"}],
                "GlobalSecondaryIndexUpdates": [new],
            }
            self.partitions.change(define("UpdateTable", self.kept, request))

    def _action(self, table: int, pk: bytes, who: Context) -> Action:
        match self.dice.randrange(6):
            case 0:
                return Check(table, pk, b"", who, self._as_seen(table, pk))
            case 1:
                return Delete(table, pk, b"", who)
            case 2:
                text, values = "SET who = :who ADD times :one", {":who": _who(who), ":one": {"N": "1"}}
                return Update(table, pk, b"", who, Expression(update=text, values=values))
            case 3:
                refused = Expression(condition="attribute_exists(nothing)")
                return _put(table, pk, who, self._rank(), refused if self.dice.random() < 0.2 else None)
            case _:
                return _put(table, pk, who, self._rank())

    def _rank(self) -> Value:
        """Return a value that usually is a valid index key."""
        return {"S": "" if self.dice.random() < 0.3 else self.dice.choice("abc")}

    def _as_seen(self, table: int, pk: bytes) -> Expression:
        """Return the condition that an item equals its current state."""
        state = self.partitions.states[self.partitions.where(table, pk)]
        stored = state.tables[table].items.get(pk, b"") if table in state.tables else None
        if stored is None:
            return Expression(condition="attribute_not_exists(pk)")
        return Expression(condition="who = :who", values={":who": {"S": _writer(stored[0]) or ""}})


_OFTEN = {
    _Chance.hear: 110,
    _Chance.acknowledge: 8,
    _Chance.transact: 12,
    _Chance.write: 10,
    _Chance.give_up: 3,
    _Chance.reload: 4,
    _Chance.redefine: 1,
}


@pytest.mark.guarantee("G30")
@pytest.mark.parametrize("seed", [*SEEDS][:: len(SEEDS) // 20])
def test_transactions_are_atomic_answered_once_and_release_all_keys(seed: int) -> None:
    for one in range(seed, seed + len(SEEDS) // 20):
        chance = _Chance(one)
        for _ in range(STEPS):
            chance.step()
        _end(chance)
        _check_answers(chance)
        _check_order(chance)
        _check_index(chance)
        for partition, state in enumerate(chance.partitions.states):
            assert digest(state) == digest(chance.partitions.refolded(partition)), f"seed {one}"
    reliability.record(
        test="transactions over partitions, message by message",
        seeds=f"{seed}-{one}",
        cycles=len(SEEDS) // 20,
        checked=STEPS * len(SEEDS) // 20,
    )


def _end(chance: _Chance) -> None:
    """Deliver all messages, and check that nothing is left."""
    chance.partitions.deliver_all()
    for state in chance.partitions.states:
        assert state.transactions.idle
        assert {} == state.transactions.tokens
        assert 0 == state.unacknowledged_bytes


def _check_answers(chance: _Chance) -> None:
    """Check that each was answered once, and applied as a whole or not at all."""
    did: dict[str, list[bytes]] = defaultdict(list)
    for applied in chance.partitions.applied:
        if isinstance(applied.action, Put | Update) and applied.change is not None:
            did[applied.action.context.request_id].append(applied.action.pk)
    for name, asked in chance.asked.items():
        (answer,) = chance.partitions.answers[name]
        assert not chance.partitions.held_at_answer[name] or name in chance.partitions.given_up
        if isinstance(answer, Transacted):
            gone = asked.table == chance.dropped and chance.is_dropped
            assert sorted(did[asked.who]) == sorted(asked.writes) or gone
            continue
        assert [] == did[asked.who]
        if isinstance(answer, TransactionRefused):
            assert isinstance(answer.error, TransactionCanceledError)
            codes = {reason.code for reason in answer.error.reasons}
            assert codes <= _CODES
            assert codes != {"None"}


def _check_index(chance: _Chance) -> None:
    """Check that an index that was added since has all valid items."""
    if chance.has_index:
        chance.partitions.fill(chance.kept, "by-rank")
        fit = [item for item in chance.partitions.items(chance.kept) if item.get("rank", {}).get("S")]
        entries = chance.partitions.items(chance.kept, "by-rank")
        assert sorted(map(str, fit)) == sorted(map(str, entries))


def _check_order(chance: _Chance) -> None:
    """Check that one order of all transactions agrees with every item, also with those that were only read."""
    numbers: dict[str, int] = {}

    def number(who: str) -> int:
        return numbers.setdefault(who, len(numbers))

    edges: graph.Edges = defaultdict(dict)
    following: dict[tuple[bytes, str | None], str] = {}
    by_key: dict[bytes, list[str]] = defaultdict(list)
    for applied in chance.partitions.applied:
        action = applied.action
        if action.table == chance.kept and applied.change is not None:
            by_key[action.pk].append(action.context.request_id)
    for key, writers in by_key.items():
        for before, after in pairwise(writers):
            edges[number(before)][number(after)] = "then"
            following[key, before] = after
    for name, asked in chance.asked.items():
        committed = isinstance(chance.partitions.answers[name][0], Transacted)
        for key, writer in asked.looks if committed and asked.table == chance.kept else ():
            if writer is not None:
                edges[number(writer)][number(asked.who)] = "then"
                if (key, writer) in following:
                    edges[number(asked.who)][number(following[key, writer])] = "then"
    assert [] == graph.components(edges)


def _put(table: int, pk: bytes, who: Context, rank: Value, expression: Expression | None = None) -> Put:
    item: Item = {"pk": {"S": pk.decode()}, "rank": rank, "who": _who(who)}
    data = dump(item)
    return Put(table, pk, b"", data, len(data), who, expression)


def _who(context: Context) -> dict[str, str]:
    return {"S": context.request_id}


def _writer(item: bytes) -> str | None:
    writer: str | None = orjson.loads(item).get("who", {}).get("S")
    return writer


def _looked(check: Check) -> tuple[bytes, str | None]:
    assert check.expression is not None
    values = check.expression.values
    return check.pk, None if values is None else values[":who"]["S"]
