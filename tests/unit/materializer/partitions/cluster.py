"""Several partitions without workers: each is a state and a list of records, and a test delivers their messages.

The test chooses the order: a message may be delivered late, twice, or before earlier ones, its acknowledgement may
come at any time or never, and a state may be dumped and loaded at any moment.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from foldb.log.codec import decode_entry, encode_entry
from foldb.log.commands import (
    Backfill,
    Command,
    DefineTable,
    Entry,
    Genesis,
    Record,
    Relay,
    RelayAck,
    new_context,
)
from foldb.materializer.fold import LEVEL, fold
from foldb.materializer.fold.dump import dump
from foldb.materializer.fold.fold_record import Void
from foldb.materializer.fold.load import load
from foldb.materializer.fold.outcomes import Outcome, TableDefined
from foldb.materializer.fold.state import PartitionState, Table
from foldb.model.slots import data_partitions, partition_of_key
from tests.unit.materializer.ledger import START, define, table_request

LOG_ID = b"log of a cluster"


class Cluster:
    """A catalog and `data` partitions.

    Attributes:
        states: By partition.
        records: The log of each partition.
        sent: Every Relay that was ever offered, by (sender, receiver), to send it again.
    """

    def __init__(
        self, data: int = 3, now: Callable[[int], int] = lambda partition: START, level: int = LEVEL
    ) -> None:
        self.partitions = data + 1
        self.data = data_partitions(self.partitions)
        self.states = [PartitionState() for _ in range(self.partitions)]
        self.records: list[list[Record]] = [[] for _ in self.states]
        self.sent: dict[tuple[int, int], list[Relay]] = {}
        self._now = now
        for partition in range(self.partitions):
            genesis = Genesis(LOG_ID, partition, self.partitions, 0, level, "blake2b-64", "modern")
            self.fold(partition, genesis)

    @property
    def catalog(self) -> PartitionState:
        return self.states[0]

    def fold(self, partition: int, *commands: Command, void: Sequence[Void] = ()) -> Outcome:
        """Fold one entry, decoded as from a log; return the outcome of its last command."""
        records = self.records[partition]
        body = encode_entry(Entry(b"o" * 16, len(records), commands))
        record = Record(partition, len(records), self._now(partition), decode_entry(body))
        records.append(record)
        outcome = fold(self.states[partition], record, void)[-1]
        for receiver, outbox in self.states[partition].outboxes.items():
            sent = self.sent.setdefault((partition, receiver), [])
            sent += [relay for relay in outbox.unacknowledged if relay.message_number >= len(sent)]
        return outcome

    def home(self, command: Any) -> int:
        """Return the partition of an item command's key."""
        return self.home_of(command.table, command.pk)

    def home_of(self, owner: int, pk: bytes) -> int:
        """Return the partition of a partition key of a table or an index."""
        return partition_of_key(owner, pk, self.partitions)

    def write(self, command: Any) -> Outcome:
        """Fold an item command in the partition of its key."""
        return self.fold(self.home(command), command)

    def create(self, name: str, key: str = "pk:S", **settings: Any) -> Table:
        """Create a table in all partitions."""
        self.define(define("CreateTable", 0, table_request(name, key, **settings)))
        self.settle()
        table = self.catalog.table_named(name)
        assert table is not None
        assert "ACTIVE" == table.definition.status
        return table

    def define(self, command: DefineTable) -> Outcome:
        outcome = self.fold(0, command)
        assert isinstance(outcome, TableDefined), outcome
        return outcome

    # Messages

    def deliver(self, relay: Relay, receiver: int) -> Outcome:
        return self.fold(receiver, relay)

    def acknowledge(self, sender: int, receiver: int) -> Outcome:
        """Acknowledge all messages that the receiver has folded."""
        through = self.states[receiver].received.get(sender, 0) - 1
        return self.fold(sender, RelayAck(receiver, through, self.states[receiver].log_time))

    def settle(self) -> None:
        """Deliver and acknowledge until no message is left."""
        while any(self._carry(sender, receiver) for sender, receiver in list(self.pairs())):
            pass

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Yield the pairs of sender and receiver."""
        for sender, state in enumerate(self.states):
            for receiver in sorted(state.outboxes):
                yield sender, receiver

    def _carry(self, sender: int, receiver: int) -> bool:
        waiting = list(self.states[sender].outboxes[receiver].unacknowledged)
        for relay in waiting:
            self.deliver(relay, receiver)
        if not waiting:
            return False
        assert self.states[receiver].received[sender] > waiting[-1].message_number, (
            "a message does not get through"
        )
        self.acknowledge(sender, receiver)
        return True

    def disturb(self, dice: random.Random) -> None:
        """Do one random thing that a network, an owner or a restart may do."""
        pairs = list(self.pairs())
        if not pairs or dice.random() < 0.1:
            self.reload(dice.randrange(self.partitions))
            return
        sender, receiver = dice.choice(pairs)
        match dice.randrange(6):
            case 0:
                self.acknowledge(sender, receiver)
            case 1:
                self.deliver(dice.choice(self.sent[sender, receiver]), receiver)
            case _:
                expected = self.states[receiver].received.get(sender, 0)
                ahead = dice.choice([0, 0, 0, 0, 1, 2])
                for relay in self.sent[sender, receiver][expected + ahead :][: dice.randrange(1, 5)]:
                    self.deliver(relay, receiver)

    # Time

    def backfill(self, dice: random.Random, count: int = 2) -> bool:
        """Propose a step of a backfill to a partition that needs one; return False if none does."""
        steps = [
            (partition, Backfill(table.definition.id, index.definition.id, count, new_context("")))
            for partition in self.data
            for table in self.states[partition].tables.values()
            for index in table.indexes.values()
            if index.is_filling
        ]
        if not steps:
            return False
        self.fold(*dice.choice(steps))
        return True

    def rest(self) -> None:
        """Deliver all messages and complete all backfills."""
        dice = random.Random(0)
        self.settle()
        while self.backfill(dice, count=100):
            self.settle()

    def reload(self, partition: int) -> None:
        """Dump a partition and load it again, as its next owner does."""
        data = b"".join(dump(self.states[partition]))
        self.states[partition] = load([data])
        assert data == b"".join(dump(self.states[partition]))
