"""Conditions of the dialect `digest`: a write only if the item is still the same."""

from dataclasses import replace
from hashlib import blake2b

import pytest

from foldb.log.commands import Expression, Transact
from foldb.materializer.fold.outcomes import Applied, Outcome, Refused, Transacted, TransactionRefused
from foldb.model.errors import ConditionalCheckFailedError
from foldb.model.values import dump as dump_item
from tests.unit.materializer.ledger import CONTEXT, Ledger, delete, index_request, put


@pytest.mark.parametrize("indexed", [False, True])
def test_a_write_can_require_the_digest_of_the_item(indexed: bool) -> None:
    """Restore and undo need this: another write may be between their look and theirs."""
    ledger = Ledger()
    indexes = [index_request("by-a", "a")] if indexed else None
    table = ledger.create("T", GlobalSecondaryIndexes=indexes) if indexes else ledger.create("T")
    key, item = {"pk": {"S": "x"}}, {"pk": {"S": "x"}, "a": {"S": "1"}}
    digest = blake2b(dump_item(item), digest_size=16).hexdigest()

    def write(kind: str, digest: str) -> Outcome:
        command = put(table, item) if kind == "put" else delete(table, key)
        expression = Expression(digest, dialect="digest")
        return ledger.fold(replace(command, expression=expression, show_refused=True))

    outcomes = [
        write(kind, asked)
        for kind, asked in [
            ("put", digest),
            ("delete", digest),
            ("put", ""),
            ("put", ""),
            ("delete", ""),
            ("put", digest),
            ("delete", digest.upper()),
            ("delete", digest),
            ("delete", ""),
        ]
    ]

    applied = [isinstance(outcome, Applied) for outcome in outcomes]
    assert [False, False, True, False, False, True, False, True, True] == applied
    refused = [outcome.error for outcome in outcomes if isinstance(outcome, Refused)]
    assert all(isinstance(error, ConditionalCheckFailedError) for error in refused)
    assert [None, None, *[dump_item(item)] * 3] == [getattr(error, "item", 0) for error in refused]


def test_a_transaction_can_require_digests() -> None:
    ledger = Ledger()
    table = ledger.create("T")
    ledger.fold(put(table, {"pk": {"S": "x"}}))
    absent = Expression("", dialect="digest")
    puts = [replace(put(table, {"pk": {"S": name}}), expression=absent) for name in ("x", "y")]

    refused, applied = ledger.fold(Transact(puts, CONTEXT)), ledger.fold(Transact(puts[1:], CONTEXT))

    assert isinstance(refused, TransactionRefused)
    assert isinstance(applied, Transacted)
    assert 2 == table.items.count
