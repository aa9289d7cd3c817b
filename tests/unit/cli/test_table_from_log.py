"""A table is refolded from a log of several partitions with the transactions that are decided at the cut."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from foldb.cli.lib.table_from_log import refold_table
from foldb.log.commands import Commit, Delete, Position, Put, Relay
from foldb.model.durations import time_text
from foldb.model.values import Item, dump, load
from tests.unit.materializer.ledger import CONTEXT
from tests.unit.materializer.several_partitions.database import Database, transact

SESSION = cast(
    Any, SimpleNamespace(settings=SimpleNamespace(quiet=True), output=SimpleNamespace(stderr=None))
)


class Decided:
    """A transaction of a put in partition 1, its coordinator, and of a put and a delete in partition 2.

    Attributes:
        there: The key of the put in partition 2, and `removed` that of the delete.
        commit: The position of the Commit in partition 2, and `relay` that command.
        decision: The position of the decision.
    """

    def __init__(self) -> None:
        self.database = Database()
        self.table = self.database.create()
        here, self.there, self.removed = self._key(1), self._key(2), self._key(2, nth=1)
        self.database.do(2, self._put(self.removed))
        delete = Delete(self.table.definition.id, self.removed["pk"]["S"].encode(), b"", CONTEXT)
        self.database.do(1, transact(self._put(here), self._put(self.there), delete))
        [(self.commit, self.relay)] = [
            (Position(2, record.offset), command)
            for record in self.database.log.read(2)
            for command in record.entry.commands
            if isinstance(command, Relay) and isinstance(command.message, Commit)
        ]
        self.decision = Position(self.relay.sender, self.relay.offset)

    def _key(self, partition: int, nth: int = 0) -> Item:
        return self.database.key_in(partition, self.table, nth)

    def _put(self, key: Item) -> Put:
        return Put(self.table.definition.id, key["pk"]["S"].encode(), b"", dump(key), 10, CONTEXT)

    def items(self, as_of: str) -> list[Item]:
        log = self.database.log
        source = SimpleNamespace(
            partitions=3, horizon_ms=None, begin=lambda _: 0, end=log.end, read=log.read, genesis=log.genesis
        )
        past = refold_table(cast(Any, source), SESSION, "Orders", as_of)
        return [load(stored[0]) for part in past.parts for _, _, _, stored in part.items.scan()]


@pytest.fixture
def decided() -> Decided:
    return Decided()


def test_a_transaction_that_is_decided_at_the_cut_is_whole(decided: Decided) -> None:
    before = decided.commit.offset - 1
    assert 1 == decided.decision.partition

    for as_of in (f"1:{decided.decision.offset},2:{before}", time_text(decided.relay.time)):
        items = decided.items(as_of)
        assert decided.there in items
        assert decided.removed not in items


def test_a_transaction_without_a_decision_is_not_shown(decided: Decided) -> None:
    as_of = f"1:{decided.decision.offset - 1},2:{decided.commit.offset - 1}"

    assert [decided.removed] == decided.items(as_of)
