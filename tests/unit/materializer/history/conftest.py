"""A cluster with transactions, and the two kinds of history: one epoch, and many small ones."""

import math
import random
from typing import Any

import pytest

from foldb.log.commands import Check, Transact, new_context
from tests.unit.materializer.ledger import delete, put, update
from tests.unit.materializer.partitions.cluster import Cluster


@pytest.fixture(params=range(4))
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """Four partitions with transactions over them, some of which are refused or aborted, in a random order."""
    dice = random.Random(request.param)
    made = Cluster(data=4)
    tables = [made.create(name) for name in ("One", "Two")]

    def action() -> Any:
        table, key = dice.choice(tables), {"pk": {"S": str(dice.randrange(6))}}
        when = dice.choice([None, None, "attribute_exists(pk)", "attribute_not_exists(pk)"])
        match dice.randrange(4):
            case 0:
                return delete(table, key, when=when)
            case 1:
                return update(table, key, "SET n = :n", {":n": {"N": str(dice.randrange(3))}})
            case 2 if when is not None:
                check = put(table, key, when=when)
                return Check(check.table, check.pk, check.sk, check.context, check.expression)
        return put(table, {**key, "n": {"N": str(dice.randrange(9))}}, when=when)

    for number in range(60):
        if dice.random() < 0.4:
            actions = {(each.table, each.pk): each for each in (action() for _ in range(3))}
            transact = Transact(list(actions.values()), new_context(f"T{number}"), None, b"")
            made.fold(dice.choice(made.data), transact)
        else:
            command = action()
            if not isinstance(command, Check):
                made.write(command)
        for _ in range(dice.randrange(6)):
            made.disturb(dice)
    made.settle()
    return made


@pytest.fixture(params=[math.inf, 3], ids=["one epoch", "epochs"])
def floor(request: pytest.FixtureRequest) -> float:
    """Return the versions that an epoch may have in addition to twice its base."""
    value: float = request.param
    return value
