"""A cluster with random events, from a seed.

Tables, indexes, streams and subscriptions are created and removed while items are written, and messages are late,
early, repeated, or delivered to a state that was just loaded from a dump. A life may begin at an older level, which
each partition leaves at a time of its own.
"""

import random
from typing import Any

from foldb.log.commands import (
    Abandon,
    Checkpoint,
    Level,
    Load,
    LoadedItem,
    Put,
    RestoreProgress,
    Transact,
    new_context,
)
from foldb.materializer.fold import LEVEL, fold
from foldb.materializer.fold.dump import dump
from foldb.materializer.fold.outcomes import Outcome, Subscribed
from foldb.materializer.fold.state import PartitionState, Table
from foldb.model.values import Value
from foldb.streams.changes import changes
from tests.unit.materializer.ledger import (
    START,
    about,
    define,
    delete,
    index_request,
    put,
    subscribe,
    table_request,
    update,
)
from tests.unit.materializer.partitions.cluster import Cluster
from tests.unit.materializer.splitting import random_split

NAMES = ["Cars", "Bikes"]
ATTRIBUTES = ["a", "b"]


class Life:
    """See the module. The partitions' clocks are `skew_ms` apart.

    Attributes:
        subscribed: The subscriptions, with the version of definitions from which all partitions capture for them.
    """

    def __init__(self, seed: int, skew_ms: int = 1000, level: int = LEVEL) -> None:
        self.dice = random.Random(seed)
        self.now = START
        self._skew_ms = skew_ms
        self.cluster = Cluster(data=self.dice.randrange(2, 6), now=self._clock, level=level)
        self.pace = self.dice.choice([2, 4, 8])  # the share of messages delivered between events
        self.tokens = 0
        self.subscribed: dict[str, int] = {}

    def _clock(self, partition: int) -> int:
        self.now += self.dice.randrange(30)
        return self.now - self._skew_ms * partition

    def live(self, steps: int) -> None:
        for name in NAMES:
            self._define("CreateTable", 0, _table(self.dice, name))
        for _ in range(steps):
            self._step()
            self._check_capture()

    def rest(self) -> None:
        """Complete all open work, at the newest level."""
        for partition in range(self.cluster.partitions):
            self.cluster.fold(partition, Level(LEVEL, new_context("L")))
        restoring = self._restoring()
        if restoring is not None:
            self.cluster.fold(0, RestoreProgress(restoring.definition.id, b"", True, new_context("H")))
        self.cluster.rest()
        self._check_capture()

    def _step(self) -> None:
        dice = self.dice
        match dice.randrange(28):
            case 0 | 1:
                self._change_a_table()
            case 2 | 3 | 4:
                self.cluster.backfill(dice)
            case 5 | 6:
                self._transact()
            case 7 if dice.random() < 0.3:
                self._abandon()
            case 8 | 9:
                self._stream()
            case 10 | 11:
                self._subscribe()
            case 12 if dice.random() < 0.5:
                self.cluster.fold(dice.randrange(self.cluster.partitions), Level(LEVEL, new_context("L")))
            case 13 | 14:
                self._restore()
            case 15:
                self._split()
            case _:
                self._write()
        for _ in range(dice.randrange(self.pace)):
            self.cluster.disturb(dice)

    def _table(self) -> Table | None:
        """Return a table of the catalog, whose definition may differ from the partitions'."""
        tables = list(self.cluster.catalog.tables.values())
        return self.dice.choice(tables) if tables else None

    def _command(self, table: Table) -> Any:
        dice, key = self.dice, {"pk": {"S": str(self.dice.randrange(12))}}
        match dice.randrange(4):
            case 0:
                return delete(table, key)
            case 1:
                name = dice.choice(ATTRIBUTES)
                return update(table, key, f"SET {name} = :v", {":v": _value(dice)})
            case _:
                values = {name: _value(dice) for name in [*ATTRIBUTES, "c"] if dice.random() < 0.7}
                return put(table, {**key, **values}, when=dice.choice([None, "attribute_exists(a)"]))

    def _write(self) -> None:
        table = self._table()
        if table is not None:
            command = self._command(table)
            self.cluster.write(command)

    def _transact(self) -> None:
        table = self._table()
        if table is None:
            return
        actions = {command.pk: command for command in (self._command(table) for _ in range(2))}
        self.tokens += 1
        command = Transact(list(actions.values()), new_context("T"), f"token {self.tokens}", b"f")
        self.cluster.fold(self.dice.choice(self.cluster.data), command)

    def _abandon(self) -> None:
        for partition in self.cluster.data:
            for number, _ in list(self.cluster.states[partition].transactions.undecided()):
                self.now += 10_000
                self.cluster.fold(partition, Abandon(number, new_context("A")))

    def _change_a_table(self) -> None:
        table = self._table()
        if table is None or self.dice.random() < 0.2:
            name = self.dice.choice(NAMES)
            self._define("CreateTable", 0, _table(self.dice, name))
            return
        definition = table.definition
        if self.dice.random() < 0.1:
            self._define("DeleteTable", definition.id, {"TableName": definition.name})
        elif definition.gsis and self.dice.random() < 0.5:
            name = self.dice.choice(definition.gsis).name
            self._define("UpdateTable", definition.id, _update(Delete={"IndexName": name}))
        else:
            create = _index(self.dice, f"index{self.dice.randrange(4)}")
            self._define("UpdateTable", definition.id, _update(Create=create))

    def _split(self) -> None:
        table = self._table()
        if table is not None:
            self.cluster.fold(0, random_split(self.dice, table.definition))

    def _define(self, operation: str, table: int, request: dict[str, Any]) -> None:
        self.cluster.fold(0, define(operation, table, request))

    def _restore(self) -> None:
        """Begin a restore, load items, report progress, or delete the table."""
        dice, context = self.dice, new_context("H", source="restore", reason="drill")
        table = self._restoring()
        if table is None:
            origin = {"Source": {"Id": 1, "Name": "Cars", "Arn": "arn"}, "TimeMs": self.now}
            self._define("ForkTable", 0, {**_table(dice, "Restored"), "Restore": origin})
        elif dice.random() < 0.2:
            self.cluster.fold(0, RestoreProgress(table.definition.id, b"", dice.random() < 0.5, context))
        elif dice.random() < 0.1:
            self._define("DeleteTable", table.definition.id, {"TableName": "Restored"})
        else:
            puts = [self._command(table) for _ in range(4)]
            items = {
                one.pk: LoadedItem(one.pk, one.sk, one.item, one.size) for one in puts if type(one) is Put
            }
            here = [
                item for item in items.values() if self.cluster.home_of(table.definition.id, item.pk) == 1
            ]
            self.cluster.fold(1, Load(table.definition.id, here, context))

    def _restoring(self) -> Table | None:
        """Return the table that is being restored in the catalog."""
        tables = self.cluster.catalog.tables.values()
        return next((table for table in tables if table.definition.is_restoring), None)

    def _stream(self) -> None:
        table = self._table()
        if table is not None:
            view = {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"}
            specification = self.dice.choice([view, view, {"StreamEnabled": False}])
            request = {"TableName": table.definition.name, "StreamSpecification": specification}
            self._define("UpdateTable", table.definition.id, {**request, "ShardAgeMs": 5000})

    def _subscribe(self) -> None:
        """Create or remove a subscription, or write a checkpoint."""
        name = self.dice.choice("RS")
        subscription = self.cluster.catalog.subscriptions.get(name)
        if subscription is None:
            outcome = self.cluster.fold(0, subscribe(name, self.dice.choice(NAMES)))
            if isinstance(outcome, Subscribed):
                self.subscribed[name] = outcome.version
        elif self.dice.random() < 0.5:
            self.cluster.fold(0, about(name, "Remove"))
            del self.subscribed[name]
        else:
            marks = [(partition, self.now) for partition in self.cluster.data]
            self.cluster.fold(0, Checkpoint(subscription.id, 0, marks, "v", 1, 0))

    def _check_capture(self) -> None:
        """Check that an acknowledged subscription captures all later writes."""
        catalog = self.cluster.catalog
        for name, version in self.subscribed.items():
            for table_id in catalog.subscriptions[name].table_ids:
                table = catalog.tables.get(table_id)
                if (
                    table is None
                    or table.definition.status == "DELETING"
                    or not catalog.is_applied_everywhere(version)
                ):
                    continue
                for partition in self.cluster.data:
                    windows = self.cluster.states[partition].capture_periods(table_id)
                    assert any(window.is_open and window.label == 0 for window in windows)

    def feed(self) -> dict[tuple[int, bytes, bytes], bytes]:
        """Return the items according to the refolded feeds of all partitions."""
        items: dict[tuple[int, bytes, bytes], bytes] = {}
        for outcomes in self.refold():
            for change in changes(outcomes):
                place = (change.table, change.pk, change.sk)
                assert items.get(place) == change.old, "a feed goes on from what it said before"
                if change.new is None:
                    del items[place]
                else:
                    items[place] = change.new
        return {place: item for place, item in items.items() if place[0] in self.cluster.catalog.tables}

    def refold(self) -> list[list[Outcome]]:
        """Fold every log again, and compare the states."""
        found: list[list[Outcome]] = []
        for partition, records in enumerate(self.cluster.records):
            state = PartitionState()
            found += [fold(state, record) for record in records]
            assert b"".join(dump(state)) == b"".join(dump(self.cluster.states[partition]))
        return found


def _value(dice: random.Random) -> Value:
    """Return a value that usually is a valid index key."""
    return dice.choice([{"S": dice.choice("xyzuvw")}] * 8 + [{"N": "1"}, {"S": ""}])


def _index(dice: random.Random, name: str) -> dict[str, Any]:
    key = dice.choice([["a"], ["b"], ["a", "b"]])
    return index_request(name, *key, projection=dice.choice(["ALL", "KEYS_ONLY"]))


def _table(dice: random.Random, name: str) -> dict[str, Any]:
    indexes = [_index(dice, f"first{n}") for n in range(dice.randrange(3))]
    settings: dict[str, Any] = {"GlobalSecondaryIndexes": indexes} if indexes else {}
    return table_request(name, **settings)


def _update(**change: Any) -> dict[str, Any]:
    attributes = [{"AttributeName": name, "AttributeType": "S"} for name in ["pk"]]
    if "Create" in change:
        names = [element["AttributeName"] for element in change["Create"]["KeySchema"]]
        attributes += [{"AttributeName": name, "AttributeType": "S"} for name in names]
    return {"AttributeDefinitions": attributes, "GlobalSecondaryIndexUpdates": [change]}
