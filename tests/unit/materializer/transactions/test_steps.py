"""Step by step: the memory, the refusals and the messages of each partition in a transaction."""

import random
from dataclasses import replace

import pytest

from foldb.log.commands import (
    Action,
    Check,
    Context,
    Decide,
    Decided,
    Expire,
    Expression,
    Prepare,
    Transact,
    Vote,
    new_context,
)
from foldb.materializer.fold import fold
from foldb.materializer.fold.dump import digest, dump
from foldb.materializer.fold.load import load
from foldb.materializer.fold.messages import fold_message
from foldb.materializer.fold.outcomes import (
    Applied,
    Completed,
    MessageFolded,
    Outcome,
    Refused,
    Skipped,
    Transacted,
    TransactionRefused,
    TransactionStarted,
)
from foldb.materializer.fold.state import PartitionState, Table
from foldb.model.errors import (
    IdempotentParameterMismatchError,
    Reason,
    TransactionCanceledError,
    TransactionConflictError,
    TransactionInProgressError,
)
from foldb.model.sequence_numbers import NEXT_COMMAND, sequence_number
from foldb.model.values import Item
from tests.unit.materializer.ledger import CONTEXT, Ledger, define, delete, index_request, put, update
from tests.unit.materializer.transactions.partitions import Partitions

CONFLICT = Reason("TransactionConflict", "Transaction is ongoing for the item")
TEN_SECONDS = 10_000
HERE = (0, 0)


class Pair:
    """A table in two partitions, and two keys of it, one in each; `first` coordinates."""

    def __init__(self) -> None:
        self.partitions = Partitions(data=2)
        self.table = self.partitions.create("T")
        names = map(str, range(100))
        here = {self.partitions.where(self.table.definition.id, name.encode()): name for name in names}
        (self.first, a), (self.second, b) = sorted(here.items())
        self.a: Item = {"pk": {"S": a}}
        self.b: Item = {"pk": {"S": b}}

    def both(self, token: str | None = None, **choices: str) -> Transact:
        """Return a put of both items; `when` is a condition on the second."""
        actions = [put(self.table, self.a), put(self.table, self.b, **choices)]
        return Transact(actions, CONTEXT, token, b"payload")

    def begin(self, command: Transact) -> int:
        outcome = self.partitions.fold(self.first, command)
        assert isinstance(outcome, TransactionStarted)
        return outcome.transaction_number

    def hear(self, receiver: int) -> MessageFolded:
        """Deliver the next message from the other."""
        sender = self.first + self.second - receiver
        outcome = self.partitions.deliver(sender, receiver)
        assert isinstance(outcome, MessageFolded)
        return outcome

    def wait(self, milliseconds: int) -> None:
        """Advance the log time at the first partition."""
        self.partitions.now = self.partitions.states[self.first].log_time + milliseconds

    def at(self, partition: int, key: Item) -> bytes | None:
        pk = key["pk"]["S"].encode()
        stored = self.partitions.states[partition].tables[self.table.definition.id].items.get(pk, b"")
        return None if stored is None else stored[0]


def is_nothing(outcome: Outcome) -> bool:
    """Whether the message was folded without a visible effect."""
    return isinstance(outcome, MessageFolded) and not outcome.applied and not outcome.resolved


def reasons(outcome: Outcome) -> list[Reason]:
    assert isinstance(outcome, TransactionRefused)
    assert isinstance(outcome.error, TransactionCanceledError)
    return outcome.error.reasons


@pytest.mark.parametrize(
    "context", [new_context("R", reason="typo"), new_context("R", source="undo"), CONTEXT]
)
def test_a_dump_keeps_contexts_of_either_layout(context: Context) -> None:
    """In a message that waits, and in a prepared part. Without a reason they are as in older dumps."""
    pair = Pair()
    actions = [replace(put(pair.table, item), context=context) for item in (pair.a, pair.b)]
    pair.begin(Transact(actions, CONTEXT))

    for number in (pair.first, pair.second):
        before = pair.partitions.states[number]
        after = load(dump(before))
        assert digest(before) == digest(after)
        assert before.outboxes == after.outboxes
        assert before.transactions == after.transactions
    [prepared] = pair.partitions.states[pair.first].transactions.prepared.values()
    first = context.in_first_layout() or context.encoded
    assert [context] == [effect.context for effect in prepared.effects]
    assert first.hex().encode() + b'"' in b"".join(dump(pair.partitions.states[pair.first]))


@pytest.mark.guarantee("G30")
def test_a_transaction_waits_for_all_votes_and_all_confirmations() -> None:
    pair = Pair()
    number = pair.begin(pair.both())
    assert is_nothing(pair.hear(pair.second))
    assert (None, None) == (pair.at(pair.first, pair.a), pair.at(pair.second, pair.b))

    voted = pair.hear(pair.first)
    assert 1 == len(voted.applied)
    assert () == tuple(voted.resolved)
    decided = pair.hear(pair.second)
    assert 1 == len(decided.applied)
    reported = pair.hear(pair.first)

    ((named, answer, places),) = reported.resolved
    assert number == named
    assert [pair.second] == [place.partition for place in places]
    assert [len(pair.partitions.records[pair.second]) - 1] == [place.offset for place in places]
    assert isinstance(answer, Transacted)
    assert [2, 2] == [action.units.table for action in answer.actions]
    assert None not in (pair.at(pair.first, pair.a), pair.at(pair.second, pair.b))


@pytest.mark.spec("S81")
def test_a_held_key_refuses_all_other_writes() -> None:
    pair = Pair()
    pair.begin(pair.both())
    fold, at, table = pair.partitions.fold, pair.first, pair.table

    for command in (put(table, pair.a), update(table, pair.a, "SET x = pk"), delete(table, pair.a)):
        outcome = fold(at, command)
        assert isinstance(outcome, Refused)
        assert isinstance(outcome.error, TransactionConflictError)
    pk = pair.a["pk"]["S"].encode()
    look = Check(table.definition.id, pk, b"", CONTEXT, Expression(condition="attribute_not_exists(pk)"))
    assert [CONFLICT] == reasons(fold(at, Transact([look], CONTEXT)))

    pair.partitions.deliver_all()
    assert isinstance(fold(at, put(table, pair.a)), Applied)


def test_an_item_that_is_held_does_not_expire() -> None:
    pair = Pair()
    table, at = pair.table.definition.id, pair.first
    setting = {"TimeToLiveSpecification": {"Enabled": True, "AttributeName": "due"}}
    pair.partitions.change(define("UpdateTimeToLive", table, setting))
    pair.partitions.deliver_all()
    pair.partitions.fold(at, put(pair.table, pair.a | {"due": {"N": "1"}}))
    expire = Expire(table, pair.a["pk"]["S"].encode(), b"", "1", CONTEXT)

    pair.begin(pair.both(when="attribute_exists(nothing)"))
    assert Completed(progressed=False) == pair.partitions.fold(at, expire)
    pair.partitions.deliver_all()
    expired = pair.partitions.fold(at, expire)
    assert isinstance(expired, Completed)
    assert expired.progressed


def test_a_participant_that_refuses_holds_nothing() -> None:
    pair = Pair()
    pair.begin(pair.both(when="attribute_exists(pk)"))
    pair.hear(pair.second)
    assert pair.partitions.states[pair.second].transactions.idle

    ((_, answer, _),) = pair.hear(pair.first).resolved

    assert [Reason("None"), Reason("ConditionalCheckFailed", "The conditional request failed")] == reasons(
        answer
    )
    assert pair.partitions.states[pair.first].transactions.idle
    assert pair.partitions.deliver(pair.first, pair.second) is None


def test_changes_of_a_commit_are_numbered_by_its_own_position() -> None:
    pair = Pair()
    pair.begin(pair.both())
    pair.hear(pair.second)
    (here,) = pair.hear(pair.first).applied
    (there,) = pair.hear(pair.second).applied

    def place(partition: int, nth: int) -> int:
        return sequence_number(len(pair.partitions.records[partition]) - 1, 0, nth)

    assert place(pair.first, 0) == here.sequence_number
    assert place(pair.second, 1) == there.sequence_number
    assert here.sequence_number % NEXT_COMMAND == 0


def test_an_undecided_transaction_can_be_aborted_after_ten_seconds() -> None:
    pair = Pair()
    number = pair.begin(pair.both("token"))
    pair.wait(TEN_SECONDS - 1)
    assert is_nothing(pair.partitions.abandon(pair.first, number))

    pair.wait(1)
    given_up = pair.partitions.abandon(pair.first, number)
    assert isinstance(given_up, MessageFolded)
    ((_, answer, _),) = given_up.resolved
    assert [Reason("None"), CONFLICT] == reasons(answer)
    assert isinstance(pair.partitions.fold(pair.first, put(pair.table, pair.a)), Applied)

    pair.partitions.deliver_all()
    assert pair.at(pair.second, pair.b) is None
    assert all(state.transactions.idle for state in pair.partitions.states)
    assert is_nothing(pair.partitions.abandon(pair.first, number))


def test_a_decided_transaction_cannot_be_aborted() -> None:
    pair = Pair()
    number = pair.begin(pair.both())
    pair.hear(pair.second)
    pair.hear(pair.first)
    pair.wait(TEN_SECONDS)

    assert is_nothing(pair.partitions.abandon(pair.first, number))
    pair.partitions.deliver_all()
    assert pair.at(pair.second, pair.b) is not None


@pytest.mark.parametrize("when", [None, "attribute_exists(pk)"])
def test_one_that_lives_in_another_partition_alone_is_decided_there(when: str | None) -> None:
    """Its token is here. No other participant is awaited, so it takes one exchange and cannot be aborted."""
    pair = Pair()
    tokens = (f"token{number}" for number in range(100))
    token = next(one for one in tokens if pair.partitions.where(0, one.encode()) == pair.first)
    number = pair.begin(Transact([put(pair.table, pair.b, when=when)], CONTEXT, token, b"payload"))
    pair.wait(TEN_SECONDS)
    assert is_nothing(pair.partitions.abandon(pair.first, number))

    for at in (pair.second, pair.second, pair.first):
        assert not pair.hear(at).resolved
    ((_, answer, _),) = pair.hear(pair.first).resolved

    assert isinstance(answer, Transacted if when is None else TransactionRefused)
    assert (when is None) == (pair.at(pair.second, pair.b) is not None)
    assert (when is None) == (token in pair.partitions.states[pair.first].tokens)


def test_a_token_is_in_progress_until_the_client_is_answered() -> None:
    pair = Pair()
    token = "token"
    again = pair.both(token)
    other = Transact(again.actions, CONTEXT, token, b"another payload")
    pair.begin(again)

    for _ in range(2):
        asked, mismatched = (pair.partitions.fold(pair.first, one) for one in (again, other))
        assert isinstance(asked, Refused)
        assert isinstance(asked.error, TransactionInProgressError)
        assert isinstance(mismatched, Refused)
        assert isinstance(mismatched.error, IdempotentParameterMismatchError)
        if pair.partitions.deliver(pair.first, pair.second) is not None:
            pair.hear(pair.first)
    pair.partitions.deliver_all()

    asked = pair.partitions.fold(pair.first, again)
    assert isinstance(asked, Transacted)
    assert asked.replayed
    assert [2, 2] == [action.units.table for action in asked.actions]


def test_the_token_of_a_refused_or_aborted_transaction_is_free() -> None:
    pair = Pair()
    pair.begin(pair.both("token", when="attribute_exists(pk)"))
    pair.partitions.deliver_all()
    number = pair.begin(pair.both("token"))
    pair.wait(TEN_SECONDS)
    pair.partitions.abandon(pair.first, number)
    pair.begin(pair.both("token"))


def test_a_commit_finds_a_table_gone_and_does_nothing_there() -> None:
    pair = Pair()
    pair.begin(pair.both())
    pair.hear(pair.second)
    pair.partitions.change(define("DeleteTable", pair.table.definition.id, {"TableName": "T"}))
    pair.partitions.deliver_all()

    ((answer,),) = pair.partitions.answers.values()
    assert isinstance(answer, Transacted)
    assert all(state.transactions.idle for state in pair.partitions.states)


def test_a_decision_that_an_operator_declares_void_lets_the_keys_go() -> None:
    """It writes nothing, and releases its keys, which would be held forever otherwise."""
    pair = Pair()
    pair.begin(pair.both())
    pair.hear(pair.second)
    pair.hear(pair.first)
    records = pair.partitions.records[pair.second]
    pair.hear(pair.second)

    void = [(len(records) - 1, None)]
    state = PartitionState()
    for record in records:
        fold(state, record, void)

    assert state.transactions.idle
    assert 0 == state.tables[pair.table.definition.id].items.count
    assert Decided(0) == state.outboxes[pair.first].unacknowledged[-1].message


def test_a_table_unknown_to_a_participant_skips_the_transaction() -> None:
    pair = Pair()
    lost = put(pair.table, pair.b)
    lost.table = 99
    coordinator = pair.partitions.where(99, lost.pk)
    known = pair.a if coordinator == pair.second else pair.b

    pair.partitions.fold(coordinator, Transact([lost, put(pair.table, known)], CONTEXT))
    pair.partitions.deliver_all()

    assert [[Skipped("no such table")]] == list(pair.partitions.answers.values())


def test_messages_about_an_unknown_transaction_have_no_effect() -> None:
    """The coordinator receives a confirmation, so it need not remember which participants refused."""
    pair = Pair()
    state = pair.partitions.states[pair.second]
    before = digest(state)
    number = sequence_number(0, 0, 0)
    for message in (Vote(7, True, b"[]"), Decided(7)):
        assert is_nothing(fold_message(state, pair.first, HERE, message, number))
    assert before == digest(state)

    assert is_nothing(fold_message(state, pair.first, HERE, Decide(7, True), number))
    assert [Decided(7)] == [relay.message for relay in state.outboxes[pair.first].unacknowledged]


def test_items_in_a_vote_are_limited_to_the_transaction_size() -> None:
    pair = Pair()
    large, absent = "x" * 390_000, Expression(condition="attribute_not_exists(pk)")
    checks: list[Action] = []
    for name in map(str, range(40)):
        pk = name.encode()
        if pair.partitions.where(pair.table.definition.id, pk) == pair.second:
            pair.partitions.fold(pair.second, put(pair.table, {"pk": {"S": name}, "x": {"S": large}}))
            checks.append(Check(pair.table.definition.id, pk, b"", CONTEXT, absent, show_refused=True))
    state = pair.partitions.states[pair.second]
    fold_message(state, pair.first, HERE, Prepare(0, range(len(checks)), checks), sequence_number(0, 0, 0))

    vote = state.outboxes[pair.first].unacknowledged[-1].message
    assert isinstance(vote, Vote)
    assert len(checks) > 10
    assert 10 == vote.verdicts.count(large.encode())


@pytest.mark.guarantee("G30")
@pytest.mark.parametrize("seed", range(20))
def test_a_client_gets_the_same_answer_as_from_one_partition(seed: int) -> None:
    """Units, sizes of item collections, reasons and items of failed conditions, one transaction after the other."""
    dice = random.Random(seed)
    settings = {
        "LocalSecondaryIndexes": [index_request("by-n", "pk", "n", projection="KEYS_ONLY")],
        "GlobalSecondaryIndexes": [index_request("by-s", "s", "n")],
    }
    limits = "modern,collection_bytes=2000"
    one, many = Ledger(limits), Partitions(3, limits)
    tables = one.create("T", "pk:S sk:N", **settings), many.create("T", key="pk:S sk:N", **settings)
    for _ in range(60):
        command = _any(dice, tables[0])
        alone = one.fold(command)
        coordinator = many.where(command.actions[0].table, command.actions[0].pk)
        outcome = many.fold(coordinator, command)
        many.deliver_all()
        if isinstance(outcome, TransactionStarted):
            (outcome,) = many.answers[coordinator, outcome.transaction_number]
        assert _told(alone) == _told(outcome)


def _any(dice: random.Random, table: Table) -> Transact:
    """Return a transaction on a few of a few items, sometimes refused."""
    places = dice.sample([(pk, sk) for pk in "abcdef" for sk in "12"], dice.randint(1, 5))
    return Transact([_action(dice, table, pk, sk) for pk, sk in places], new_context("R"))


def _action(dice: random.Random, table: Table, pk: str, sk: str) -> Action:
    key: Item = {"pk": {"S": pk}, "sk": {"N": sk}}
    when = dice.choice(["attribute_exists(s)", "size(s) < sk", "attribute_not_exists(pk)"])
    shows = dice.random() < 0.5
    match dice.randrange(4):
        case 0:
            text = {"S": "x" * dice.randrange(1, 1500)}
            odd = {} if dice.random() < 0.95 else {"n": {"N": "1"}}
            item = {**key, "s": text, "n": {"S": dice.choice("uvw")}, **odd}
            return put(table, item, when=when if dice.random() < 0.2 else None, show_refused=shows)
        case 1:
            return update(table, key, "SET n = :n", {":n": {"S": dice.choice("uvw")}})
        case 2:
            return delete(table, key, when=when if dice.random() < 0.2 else None, show_refused=shows)
        case _:
            pk_bytes, sk_bytes = table.definition.key.item_key(key, Ledger().state.limits)
            usual = "attribute_not_exists(gone)"
            condition = Expression(condition=when if dice.random() < 0.2 else usual)
            return Check(table.definition.id, pk_bytes, sk_bytes, CONTEXT, condition, shows)


def _told(outcome: Outcome) -> object:
    """Return the part of an outcome that reaches the client."""
    match outcome:
        case Transacted(actions=actions):
            return [(action.units, action.collection_size) for action in actions]
        case TransactionRefused(error=TransactionCanceledError() as error, units=units):
            return error.reasons, units
        case _:
            return outcome
