"""Finds the partition that a request is for, or splits it among several and joins what they answer.

    write, get, query     ──► the partition of the key
    batches of keys       ──► split by partition ──► joined, in the order that was asked for
    scan                  ──► one partition after another, within one page (scanning.py)
    transaction           ──► the partition that coordinates it
    table command         ──► the catalog

A partition may be in this process or on another node, and move: who moves it replaces its entry in `partitions`.
"""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from ...log.commands import (
    Check,
    Checkpoint,
    Command,
    Cut,
    DefineSubscription,
    DefineTable,
    Delete,
    Position,
    Put,
    Settle,
    Transact,
    Update,
)
from ...materializer.fold.outcomes import Failed, Outcome, Skipped, Subscribed, TableDefined
from ...materializer.fold.state import PartitionState
from ...materializer.fold.storage import Stored
from ...materializer.partition import (
    Conflict,
    EncodedKey,
    Found,
    Page,
    Partition,
    QueryRequest,
    ResultPosition,
    ScanRequest,
)
from ...materializer.worker import Scheduler
from ...model.errors import InternalServerError, RequestError, ResourceNotFoundError
from ...model.slots import partition_of_key
from .fan_in import FanIn, first_error, joined
from .routed_scan import RoutedScan, partitions_of

# Asks a partition for those of the keys that it has.
Ask: TypeAlias = Callable[[int, Sequence[EncodedKey], Callable[[Any, ResultPosition], None]], None]
Answered: TypeAlias = Callable[[Outcome, ResultPosition], None]

CATALOG: Final = 0

# A write that comes to its partition before the table does is appended anew.
_TRIES: Final = 50
_TRY_AGAIN_S: Final = 0.02

# A table command is answered when all partitions have applied it, or after so many looks all the same.
_LOOKS: Final = 2000
_LOOK_AGAIN_S: Final = 0.001
_NOT_EVERYWHERE: Final = "The subscription is made, but not every partition is known to have heard of it yet."


class Router:
    """A `Partition` that is all of them.

    Attributes:
        partitions: By number; each may be replaced at any moment.
    """

    def __init__(
        self,
        partitions: Sequence[Partition],
        catalog: PartitionState,
        scheduler: Scheduler,
        *,
        catch_up: Callable[[Callable[[], None]], None] = lambda done: done(),
    ) -> None:
        """Route by the tables in the state `catalog`; `catch_up` brings that to the end of its log, and calls back."""
        self.partitions = partitions
        self._count = len(partitions)
        self._catalog = catalog
        self._scheduler = scheduler
        self._catch_up = catch_up

    def submit(self, command: Command, size: int, done: Answered) -> None:
        """Have a command folded where it belongs."""
        if type(command) is DefineTable and not command.settle:
            done = partial(self._defined, done, _LOOKS)
        elif type(command) is DefineSubscription:
            done = partial(self._subscribed, done, _LOOKS)
        self._submit(command, size, done, _TRIES)

    def get(
        self,
        table: int,
        pk: bytes,
        sk: bytes,
        consistent: bool,
        done: Callable[[Stored | RequestError | None, ResultPosition], None],
    ) -> None:
        """Read an item."""
        self.partitions[partition_of_key(table, pk, self._count)].get(table, pk, sk, consistent, done)

    def get_all(
        self,
        keys: Sequence[EncodedKey],
        consistent: bool,
        done: Callable[[list[Stored | None] | RequestError, ResultPosition], None],
    ) -> None:
        """Read items; those of one partition at one position of its log."""
        self._split(
            keys, lambda number, own, answer: self.partitions[number].get_all(own, consistent, answer), done
        )

    def get_isolated(
        self,
        keys: Sequence[EncodedKey],
        since: Position | None,
        done: Callable[[list[Found] | RequestError, ResultPosition], None],
    ) -> None:
        """Read items as they all were at one moment.

        One partition reads its own at once. Several are asked twice: if no key has changed when they are asked for the
        second time, then between the two all items were as they were read.
        """
        assert since is None, "it is the router that knows since when"

        def found(items: list[Found] | RequestError, place: ResultPosition) -> None:
            if isinstance(items, RequestError) or isinstance(place, Position) or _conflict_in(items):
                done(items, place)
                return
            seen = {each.partition: each for each in place.positions}
            self._split(
                keys,
                lambda number, own, answer: self.partitions[number].get_isolated(own, seen[number], answer),
                done,
            )

        self._split(
            keys, lambda number, own, answer: self.partitions[number].get_isolated(own, None, answer), found
        )

    def query(
        self, request: QueryRequest, done: Callable[[Page | RequestError, ResultPosition], None]
    ) -> None:
        """Read a page of one item collection."""

        def ask(owner: int) -> None:
            self.partitions[partition_of_key(owner, request.pk, self._count)].query(request, done)

        self._spread_by(request, ask, done)

    def scan(self, request: ScanRequest, done: Callable[[Page | RequestError, ResultPosition], None]) -> None:
        """Read a page in hash order; of a local index, partition after partition."""
        self._spread_by(request, lambda owner: self._scan(request, owner, done), done)

    def _scan(
        self, request: ScanRequest, owner: int, done: Callable[[Page | RequestError, ResultPosition], None]
    ) -> None:
        is_local = request.index is not None and owner == request.table
        asked = partitions_of(request, owner, is_local=is_local, partitions=self._count)
        if len(asked) == 1:
            self.partitions[asked[0]].scan(request, done)
        else:
            room = self._catalog.limits.page_bytes
            RoutedScan(self.partitions, request, asked, room, self._scheduler, done).go_on()

    def reach(self, position: ResultPosition, done: Callable[[RequestError | None], None]) -> None:
        """Wait for a position, or for all of a cut."""
        wanted = position.positions if isinstance(position, Cut) else (position,)
        join = FanIn(len(wanted), lambda results, _: done(first_error(results)))
        for nth, each in enumerate(wanted):
            self.partitions[each.partition].reach(each, partial(join.answered, nth))

    def status(self, done: Callable[[dict[str, Any] | RequestError], None]) -> None:
        """Each partition's figures, or the RequestError in their place, by its number as text."""
        join = FanIn(
            self._count,
            lambda results, _: done({str(number): result for number, result in enumerate(results)}),
        )
        for number, each in enumerate(self.partitions):
            each.status(partial(join.answered, number))

    def _submit(self, command: Command, size: int, done: Answered, tries: int) -> None:
        def answered(outcome: Outcome, place: ResultPosition) -> None:
            if isinstance(outcome, Skipped) and tries:
                self._catch_up(partial(judged, outcome, place))
            else:
                done(outcome, place)

        def judged(outcome: Outcome, place: ResultPosition) -> None:
            # It had no effect, so it may be sent again. Whether its table is there, the catalog knows.
            if self._may_come(command):
                self._scheduler.call_later(_TRY_AGAIN_S, self._submit, command, size, done, tries - 1)
            else:
                done(outcome, place)

        self.partitions[self._home(command)].submit(command, size, answered)

    def _may_come(self, command: Command) -> bool:
        actions = command.actions if isinstance(command, Transact) else (command,)
        tables = [self._catalog.tables.get(getattr(action, "table", 0)) for action in actions]
        return all(table is not None and table.definition.status != "DELETING" for table in tables)

    def _defined(self, done: Answered, looks: int, outcome: Outcome, place: ResultPosition) -> None:
        """Answer a table command when it holds everywhere: who sent it may go on at once, as with one partition."""
        table = self._catalog.tables.get(outcome.definition.id) if isinstance(outcome, TableDefined) else None
        if table is None or table.definition.status == "ACTIVE" or not looks:
            done(outcome, place)
        else:
            self._scheduler.call_later(_LOOK_AGAIN_S, self._defined, done, looks - 1, outcome, place)

    def _subscribed(self, done: Answered, looks: int, outcome: Outcome, place: ResultPosition) -> None:
        """Answer a command about a subscription when everybody captures for it what is written from then on."""
        if not isinstance(outcome, Subscribed) or self._catalog.is_applied_everywhere(outcome.version):
            done(outcome, place)
        elif not looks:
            done(Failed(InternalServerError(_NOT_EVERYWHERE)), place)
        else:
            self._scheduler.call_later(_LOOK_AGAIN_S, self._subscribed, done, looks - 1, outcome, place)

    def _home(self, command: Command) -> int:
        match command:
            case Put() | Update() | Delete() | Check():
                return partition_of_key(command.table, command.pk, self._count)
            case Transact():
                return self._coordinator(command)
            case _:
                of_catalog = DefineTable | Settle | DefineSubscription | Checkpoint
                assert isinstance(command, of_catalog), "its owner alone submits it"
                return CATALOG

    def _coordinator(self, command: Transact) -> int:
        """By its token where it has one: so a token that is used for something else is noticed, whatever its keys."""
        if command.token is not None:
            return partition_of_key(0, command.token.encode(), self._count)
        first = command.actions[0]
        return partition_of_key(first.table, first.pk, self._count)

    def _spread_by(
        self,
        request: QueryRequest | ScanRequest,
        then: Callable[[int], None],
        done: Callable[[Page | RequestError, ResultPosition], None],
    ) -> None:
        """Go on with the id whose hashes tell where entries are: a global index's own; a local one's is its table's."""
        if request.index is None:
            then(request.table)
            return
        owner = self._owner_of(request.table, request.index)
        if owner is not None:
            then(owner)
            return

        def caught_up() -> None:
            found = self._owner_of(request.table, request.index or "")
            if found is not None:
                then(found)
            else:
                catalog = self._catalog
                last = Position(CATALOG, catalog.next_offset - 1, time_ms=catalog.log_time)
                done(ResourceNotFoundError(), last)

        # This node may not have heard of it yet; to guess where it is would be to find nothing there.
        self._catch_up(caught_up)

    def _owner_of(self, table_id: int, index_name: str) -> int | None:
        table = self._catalog.tables.get(table_id)
        index = None if table is None else table.indexes.get(index_name)
        if index is None:
            return None
        return index.definition.id if index.definition.kind == "GSI" else table_id

    def _split(
        self, keys: Sequence[EncodedKey], ask: Ask, done: Callable[[Any, ResultPosition], None]
    ) -> None:
        """Ask each partition for the keys that it has, and put what they answer into the order of `keys`."""
        places: dict[int, list[int]] = {}
        for place, (table, pk, _) in enumerate(keys):
            places.setdefault(partition_of_key(table, pk, self._count), []).append(place)
        if len(places) == 1:
            ask(next(iter(places)), keys, done)
            return

        def answered(results: list[Any], positions: list[ResultPosition]) -> None:
            error = first_error(results)
            done(error or _in_order(places.values(), results, len(keys)), joined(positions))

        join = FanIn(len(places), answered)
        for nth, (number, own) in enumerate(places.items()):
            ask(number, [keys[place] for place in own], partial(join.answered, nth))


def _in_order(places: Collection[Sequence[int]], results: Sequence[Sequence[Any]], count: int) -> list[Any]:
    found: list[Any] = [None] * count
    for own, result in zip(places, results, strict=True):
        for place, one in zip(own, result, strict=True):
            found[place] = one
    return found


def _conflict_in(items: Sequence[Found]) -> bool:
    return any(isinstance(item, Conflict) for item in items)
