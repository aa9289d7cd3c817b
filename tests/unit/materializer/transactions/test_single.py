"""All actions are applied once, or none."""

import pytest

from foldb.log.commands import Check, Expression, Transact
from foldb.materializer.fold.outcomes import (
    Applied,
    Change,
    CostOnly,
    Refused,
    Skipped,
    Transacted,
    TransactionRefused,
)
from foldb.model.errors import (
    IdempotentParameterMismatchError,
    Reason,
    TransactionCanceledError,
)
from foldb.model.values import Item, dump
from tests.unit.materializer.ledger import CONTEXT, Ledger, put, update

A: Item = {"pk": {"S": "a"}}
B: Item = {"pk": {"S": "b"}}


@pytest.mark.guarantee("G22")
def test_one_refused_action_undoes_none_because_none_was_done() -> None:
    ledger = Ledger()
    table = ledger.create("T")
    ledger.fold(put(table, dict(B)))

    outcome = ledger.fold(
        Transact(
            [put(table, dict(A)), put(table, dict(B), when="attribute_not_exists(pk)", show_refused=True)],
            CONTEXT,
        )
    )

    assert isinstance(outcome, TransactionRefused)
    assert isinstance(outcome.error, TransactionCanceledError)
    failed = Reason("ConditionalCheckFailed", "The conditional request failed", dump(B))
    assert [Reason("None"), failed] == outcome.error.reasons
    assert [2, 2] == outcome.units
    assert table.items.get(b"a", b"") is None


def test_actions_see_the_items_as_they_were_before_the_transaction() -> None:
    ledger = Ledger()
    table = ledger.create("T")
    absent = Check(table.definition.id, b"a", b"", CONTEXT, Expression(condition="attribute_not_exists(pk)"))

    outcome = ledger.fold(Transact([absent, put(table, dict(B))], CONTEXT))

    assert isinstance(outcome, Transacted)
    assert [None, dump(B)] == [change and change.new for change in map(_change, outcome.actions)]
    assert [2, 2] == [applied.units.table for applied in outcome.actions]


def test_changes_of_a_transaction_are_in_the_order_of_its_actions() -> None:
    ledger = Ledger()
    table = ledger.create("T")

    outcome = ledger.fold(Transact([put(table, dict(B)), put(table, dict(A))], CONTEXT))

    assert isinstance(outcome, Transacted)
    first, second = map(_change, outcome.actions)
    assert first is not None
    assert second is not None
    assert first.sequence_number + 1 == second.sequence_number


@pytest.mark.guarantee("G24")
def test_a_token_that_was_used_does_nothing_again_for_ten_minutes() -> None:
    ledger = Ledger()
    table = ledger.create("T")
    add = update(table, A, "ADD n :one", {":one": {"N": "1"}})

    def ask(fingerprint: bytes = b"payload") -> object:
        return ledger.fold(Transact([add], CONTEXT, "token", fingerprint))

    def counted() -> bytes:
        stored = table.items.get(b"a", b"")
        assert stored is not None
        return stored[0]

    ask()
    ledger.now += 10 * 60 * 1000 - 1
    again = ask()

    assert isinstance(again, Transacted)
    assert again.replayed
    assert b'{"n":{"N":"1"},"pk":{"S":"a"}}' == counted()

    other = ask(b"another payload")
    assert isinstance(other, Refused)
    assert isinstance(other.error, IdempotentParameterMismatchError)

    ledger.now += 1
    ask()
    assert b'{"n":{"N":"2"},"pk":{"S":"a"}}' == counted()


@pytest.mark.guarantee("G24")
def test_a_refused_transaction_leaves_its_token_free() -> None:
    ledger = Ledger()
    table = ledger.create("T")
    refused = put(table, dict(A), when="attribute_exists(pk)")

    ledger.fold(Transact([refused], CONTEXT, "token", b"payload"))

    assert {} == ledger.state.tokens


def test_a_table_that_is_gone_refuses_the_whole() -> None:
    ledger = Ledger()
    table = ledger.create("T")
    lost = put(table, dict(B))
    lost.table = 99

    outcome = ledger.fold(Transact([put(table, dict(A)), lost], CONTEXT))

    assert isinstance(outcome, Skipped)
    assert table.items.count == 0


def _change(action: Applied | CostOnly) -> Change | None:
    assert isinstance(action, Applied)
    return action.change
