"""Proposals that are due by the clock; the fold decides."""

from typing import Any

import pytest

from foldb.log.commands import Backfill, Command, Expire
from foldb.log.memory_log import MemoryLog
from foldb.materializer import portions as portions_module
from foldb.materializer.fold.outcomes import Outcome
from foldb.materializer.fold.state import PartitionState, Table
from foldb.materializer.owner import timers as timers_module
from foldb.materializer.owner.timers import Expired, Timers, due
from foldb.materializer.portions import Traffic
from foldb.materializer.worker import Worker
from tests.unit.materializer.fake_loop import FakeLoop
from tests.unit.materializer.ledger import define, index_request, put, table_request

DELAY = 5.0
SWEEP = 60.0
YEAR = 365 * 24 * 60 * 60


class Owner:
    """A worker with its timers, on a log in memory and a clock that the test controls."""

    def __init__(self, log: MemoryLog | None = None, loop: FakeLoop | None = None) -> None:
        self.loop = loop or FakeLoop()
        self.log = log or MemoryLog(self.loop.clock)
        self.state = PartitionState()
        self.worker = Worker(
            self.log,
            self.state,
            origin=b"%016d" % self.log.end(0),
            scheduler=self.loop,
            on_fatal=_fail,
        )
        self.worker.open()
        self.traffic = Traffic()
        self.timers = Timers(
            self.worker,
            self.state,
            clock=self.loop.clock,
            scheduler=self.loop,
            table_delay=DELAY,
            sweep_interval=SWEEP,
            traffic=self.traffic,
        )
        self.worker.after_answers.add(self.timers.folded)
        self.timers.start()

    @property
    def now(self) -> int:
        """Seconds since 1970."""
        return self.loop.clock() // 1000

    def do(self, *commands: Command) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for command in commands:
            self.worker.submit(command, 100, lambda outcome, _: outcomes.append(outcome))
        self.loop.settle()
        return outcomes

    def create(self, name: str = "Sessions", settle: bool = False, **settings: Any) -> Table:
        self.do(define("CreateTable", 0, table_request(name, **settings), settle=settle))
        return self.state.tables[self.state.names[name]]

    def expiring(self, name: str = "Sessions", attribute: str = "ttl") -> Table:
        table = self.create(name)
        specification = {"Enabled": True, "AttributeName": attribute}
        request = {"TableName": name, "TimeToLiveSpecification": specification}
        self.do(define("UpdateTimeToLive", table.definition.id, request))
        return table

    def commands(self, kind: type[Command]) -> list[Command]:
        """The commands of that kind in the log."""
        return [
            command
            for record in self.log.read(0)
            for command in record.entry.commands
            if isinstance(command, kind)
        ]


def _fail(error: BaseException) -> None:
    raise error


@pytest.fixture
def owner() -> Owner:
    return Owner()


def session(number: int, at: int | str) -> dict[str, dict[str, str]]:
    return {"pk": {"S": f"s-{number}"}, "ttl": {"N": str(at)}}


class TestTables:
    def test_a_table_is_settled_when_its_delay_is_over(self, owner: Owner) -> None:
        table = owner.create(settle=True)

        seen = []
        for seconds in (DELAY - 0.1, 0.1):
            owner.loop.advance(seconds)
            seen.append(table.definition.status)

        assert ["CREATING", "ACTIVE"] == seen

    def test_a_table_being_deleted_goes_when_its_delay_is_over(self, owner: Owner) -> None:
        table = owner.create()
        owner.do(define("DeleteTable", table.definition.id, {"TableName": "Sessions"}, settle=True))
        assert owner.state.table_named("Sessions") is not None

        owner.loop.advance(DELAY)
        assert owner.state.table_named("Sessions") is None

    def test_a_restart_settles_unsettled_tables(self, owner: Owner) -> None:
        owner.create(settle=True)
        owner.timers.close()

        restarted = Owner(owner.log, owner.loop)
        restarted.loop.advance(DELAY)

        table = restarted.state.table_named("Sessions")
        assert table is not None
        assert table.definition.status == "ACTIVE"

    def test_two_owners_at_once_are_harmless(self, owner: Owner) -> None:
        # Both find the table unsettled and propose; the log keeps the second proposal without effect.
        table = owner.create(settle=True)
        owner.timers.start()

        Timers(
            owner.worker, owner.state, clock=owner.loop.clock, scheduler=owner.loop, table_delay=DELAY
        ).start()
        owner.loop.advance(DELAY)

        assert table.definition.status == "ACTIVE"

    def test_a_closed_owner_proposes_nothing(self, owner: Owner) -> None:
        table = owner.create(settle=True)

        owner.timers.close()
        owner.loop.advance(10 * DELAY)

        assert table.definition.status == "CREATING"


class TestIndexes:
    def test_a_new_index_is_filled_chunk_by_chunk(
        self, owner: Owner, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(timers_module, "BACKFILL_MOST_ITEMS", 10)
        table = owner.create()
        owner.do(*(put(table, session(number, 1)) for number in range(35)))

        _add_index(owner, table)

        assert len(table.indexes) == 1
        [index] = table.indexes.values()
        assert (index.definition.status, index.definition.backfilling) == ("ACTIVE", False)
        assert index.store.count == 35

    @pytest.mark.parametrize(("arriving", "counts"), [(1, [2] * 18), (0, [4, 8, 8, 8, 8])])
    def test_steps_are_short_while_requests_arrive(
        self, monkeypatch: pytest.MonkeyPatch, arriving: int, counts: list[int]
    ) -> None:
        monkeypatch.setattr(timers_module, "BACKFILL_LEAST_ITEMS", 2)
        monkeypatch.setattr(timers_module, "BACKFILL_MOST_ITEMS", 8)
        owner = Owner()
        table = owner.create()
        owner.do(*(put(table, session(number, 1)) for number in range(35)))

        def arrive(_: object) -> None:
            owner.traffic.requests += arriving

        owner.worker.before_answers.add(arrive)
        _add_index(owner, table)

        steps = [command for command in owner.commands(Backfill) if isinstance(command, Backfill)]
        assert [step.count for step in steps] == counts
        assert next(iter(table.indexes.values())).store.count == 35

    def test_a_chunk_of_large_items_has_fewer_of_them(
        self, owner: Owner, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(portions_module, "PORTION_BYTES", 100)
        table = owner.create()
        owner.do(*(put(table, session(number, 1)) for number in range(35)))
        end = owner.log.end(0)

        _add_index(owner, table)

        [index] = table.indexes.values()
        assert (index.definition.status, index.store.count) == ("ACTIVE", 35)
        assert owner.log.end(0) > end + 4

    def test_a_restart_goes_on_filling(self, owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(timers_module, "BACKFILL_MOST_ITEMS", 10)
        table = owner.create()
        owner.do(*(put(table, session(number, 1)) for number in range(35)))
        owner.timers.close()
        _add_index(owner, table)
        assert next(iter(table.indexes.values())).definition.backfilling

        restarted = Owner(owner.log, owner.loop)
        restarted.loop.settle()

        again = restarted.state.tables[table.definition.id]
        [index] = again.indexes.values()
        assert index.definition.status == "ACTIVE"
        assert index.store.count == 35

    def test_a_proposal_that_found_no_room_in_the_log_is_made_again(self) -> None:
        loop = FakeLoop()
        owner = Owner(MemoryLog(loop.clock, manual=True), loop)
        owner.do(define("CreateTable", 0, table_request("Sessions"), settle=True))
        owner.log.commit()
        loop.advance(DELAY)
        owner.log.fail()  # the disk is full, for now

        loop.advance(1 + DELAY)
        owner.log.commit()

        table = owner.state.table_named("Sessions")
        assert table is not None
        assert table.definition.status == "ACTIVE"


def _add_index(owner: Owner, table: Table) -> None:
    request = {
        "TableName": "Sessions",
        "AttributeDefinitions": [
            {"AttributeName": "pk", "AttributeType": "S"},
            {"AttributeName": "ttl", "AttributeType": "N"},
        ],
        "GlobalSecondaryIndexUpdates": [{"Create": index_request("by-time", "ttl")}],
    }
    owner.do(define("UpdateTable", table.definition.id, request))


class TestTimeToLive:
    def test_an_item_whose_time_has_passed_goes_at_the_next_sweep(self, owner: Owner) -> None:
        table = owner.expiring()
        owner.do(put(table, session(1, owner.now + 10)), put(table, session(2, owner.now + 1000)))

        owner.loop.advance(SWEEP - 1)
        assert table.items.count == 2, "it stays readable until swept"

        owner.loop.advance(2)
        assert table.items.get(b"s-1", b"") is None
        assert table.items.get(b"s-2", b"") is not None

    def test_an_expiry_names_the_service_as_its_principal(self, owner: Owner) -> None:
        table = owner.expiring()
        owner.do(put(table, session(1, owner.now - 1)))

        owner.loop.advance(SWEEP + 1)

        [expiry] = owner.commands(Expire)
        assert isinstance(expiry, Expire)
        assert expiry.context.source == "ttl"

    @pytest.mark.spec("X1")
    def test_a_raced_update_survives(self, owner: Owner) -> None:
        table = owner.expiring()
        owner.do(put(table, session(1, owner.now - 1)))
        renewed = put(table, session(1, owner.now + 1000))
        sweep = owner.timers._sweep  # to propose at the very moment of the update
        sweep._begin()

        owner.do(renewed)

        assert len(owner.commands(Expire)) == 1, "it was proposed"
        assert table.items.count == 1, "and judged again"

    def test_a_table_without_a_time_to_live_is_left_alone(self, owner: Owner) -> None:
        table = owner.create()
        owner.do(put(table, session(1, owner.now - 1)))

        owner.loop.advance(3 * SWEEP)

        assert [] == owner.commands(Expire)

    def test_a_sweep_goes_through_all_tables_a_few_items_at_a_time(
        self, owner: Owner, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(timers_module, "SWEEP_ITEMS", 8)
        tables = [owner.expiring(f"Sessions-{number}") for number in range(3)]
        for table in tables:
            for number in range(20):
                owner.do(put(table, session(number, owner.now + (1000 if number % 4 else -1))))

        owner.loop.advance(SWEEP + 1)

        assert [15, 15, 15] == [table.items.count for table in tables]

    def test_sweeps_go_on(self, owner: Owner) -> None:
        table = owner.expiring()
        for _ in range(3):
            owner.do(put(table, session(1, owner.now - 1)))
            owner.loop.advance(SWEEP + 1)
            assert table.items.count == 0

    def test_a_full_log_only_puts_the_sweep_off(self) -> None:
        loop = FakeLoop()
        log = MemoryLog(loop.clock)
        table_id = Owner(log, loop).expiring().definition.id
        log._manual = True
        owner = Owner(log, loop)
        table = owner.state.tables[table_id]
        owner.do(put(table, session(1, owner.now - 1)))
        log.commit()

        loop.advance(SWEEP + 1)
        log.fail()
        loop.advance(SWEEP + 1)
        log.commit()

        assert table.items.count == 0

    def test_a_table_may_go_in_the_middle_of_a_sweep(
        self, owner: Owner, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(timers_module, "SWEEP_ITEMS", 2)
        table = owner.expiring()
        for number in range(6):
            owner.do(put(table, session(number, owner.now + 1000)))
        owner.timers._sweep._begin()

        owner.do(define("DeleteTable", table.definition.id, {"TableName": "Sessions"}))
        later = owner.expiring("Later")
        owner.do(put(later, session(1, owner.now - 1)))
        owner.loop.advance(SWEEP + 1)

        assert later.items.count == 0


NOW = 1_700_000_000


@pytest.mark.parametrize(
    ("at", "is_due"),
    [
        ("1699999999", True),
        ("1700000000", True),
        ("1700000001", False),
        ("1699999999.5", True),
        ("1700000000.5", False),
        (str(NOW - 5 * YEAR), True),
        (str(NOW - 5 * YEAR - 1), False),
        ("0", False),
        ("-1", False),
        ("99999999999999999999999999999999999999", False),
    ],
)
def test_an_item_is_due_for_five_years(at: str, is_due: bool) -> None:
    assert is_due == due(at, NOW)


@pytest.mark.parametrize(
    ("item", "at"),
    [
        (b'{"pk":{"S":"a"},"ttl":{"N":"1699999999"}}', "1699999999"),
        (b'{"pk":{"S":"a"},"ttl":{"N":"1700000001"}}', None),
        (b'{"pk":{"S":"a"},"ttl":{"S":"1699999999"}}', None),
        (b'{"pk":{"S":"a"}}', None),
        (b'{"m":{"M":{"ttl":{"N":"1699999999"}}},"pk":{"S":"a"}}', None),
        (b'{"m":{"M":{"ttl":{"N":"1699999999"}}},"ttl":{"N":"1700000001"}}', None),
        (b'{"m":{"M":{"ttl":{"N":"1700000001"}}},"ttl":{"N":"1699999999"}}', "1699999999"),
        (b'{"s":{"S":"\\"ttl\\":{\\"N\\":\\"1699999999\\"}"}}', None),
    ],
)
def test_only_the_number_at_the_top_of_an_item_is_its_time_to_live(item: bytes, at: str | None) -> None:
    assert at == Expired("ttl", NOW).at(item)


def test_an_attribute_with_any_name_is_found() -> None:
    name = 'a"\\.*é'
    item = '{"a\\"\\\\.*é":{"N":"1699999999"}}'.encode()

    assert Expired(name, NOW).at(item) == "1699999999"
