"""Partitions without workers and owners: the test delivers each message, any number of times."""

from collections import defaultdict
from typing import Any

from foldb.log.codec import decode_entry, encode_entry
from foldb.log.commands import (
    Abandon,
    Backfill,
    Command,
    DefineTable,
    Entry,
    Genesis,
    Record,
    Relay,
    RelayAck,
)
from foldb.materializer.fold import LEVEL, fold
from foldb.materializer.fold.dump import digest, dump
from foldb.materializer.fold.load import load
from foldb.materializer.fold.outcomes import (
    Applied,
    Completed,
    MessageFolded,
    Outcome,
    TableDefined,
    Transacted,
    TransactionStarted,
)
from foldb.materializer.fold.state import PartitionState, Table
from foldb.model.slots import partition_of_key
from foldb.model.values import Item
from foldb.model.values import load as load_item
from tests.unit.materializer.ledger import CONTEXT, START, define, table_request

CATALOG = 0


class Partitions:
    """A catalog and a number of data partitions.

    Attributes:
        states, records: By partition.
        answers: The clients' answers to transactions over partitions, by coordinator and number.
        given_up: The transactions that an Abandon aborted.
        held_at_answer: Whether any key was held when the client was answered.
        applied: The effects of transactions on items, in the order of each partition.
    """

    def __init__(self, data: int, limits: str = "modern") -> None:
        self.count = data + 1
        self.now = START
        self.states = [PartitionState() for _ in range(self.count)]
        self.records: list[list[Record]] = [[] for _ in range(self.count)]
        self.answers: dict[tuple[int, int], list[Outcome]] = defaultdict(list)
        self.given_up: set[tuple[int, int]] = set()
        self.held_at_answer: dict[tuple[int, int], bool] = {}
        self.applied: list[Applied] = []
        self._told: dict[tuple[int, int], list[Relay]] = defaultdict(list)
        for partition in range(self.count):
            self.fold(partition, Genesis(bytes(16), partition, self.count, 0, LEVEL, "blake2b-64", limits))

    def fold(self, partition: int, command: Command) -> Outcome:
        """Fold a command as an entry of its own, decoded as from a log."""
        state, records = self.states[partition], self.records[partition]
        entry = decode_entry(encode_entry(Entry(bytes(16), len(records), [command])))
        records.append(Record(partition, len(records), self.now, entry))
        (outcome,) = fold(state, records[-1])
        self._note(partition, outcome)
        if isinstance(command, Abandon) and isinstance(outcome, MessageFolded):
            self.given_up.update((partition, number) for number, *_ in outcome.resolved)
        for receiver, outbox in state.outboxes.items():
            reported = self._told[partition, receiver]
            reported.extend(relay for relay in outbox.unacknowledged if relay.message_number >= len(reported))
        return outcome

    def where(self, table: int, pk: bytes) -> int:
        return partition_of_key(table, pk, self.count)

    def create(self, name: str, **settings: Any) -> Table:
        """Create a table in all partitions; return the catalog's."""
        outcome = self.fold(CATALOG, define("CreateTable", 0, table_request(name, **settings)))
        assert isinstance(outcome, TableDefined)
        self.deliver_all()
        return self.states[CATALOG].tables[outcome.definition.id]

    def change(self, command: DefineTable) -> None:
        """Fold a table command at the catalog alone."""
        self.fold(CATALOG, command)

    def ways(self) -> list[tuple[int, int]]:
        """Return the pairs of sender and receiver."""
        return sorted(self._told)

    def deliver(self, sender: int, receiver: int, number: int | None = None) -> Outcome | None:
        """Fold a message, which may be a repeated or an early one; by default the next."""
        reported = self._told[sender, receiver]
        if number is None:
            number = self.states[receiver].received.get(sender, 0)
        return self.fold(receiver, reported[number]) if number < len(reported) else None

    def sent(self, sender: int, receiver: int) -> int:
        """Return the number of messages so far."""
        return len(self._told[sender, receiver])

    def acknowledge(self, sender: int, receiver: int) -> None:
        through = self.states[receiver].received.get(sender, 0) - 1
        self.fold(sender, RelayAck(receiver, through, self.states[receiver].log_time))

    def deliver_all(self) -> None:
        """Deliver messages until none is left."""
        while any(self.deliver(*way) is not None for way in self.ways()):
            pass
        for way in self.ways():
            self.acknowledge(*way)

    def abandon(self, coordinator: int, number: int) -> Outcome:
        return self.fold(coordinator, Abandon(number, CONTEXT))

    def fill(self, table: int, index: str) -> None:
        """Fill a new index in all partitions."""
        number = self.states[CATALOG].tables[table].indexes[index].definition.id
        for partition in range(1, self.count):
            outcome = self.fold(partition, Backfill(table, number, 1000, CONTEXT))
            assert outcome == Completed(progressed=True)
        self.deliver_all()

    def items(self, table: int, index: str | None = None) -> list[Item]:
        """Return the items of a table or an index in all partitions."""
        found = []
        for state in self.states[1:]:
            here = state.tables[table]
            store = here.items if index is None else here.indexes[index].store
            found += [load_item(stored[0]) for *_, stored in store.scan()]
        return found

    def reload(self, partition: int) -> None:
        """Replace a state by its loaded dump."""
        before = self.states[partition]
        self.states[partition] = load(dump(before))
        assert digest(before) == digest(self.states[partition])

    def refolded(self, partition: int) -> PartitionState:
        state = PartitionState()
        for record in self.records[partition]:
            fold(state, record)
        return state

    def _note(self, partition: int, outcome: Outcome) -> None:
        match outcome:
            case TransactionStarted(number):
                assert (partition, number) not in self.answers, "two transactions of one name"
                self.answers[partition, number] = []
            case MessageFolded(applied=applied, resolved=resolved):
                self.applied.extend(applied)
                for number, answer, _ in resolved:
                    self.answers[partition, number].append(answer)
                    self.held_at_answer[partition, number] = any(
                        (partition, number) in state.transactions.prepared for state in self.states
                    )
            case Transacted(actions=actions, replayed=False):
                self.applied.extend(action for action in actions if isinstance(action, Applied))
            case Applied():
                self.applied.append(outcome)
