"""Routes a request to its partition, or splits it among several and merges their answers.

    write, get, query     ──► the partition of the key
    batches of keys       ──► split by partition ──► merged in the order of the request
    scan                  ──► one partition after another, within one page (routed_scan.py)
    isolated reads        ──► two reads of each partition (isolated_read.py)
    transaction           ──► the partition that coordinates it
    table command         ──► the catalog

A partition may be in this process or on another node. When it moves, its entry in `partitions` is replaced. If all are
in this process, on a log to which no other process appends, isolated reads and pages are read at one instant
(instant_reads.py).
"""

from collections.abc import Callable, Sequence
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
from ...materializer.partition import (
    EncodedKey,
    OnFound,
    OnItem,
    OnItems,
    OnOutcome,
    OnPage,
    OnReached,
    OnStatus,
    Partition,
    QueryRequest,
    ResultPosition,
    ScanRequest,
    Since,
)
from ...materializer.worker import Scheduler
from ...model.errors import InternalServerError, ResourceNotFoundError
from ...model.slots import partition_of_key
from ...model.tables import TableDefinition
from .fan_in import FanIn, first_error, in_order, joined
from .instant_reads import InstantReads
from .isolated_read import IsolatedRead
from .routed_scan import RoutedScan, partitions_of

# Reads the keys of one partition.
ReadKeys: TypeAlias = Callable[[int, Sequence[EncodedKey], Callable[[Any, ResultPosition], None]], None]

CATALOG: Final = 0

# A write that reaches its partition before the table's definition does is appended again.
_RETRIES: Final = 50
_RETRY_S: Final = 0.02

# A table command is answered when all partitions have applied it, or after two seconds.
_POLLS: Final = 2000
_POLL_S: Final = 0.001
_NOT_APPLIED: Final = "The subscription was created, but some partitions may not have applied it yet."


class Router:
    """A `Partition` that consists of all partitions.

    Attributes:
        partitions: The partitions by id. Entries may be replaced at any moment.
    """

    def __init__(
        self,
        partitions: Sequence[Partition],
        catalog: PartitionState,
        scheduler: Scheduler,
        *,
        catch_up: Callable[[Callable[[], None]], None] = lambda done: done(),
        instant: InstantReads | None = None,
        lags: bool = False,
    ) -> None:
        """Route by the tables of the state `catalog`.

        Args:
            catch_up: Folds the catalog's log to the end, and calls back.
            instant: Reads all partitions at one instant; None if another process may append to the log.
            lags: Whether pages that need not be current are read from each partition by itself, which delays them.
        """
        self.partitions = partitions
        self._count = len(partitions)
        self._catalog = catalog
        self._scheduler = scheduler
        self._catch_up = catch_up
        self._instant = instant
        self._instant_of_any = None if lags else instant  # of pages that need not be current

    def submit(self, command: Command, size: int, done: OnOutcome) -> None:
        if type(command) is DefineTable and not command.settle:
            done = partial(self._defined, done, _POLLS)
        elif type(command) is DefineSubscription:
            done = partial(self._subscribed, done, _POLLS)
        self._submit(command, size, done, _RETRIES)

    def get(self, table: int, pk: bytes, sk: bytes, consistent: bool, done: OnItem) -> None:
        self.partitions[partition_of_key(table, pk, self._count)].get(table, pk, sk, consistent, done)

    def get_all(self, keys: Sequence[EncodedKey], consistent: bool, done: OnItems) -> None:
        """Read items; the items of one partition at one position of its log."""
        self._split(
            keys,
            lambda partition_id, own, answer: self.partitions[partition_id].get_all(own, consistent, answer),
            done,
        )

    def get_isolated(self, keys: Sequence[EncodedKey], since: Since, done: OnFound) -> None:
        """Read items as all of them were at one moment."""
        assert since is None, "the router chooses the positions"
        if self._instant is not None:
            self._instant.get_all(keys, done)
        else:
            IsolatedRead(self.partitions, keys, self._parts(keys), self._scheduler, done).attempt()

    def query(self, request: QueryRequest, done: OnPage) -> None:
        def query(owner: int) -> None:
            partition_id = partition_of_key(owner, request.pk, self._count)
            instant = self._instant_for(request)
            if instant is not None:
                instant.read_page(request, (partition_id,), done)
            else:
                self.partitions[partition_id].query(request, done)

        self._with_owner(request, query, done)

    def scan(self, request: ScanRequest, done: OnPage) -> None:
        """Read a page in hash order; of a local index, partition after partition."""
        self._with_owner(request, lambda owner: self._scan(request, owner, done), done)

    def _scan(self, request: ScanRequest, owner: int, done: OnPage) -> None:
        is_local = request.index is not None and owner == request.table
        selected = partitions_of(request, owner, is_local=is_local, partitions=self._count)
        instant = self._instant_for(request)
        if instant is not None:
            instant.read_page(request, selected, done)
        elif len(selected) == 1:
            self.partitions[selected[0]].scan(request, done)
        else:
            room = self._catalog.limits.page_bytes
            RoutedScan(self.partitions, request, selected, room, self._scheduler, done).scan_next()

    def _instant_for(self, request: QueryRequest | ScanRequest) -> InstantReads | None:
        return self._instant if request.consistent or request.fresh else self._instant_of_any

    def reach(self, position: ResultPosition, done: OnReached) -> None:
        """Wait for a position, or for all positions of a cut."""
        wanted = position.positions if isinstance(position, Cut) else (position,)
        fan_in = FanIn(len(wanted), lambda results, _: done(first_error(results)))
        for index, each in enumerate(wanted):
            self.partitions[each.partition].reach(each, partial(fan_in.add, index))

    def status(self, table: int | None, done: OnStatus) -> None:
        """Return the status of each partition, or its RequestError, by its id as text."""
        fan_in = FanIn(
            self._count,
            lambda results, _: done({str(each): result for each, result in enumerate(results)}),
        )
        for partition_id, partition in enumerate(self.partitions):
            partition.status(table, partial(fan_in.add, partition_id))

    def _submit(self, command: Command, size: int, done: OnOutcome, retries: int) -> None:
        def on_outcome(outcome: Outcome, position: ResultPosition) -> None:
            if isinstance(outcome, Skipped) and retries:
                self._catch_up(partial(on_skipped, outcome, position))
            else:
                done(outcome, position)

        def on_skipped(outcome: Outcome, position: ResultPosition) -> None:
            # The command had no effect, so it may be sent again.
            if self._has_tables(command):
                self._scheduler.call_later(_RETRY_S, self._submit, command, size, done, retries - 1)
            else:
                done(outcome, position)

        self.partitions[self._home(command)].submit(command, size, on_outcome)

    def _has_tables(self, command: Command) -> bool:
        """Return whether the catalog has the command's tables, so that its partition will have them, too."""
        actions = command.actions if isinstance(command, Transact) else (command,)
        tables = [self._catalog.tables.get(getattr(action, "table", 0)) for action in actions]
        return all(table is not None and table.definition.status != "DELETING" for table in tables)

    def _defined(self, done: OnOutcome, polls: int, outcome: Outcome, position: ResultPosition) -> None:
        """Answer a table command when all partitions have applied it: its client may then use the table at once."""
        table = self._catalog.tables.get(outcome.definition.id) if isinstance(outcome, TableDefined) else None
        if table is None or not polls or _is_settled(table.definition):
            done(outcome, position)
        else:
            self._scheduler.call_later(_POLL_S, self._defined, done, polls - 1, outcome, position)

    def _subscribed(self, done: OnOutcome, polls: int, outcome: Outcome, position: ResultPosition) -> None:
        """Answer a command about a subscription when all partitions capture later changes for it."""
        if not isinstance(outcome, Subscribed) or self._catalog.is_applied_everywhere(outcome.version):
            done(outcome, position)
        elif not polls:
            done(Failed(InternalServerError(_NOT_APPLIED)), position)
        else:
            self._scheduler.call_later(_POLL_S, self._subscribed, done, polls - 1, outcome, position)

    def _home(self, command: Command) -> int:
        match command:
            case Put() | Update() | Delete() | Check():
                return partition_of_key(command.table, command.pk, self._count)
            case Transact():
                return self._coordinator(command)
            case _:
                of_catalog = DefineTable | Settle | DefineSubscription | Checkpoint
                assert isinstance(command, of_catalog), "only owners submit other commands"
                return CATALOG

    def _coordinator(self, command: Transact) -> int:
        """Return the coordinating partition: that of its token, so that every second use of the token is noticed."""
        if command.token is not None:
            return partition_of_key(0, command.token.encode(), self._count)
        first = command.actions[0]
        return partition_of_key(first.table, first.pk, self._count)

    def _with_owner(
        self, request: QueryRequest | ScanRequest, callback: Callable[[int], None], done: OnPage
    ) -> None:
        """Call back with the id by whose hashes the entries are partitioned: the global index's, else the table's."""
        if request.index is None:
            callback(request.table)
            return
        owner = self._owner_of(request.table, request.index)
        if owner is not None:
            callback(owner)
            return

        def caught_up() -> None:
            found = self._owner_of(request.table, request.index or "")
            if found is not None:
                callback(found)
            else:
                catalog = self._catalog
                last = Position(CATALOG, catalog.next_offset - 1, time_ms=catalog.log_time)
                done(ResourceNotFoundError(), last)

        # The catalog of this node may be behind. A guess of the owner would read the wrong partitions.
        self._catch_up(caught_up)

    def _owner_of(self, table_id: int, index_name: str) -> int | None:
        table = self._catalog.tables.get(table_id)
        index = None if table is None else table.indexes.get(index_name)
        if index is None:
            return None
        return index.definition.id if index.definition.kind == "GSI" else table_id

    def _split(
        self, keys: Sequence[EncodedKey], read: ReadKeys, done: Callable[[Any, ResultPosition], None]
    ) -> None:
        """Read the keys of each partition, and merge the results in the order of `keys`."""
        parts = self._parts(keys)
        if len(parts) == 1:
            read(next(iter(parts)), keys, done)
            return

        def merge(results: list[Any], positions: list[ResultPosition]) -> None:
            error = first_error(results)
            done(error or in_order(parts.values(), results), joined(positions))

        fan_in = FanIn(len(parts), merge)
        for nth, (partition_id, own) in enumerate(parts.items()):
            read(partition_id, [keys[index] for index in own], partial(fan_in.add, nth))

    def _parts(self, keys: Sequence[EncodedKey]) -> dict[int, list[int]]:
        """Return the indexes of the keys, by partition."""
        parts: dict[int, list[int]] = {}
        for index, (table, pk, _) in enumerate(keys):
            parts.setdefault(partition_of_key(table, pk, self._count), []).append(index)
        return parts


def _is_settled(definition: TableDefinition) -> bool:
    """Return whether a table command is complete. That of a restore is: the items follow."""
    return definition.status == "ACTIVE" or definition.is_restoring
