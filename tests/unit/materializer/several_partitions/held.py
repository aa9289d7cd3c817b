"""An item that a transaction holds: it is decided in one partition, and not yet applied in another."""

from typing import Any

from foldb.materializer.partition import QueryRequest, ScanRequest
from tests.unit.materializer.ledger import put
from tests.unit.materializer.several_partitions.database import Answers, Database, Nowhere, transact

NEW = {"n": {"N": "2"}}


class Held:
    """An item in partition 2 that a transaction holds; partition 1 has decided, and 2 has not received the decision."""

    def __init__(self) -> None:
        self.database = Database()
        self.table = self.database.create()
        self.key = self.database.key_in(2, self.table)
        self.database.do(2, put(self.table, self.key))
        self.reachable = self.database.partitions[2]
        self.answers: Answers = []
        self._begin()

    def _begin(self) -> None:
        database = self.database
        elsewhere = put(self.table, {**database.key_in(1, self.table), **NEW})
        self.answers = database.submit(1, transact(elsewhere, put(self.table, {**self.key, **NEW})))
        while not database.state(1).tables[self.table.definition.id].items.count:
            if database.state(2).transactions.held:
                database.partitions[2] = Nowhere()
            database.loop.turn()
        assert database.state(2).transactions.held

    def release(self) -> None:
        self.database.partitions[2] = self.reachable
        self.database.loop.advance(5)

    def read(self, how: str, *, consistent: bool = True) -> list[Any]:
        """Read the item, alone or with others; return the list that receives the answer."""
        answers: list[Any] = []
        pk, table = self.key["pk"]["S"].encode(), self.table.definition.id

        def done(found: Any, at: object) -> None:
            answers.append(found)

        match how:
            case "get":
                self.reachable.get(table, pk, b"", consistent, done)
            case "get_all":
                self.reachable.get_all([(table, pk, b"")], consistent, done)
            case "query":
                self.reachable.query(QueryRequest(table, None, pk, b"", None, consistent=consistent), done)
            case "scan":
                self.reachable.scan(ScanRequest(table, None, consistent=consistent), done)
        return answers
