"""From level 4 on updates and Expected have DynamoDB's meaning; older logs keep theirs."""

from pathlib import Path

import orjson
import pytest

from foldb.log.commands import Expression, Level, Transact, Update
from foldb.log.local import LocalLog
from foldb.materializer.fold.outcomes import Applied, Refused, Transacted, TransactionRefused
from foldb.model.values import Item, Value, load
from tests.unit.materializer.ledger import CONTEXT, Ledger, update
from tests.unit.materializer.random_log import fold_all

WRITTEN = Path(__file__).with_name("level_3")
"""The folder of a release at level 3. Later rules refuse its requests or judge them otherwise: an index that is added
without AttributeDefinitions, NonKeyAttributes that name an attribute twice, tags with other characters, updates that
read the key of a new item, NOT_CONTAINS on an attribute that does not exist, DeleteTable.
"""

KEY: Item = {"pk": {"S": "car"}, "sk": {"N": "1.50"}}


def item(outcome: object) -> Item:
    assert isinstance(outcome, Applied)
    assert outcome.new is not None
    return load(outcome.new[0])


@pytest.mark.parametrize("reloads", [0, 3])
def test_a_log_of_level_3_folds_to_its_recorded_digest(reloads: int) -> None:
    """Including requests that a later rule would refuse."""
    records = list(LocalLog.open_reader(WRITTEN).read(0))

    assert (WRITTEN / "digest").read_text() == fold_all(records, reloads)[0] + "\n"


def test_an_update_that_creates_an_item_reads_its_key_from_level_4_on() -> None:
    ledger = Ledger(level=3)
    table = ledger.create("T", "pk:S sk:N")
    copies = update(table, KEY, "SET x = pk, y = sk")

    refused = ledger.fold(copies)
    ledger.fold(Level(4, CONTEXT))
    made = ledger.fold(copies)

    assert isinstance(refused, Refused)
    assert "refers to an attribute that does not exist" in refused.error.message
    assert {"pk": {"S": "car"}, "sk": {"N": "1.5"}, "x": {"S": "car"}, "y": {"N": "1.5"}} == item(made)


@pytest.mark.parametrize(("level", "x"), [(3, {"S": "fallback"}), (4, {"N": "1.5"})])
def test_if_not_exists_finds_the_key_of_a_new_item_from_level_4_on(level: int, x: Value) -> None:
    ledger = Ledger(level=level)
    table = ledger.create("T", "pk:S sk:N")

    made = ledger.fold(update(table, KEY, "SET x = if_not_exists(sk, :v)", {":v": {"S": "fallback"}}))

    assert x == item(made)["x"]


def test_a_transaction_reads_the_key_of_a_new_item_from_level_4_on() -> None:
    outcomes = []
    for level in (3, 4):
        ledger = Ledger(level=level)
        table = ledger.create("T", "pk:S sk:N")
        outcomes.append(ledger.fold(Transact([update(table, KEY, "SET x = pk")], CONTEXT)))

    assert [TransactionRefused, Transacted] == list(map(type, outcomes))


def test_a_condition_sees_no_key_of_an_item_that_does_not_exist() -> None:
    ledger = Ledger()
    table = ledger.create("T", "pk:S sk:N")

    refused = ledger.fold(update(table, KEY, "SET x = pk", when="attribute_exists(pk)"))
    made = ledger.fold(update(table, KEY, "SET x = pk", when="attribute_not_exists(pk)"))

    assert isinstance(refused, Refused)
    assert {"S": "car"} == item(made)["x"]


@pytest.mark.parametrize(("level", "kind"), [(3, Applied), (4, Refused)])
def test_not_contains_needs_its_attribute_from_level_4_on(level: int, kind: type) -> None:
    ledger = Ledger(level=level)
    table = ledger.create("T", "pk:S sk:N")
    pk, sk = table.definition.key.read_key(KEY, ledger.limits)
    expected = {"absent": {"ComparisonOperator": "NOT_CONTAINS", "AttributeValueList": [{"S": "a"}]}}
    condition = orjson.dumps({"Expected": expected}).decode()
    command = Update(table.definition.id, pk, sk, CONTEXT, Expression(condition, dialect="legacy"))

    assert kind is type(ledger.fold(command))
