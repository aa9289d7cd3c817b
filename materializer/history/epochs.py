"""The history of a partition: a sequence of epochs, each with a base and every version up to the next one's base.

    log      ├──────────────────────┼──────────────────┼───────────────────┼──────────►
    epochs   │ base, versions       │    not built     │ base, versions    │ base, versions: follows the log
             └ sealed                                  └ from a snapshot    └ from the end of the one before

An epoch ends when it has more than 50,000 versions and two for each item of its base, or where the next one begins. So
damage, a void command or a trim costs epochs and not the whole history, and the newest epoch can be built first, from a
snapshot. The others are built when a read needs them: from the nearest snapshot, or the end of the epoch before.

An epoch with an end is folded a little further, up to the decision of each transaction that was prepared before
(follower.py). While the base of the next one is copied, it follows the log, and so reads of the newest records go on.

An epoch is in the list only when its base is complete and durable. All of this is derived from the log, and deleted
if it is of another log or format.
"""

import logging
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any, Final

import orjson

from ...log.commands import Position
from ...log.log import ReadableLog
from ...model.errors import HorizonError
from ...model.lazy_dataclass import dataclass
from ...model.limits import limits_named
from ..disposer import stores_of
from ..fold.fold_record import LateSkipError, Void
from ..fold.state import PartitionState
from ..foundation import initial_state
from ..refold import FoldError, more_void
from ..snapshot import UnusableError
from ..snapshots import Snapshots
from .base import (
    CHECKPOINT,
    BaseStores,
    Portions,
    Source,
    copy_base,
    empty_base,
    epoch_base,
    snapshot_base,
    state_base,
)
from .checkpoint import Identity, identity
from .engine import DamagedHistoryError, Engine, FullDiskError, HistoryInUseError
from .epoch_storage import EpochFolder, EpochMemory, EpochStorage
from .follower import STEP_S, Clock, End, Follower
from .history import NotFoldedError, PartitionCut, TimeCut
from .version_history import VersionedState, VersionHistory

FORMAT: Final = 4
"""The format of the list, the rows and the versions. A history of another format is deleted and folded again."""

FLOOR_VERSIONS: Final = 50_000
"""The versions that an epoch may have in addition to twice its base: a small database has one epoch."""

_VERSIONS_PER_ITEM: Final = 2
_OPEN_EPOCHS: Final = 16  # of those that are not folded: each has open files, and indexes in memory

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Epoch:
    """An epoch whose base is complete.

    Attributes:
        number: The number of its storage.
        first: The offset of its first record.
        time_ms: The log time before it.
        items: The number of items and index entries in the base.
        void: The void commands with which it was folded.
        end: The end; None for the newest.
        last: The identity of the last record, when it was full and when it was sealed.
        folded_to: The offset after the last folded record, once the epoch is sealed.
        history: Its versions; None while the storage is closed.
        follower: Folds the epoch; None when it is sealed.
    """

    number: int
    first: int
    time_ms: int
    items: int
    void: frozenset[Void]
    end: End | None = None
    last: Identity = field(default_factory=list)
    folded_to: int | None = None
    engine: Engine | None = None
    history: VersionHistory | None = None
    follower: Follower | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the epoch's entry in the list."""
        return {
            "number": self.number,
            "first": self.first,
            "time_ms": self.time_ms,
            "items": self.items,
            "void": sorted(self.void, key=str),
            "end": None if self.end is None else list(self.end),
            "last": self.last,
            "folded_to": self.folded_to,
        }

    @classmethod
    def from_json(cls, entry: dict[str, Any]) -> "Epoch":
        """Return the epoch of an entry in the list."""
        void = frozenset((offset, index) for offset, index in entry.pop("void"))
        end = entry.pop("end")
        return cls(**entry, void=void, end=None if end is None else End(*end))


@dataclass(slots=True, eq=False)
class _Copy:
    """A base that is being copied.

    Attributes:
        end: The end of the epoch that it begins; None for the newest.
        snapshot: The offset of the snapshot that is copied, or None.
        epoch: The epoch whose end is copied, or None.
    """

    number: int
    first: int
    engine: Engine
    portions: Generator[None, None, PartitionState]
    end: End | None
    snapshot: int | None
    epoch: Epoch | None


class Epochs:
    """See the module.

    Args:
        storage: Where the epochs are.
        log: The log.
        partition: The partition.
        snapshots: The snapshots of the partition from which an epoch may begin; the log is then a HashedLog.
        floor: The versions that an epoch may have in addition to twice its base.
        clock: Measures the time of a step, in seconds.

    Attributes:
        history: The history. It can be read between two steps.
    """

    def __init__(
        self,
        storage: EpochStorage,
        log: ReadableLog,
        partition: int,
        snapshots: Snapshots | None = None,
        floor: float = FLOOR_VERSIONS,
        clock: Clock = time.monotonic,
    ) -> None:
        self._storage = storage
        self._log = log
        self._partition = partition
        self._snapshots = snapshots
        self._floor = floor
        self._clock = clock
        self._genesis = log.genesis(partition)
        self._begin = log.begin(partition)
        self._epochs: list[Epoch] = []
        self._idle: OrderedDict[int, Epoch] = OrderedDict()
        self._copies: list[_Copy] = []
        self._wanted: PartitionCut | None = None
        self._unusable: set[int] = set()
        self._turns = 0
        self._ended: Follower | None = None
        self._void: frozenset[Void] = frozenset()
        self._next_number = 1 + max(storage.numbers(), default=0)
        self.history = EpochHistory(self, partition)
        try:
            self._load()
        except FullDiskError:
            self._release_all()
            raise

    @property
    def state(self) -> PartitionState:
        """The state of the newest fold."""
        follower = self._newest_follower()
        return PartitionState() if follower is None else follower.state

    def step(self) -> bool:
        """Copy or fold for at most 5 ms; return whether there may be more to do.

        Raises:
            FoldError: The fold failed on a record that is not declared void.
            NewerVersionError: A later release wrote the log.
            LogError: The log cannot be read.
            FullDiskError: The disk is full. Call `abandon`, and open the history again when there is space.
        """
        if self._log.begin(self._partition) != self._begin:
            self._trim()
        self._close_idle()
        self._begin_copies()
        work: list[Callable[[], bool]] = [partial(self._copy, each) for each in self._copies]
        work += [partial(self._fold, each) for each in self._epochs if each.follower is not None]
        self._turns += 1
        has_more = any(work[(self._turns + nth) % len(work)]() for nth in range(len(work)))
        # The fold has looked at the log, so a trim since the last step is known only now.
        return has_more or self._log.begin(self._partition) != self._begin

    def catch_up(self) -> None:
        """Fold the log to its present end."""
        while self.step():
            pass

    def find_damage(self) -> bool:
        """Delete the epochs that a read may have found damaged; return whether there are any."""
        damaged = [each for each in self._epochs if each.engine is not None and _is_damaged(each.engine)]
        for epoch in damaged:
            self._drop(epoch, "it is damaged")
        return bool(damaged)

    def declare_void(self, void: Collection[Void]) -> None:
        """Delete the epochs in which one of these records and commands was not skipped."""
        self._declare_void(self._void.union(each for each in void if each[0] >= self._begin))

    def close(self) -> None:
        """Save a checkpoint of each epoch that is being folded, and release the storage."""
        self._discard_copies()
        for epoch in list(self._epochs):
            try:
                if epoch.follower is not None:
                    epoch.follower.close()
            except DamagedHistoryError as error:
                self._drop(epoch, str(error))
            except FullDiskError:  # the next start folds from the checkpoint before
                self._close(epoch)
            else:
                self._close(epoch)
        self._storage.close()

    def abandon(self) -> None:
        """Release the storage without a write, as if the process were killed."""
        self._release_all()
        self._storage.close()

    def _release_all(self) -> None:
        for copy in self._copies:
            copy.portions.close()
            _release(copy.engine)
        self._copies = []
        for epoch in self._epochs:
            if epoch.follower is not None:
                epoch.follower.abandon()
            self._close(epoch)

    # Beginning

    def _load(self) -> None:
        """Continue with the storage's content if it is of this log; otherwise begin again."""
        saved = _read_list(self._storage)
        if saved["of"] == self._identity():
            self._epochs = [Epoch.from_json(entry) for entry in saved["epochs"]]
        elif saved["of"]:
            logger.warning(
                "the history of partition %d is folded again: it is of another log or release",
                self._partition,
            )
        listed = {epoch.number for epoch in self._epochs}
        self._storage.remove([number for number in self._storage.numbers() if number not in listed])
        self._void = self._void.union(*(epoch.void for epoch in self._epochs))
        self._trim()
        for epoch in list(self._epochs):
            if epoch.folded_to is None:
                try:
                    epoch.engine = self._storage.open(epoch.number)
                    self._follow(epoch)
                except DamagedHistoryError as error:
                    self._drop(epoch, str(error))
        while self._epochs and not self._has(self._epochs[-1]):
            self._drop(self._epochs[-1], "the log has another record at its end")
        self._begin_copies()

    def _identity(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "log_id": self._genesis.log_id.hex(),
            "partition": self._partition,
            "partitions": self._genesis.partitions,
        }

    def _has(self, epoch: Epoch) -> bool:
        """Return whether the log has the last record of an epoch."""
        last = epoch.last
        if epoch.follower is not None:
            last = max(last, epoch.follower.last, key=lambda each: each[:1])
        if not last or last[0] < self._begin:
            return True
        if self._log.end(self._partition) <= last[0]:
            return False
        return last == identity(next(self._log.read(self._partition, last[0])))

    def _follow(self, epoch: Epoch) -> None:
        """Begin to fold an epoch, or continue at its checkpoint."""
        assert epoch.engine is not None, "its storage is open"
        epoch.follower = Follower(
            epoch.engine,
            self._log,
            self._partition,
            epoch.first,
            self._void,
            _VERSIONS_PER_ITEM * epoch.items + self._floor,
            self._clock,
        )
        epoch.follower.end = epoch.end
        epoch.follower.is_bounded = epoch.end is not None
        epoch.history = epoch.follower.history
        if epoch.end is not None:
            epoch.history.end_offset = epoch.end.offset

    def _write_list(self) -> None:
        entries = [epoch.to_json() for epoch in self._epochs]
        self._storage.write_list(orjson.dumps({"of": self._identity(), "epochs": entries}))

    # Folding

    def _fold(self, epoch: Epoch) -> bool:
        """Fold an epoch on. One that cannot be read, or written at its end, is deleted."""
        try:
            return self._fold_portion(epoch)
        except DamagedHistoryError as error:
            self._drop(epoch, str(error))
            return True

    def _fold_portion(self, epoch: Epoch) -> bool:
        follower = epoch.follower
        assert follower is not None, "the epoch is not sealed"
        was_following = follower.has_caught_up
        try:
            has_more = follower.step()
        except (FoldError, LateSkipError) as error:
            if isinstance(error.__cause__, DamagedHistoryError | FullDiskError):
                raise error.__cause__ from None  # the fold read its storage: neither the log nor the fold is at fault
            follower.abandon()
            self._follow(epoch)  # the failed fold left its state undefined
            self._declare_void(more_void(self._void, error, self._log, self._partition))
            return True
        except HorizonError:  # a trim removed the records that were next
            self._log.end(self._partition)  # the log is looked at again
            self._trim()
            return True
        if follower.is_full:
            epoch.end, epoch.last = follower.end_here(), follower.last
            follower.history.end_offset = epoch.end.offset
            follower.is_bounded = follower.is_bounded or not was_following
            self._write_list()
        self._hand_over()
        if follower.is_bounded and follower.is_complete:
            self._seal(epoch, follower)
            return True  # a base can be copied from it
        return has_more

    def _hand_over(self) -> None:
        """Let the newest epoch follow the log alone, if it has all records of the one before."""
        if len(self._epochs) > 1:
            older, newest = self._epochs[-2].follower, self._epochs[-1].follower
            if (
                older is not None
                and newest is not None
                and newest.state.next_offset >= older.state.next_offset
            ):
                older.is_bounded = True

    def _seal(self, epoch: Epoch, follower: Follower) -> None:
        follower.close()
        assert epoch.engine is not None
        epoch.engine.seal()
        epoch.folded_to, epoch.follower = follower.state.next_offset, None
        epoch.void, epoch.last = self._void, follower.last
        if epoch is self._epochs[-1]:
            self._ended = follower
        self._idle[epoch.number] = epoch
        self._write_list()

    # Bases

    def _begin_copies(self) -> None:
        if not any(copy.end is None for copy in self._copies) and (
            not self._epochs or self._epochs[-1].end is not None
        ):
            self._begin_copy(None, None)
        if self._wanted is not None and self._epochs and not any(copy.end for copy in self._copies):
            self._begin_wanted(self._wanted)

    def _begin_wanted(self, cut: PartitionCut) -> None:
        """Begin to copy the last base before a wanted cut. An epoch that has the cut and is folded grants the wish."""
        older = [each for each in self._epochs if not _is_after(each, cut)]
        is_folded = bool(older) and self._has_end(older[-1]) and not _ends_before(older[-1], cut)
        if is_folded or len(older) == len(self._epochs):
            self._wanted = None
        else:
            following = self._epochs[len(older)]
            self._begin_copy(cut, End(following.first, following.time_ms))

    def _begin_copy(self, cut: PartitionCut | None, end: End | None) -> None:
        """Begin to copy the last base before a cut, or before the end of the log."""
        older = [each for each in self._epochs if cut is None or not _is_after(each, cut)]
        if older and (older[-1].end is None or not self._has_end(older[-1])):
            return  # it is being folded
        first, epoch, source = self._begin, None, self._initial_source()
        if older:
            assert older[-1].end is not None
            first, epoch = older[-1].end.offset, older[-1]
            try:
                source = epoch_base(self._engine(epoch))
            except DamagedHistoryError as error:
                self._drop(epoch, str(error))
                return
        if end is not None and first >= end.offset:
            return  # it was built since the read
        is_followed = epoch is not None and epoch.follower is not None and not epoch.follower.is_bounded
        snapshot = None if is_followed else self._snapshot_between(first, cut)
        if snapshot is not None:
            first, epoch, source = snapshot + 1, None, self._snapshot_source(snapshot)
        number = self._next_number
        self._next_number += 1
        engine = self._storage.open(number)
        portions = copy_base(engine, first, source)
        self._copies.append(_Copy(number, first, engine, portions, end, snapshot, epoch))

    def _has_end(self, epoch: Epoch) -> bool:
        """Return whether an epoch with an end is folded up to it."""
        return epoch.follower is None or (
            epoch.end is not None and epoch.follower.state.next_offset >= epoch.end.offset
        )

    def _initial_source(self) -> Source:
        if not self._begin:
            return empty_base

        def portions(stores: BaseStores) -> Portions:
            return (yield from state_base(initial_state(self._log, self._partition))(stores))

        return portions

    def _snapshot_between(self, first: int, cut: PartitionCut | None) -> int | None:
        """Return the offset of the newest snapshot that begins an epoch after `first` and at or before a cut."""
        heads = [] if self._snapshots is None else self._snapshots.heads()
        for head in heads:
            if isinstance(cut, TimeCut):
                is_before = head.time_ms <= cut.time_ms
            else:
                is_before = cut is None or head.offset < cut.offset
            if is_before and first <= head.offset and head.offset not in self._unusable:
                return head.offset
        return None

    def _snapshot_source(self, offset: int) -> Source:
        snapshots, log = self._snapshots, self._log
        assert snapshots is not None, "it has the snapshot"

        def portions(stores: BaseStores) -> Portions:
            hashed: Any = log
            with snapshots.open_usable(hashed, offset) as snapshot:
                last = identity(next(log.read(self._partition, offset)))
                return (yield from snapshot_base(snapshot, last)(stores))

        return portions

    def _copy(self, copy: _Copy) -> bool:
        until = self._clock() + STEP_S
        try:
            while self._clock() < until:
                next(copy.portions)
        except StopIteration as end:
            self._add(copy, end.value)
        except DamagedHistoryError as error:
            self._discard_copies()
            if copy.epoch is not None and copy.epoch.engine is not None and _is_damaged(copy.epoch.engine):
                self._drop(copy.epoch, str(error))
        except FullDiskError:  # not a fault of the snapshot
            raise
        except HorizonError:  # a trim removed the last record of the snapshot: the next step finds it
            self._discard(copy)
        except Exception as error:
            if copy.snapshot is None or not isinstance(error, UnusableError | OSError):
                self._discard(copy)  # its generator has ended: the next step begins another copy
                raise
            self._skip_snapshot(copy, error)
        return True

    def _add(self, copy: _Copy, state: PartitionState) -> None:
        """Add the epoch whose base is complete."""
        void = frozenset(each for each in self._void if each[0] < copy.first)
        if not void <= set(state.voided):
            assert copy.snapshot is not None, "the other bases were folded with all void commands"
            self._skip_snapshot(copy, UnusableError("a command in it was declared void later"))
            return
        self._copies.remove(copy)
        self._declare_void(self._void.union(state.voided))
        items = sum(store.count for store in stores_of(state))
        epoch = Epoch(
            copy.number, copy.first, state.log_time, items, self._void, copy.end, engine=copy.engine
        )
        try:
            self._follow(epoch)
        except DamagedHistoryError as error:
            logger.warning("a new epoch of partition %d is copied again: %s", self._partition, error)
            self._close(epoch)
            self._storage.remove([epoch.number])
            return
        if copy.epoch is not None and self._ended is not None and epoch.follower is not None:
            epoch.follower.inherit(self._ended)
        self._ended = None
        self._epochs.append(epoch)
        self._epochs.sort(key=lambda each: each.first)
        self._write_list()

    def _skip_snapshot(self, copy: _Copy, error: Exception) -> None:
        assert copy.snapshot is not None, "another base is no snapshot"
        assert self._snapshots is not None, "it has the snapshot"
        logger.warning(
            "skipping snapshot %s: %s; the history begins with an older one, or with the log",
            self._snapshots.path(copy.snapshot),
            error,
        )
        self._unusable.add(copy.snapshot)
        self._discard(copy)

    def _discard(self, copy: _Copy) -> None:
        self._copies.remove(copy)
        copy.portions.close()
        _release(copy.engine)
        self._storage.remove([copy.number])

    def _discard_copies(self) -> None:
        for copy in list(self._copies):
            self._discard(copy)

    # Deleting

    def _drop(self, epoch: Epoch, reason: str) -> None:
        """Delete an epoch. It is folded again when it is the newest, or when a read needs it."""
        positions = (
            f"from {epoch.first}" if epoch.end is None else f"from {epoch.first} to {epoch.end.offset - 1}"
        )
        logger.warning(
            "the history of partition %d is folded again %s: %s", self._partition, positions, reason
        )
        self._discard_copies()
        self._epochs.remove(epoch)
        try:
            self._write_list()
        finally:
            if epoch.follower is not None:
                epoch.follower.abandon()
            self._close(epoch)
        self._storage.remove([epoch.number])

    def _declare_void(self, void: frozenset[Void]) -> None:
        """Delete the epochs that were folded without one of these void commands."""
        if void == self._void:
            return
        self._void = void
        for epoch in list(self._epochs):
            folded_to = epoch.folded_to if epoch.follower is None else epoch.follower.state.next_offset
            assert folded_to is not None, "an epoch without a follower is sealed"
            if any(offset < folded_to for offset, _ in void - epoch.void):
                self._drop(epoch, "a command was declared void")
            elif epoch.follower is not None:
                epoch.void = epoch.follower.void = void

    def _trim(self) -> None:
        """Delete the epochs that begin before the log does."""
        self._begin = self._log.begin(self._partition)
        self._wanted = None  # it may be removed; a read that waits repeats it
        for epoch in [each for each in self._epochs if each.first < self._begin]:
            self._drop(epoch, "the log was trimmed")
        for copy in [each for each in self._copies if each.first < self._begin]:
            self._discard(copy)

    def _close(self, epoch: Epoch) -> None:
        self._idle.pop(epoch.number, None)
        epoch.history = epoch.follower = None
        if epoch.engine is not None:
            _release(epoch.engine)
            epoch.engine = None

    def _close_idle(self) -> None:
        while len(self._idle) > _OPEN_EPOCHS and not self._copies:
            self._close(next(iter(self._idle.values())))

    # Reading

    @property
    def horizon(self) -> int:
        """The offset of the log's first record."""
        return self._begin

    def all(self) -> Sequence[Epoch]:
        """Return all epochs, the oldest first."""
        return self._epochs

    def want(self, cut: PartitionCut) -> None:
        """Build the epoch of a cut, and those from the nearest base up to it."""
        self._wanted = cut

    def opened(self, epoch: Epoch) -> VersionHistory:
        """Return the versions of an epoch.

        Raises:
            DamagedHistoryError: Its storage cannot be read.
        """
        if epoch.history is None:
            engine = self._engine(epoch)
            assert epoch.end is not None, "it is sealed"
            assert epoch.folded_to is not None, "it is sealed"
            history = VersionHistory(engine, self._partition, epoch.first)
            history.end_offset = epoch.end.offset
            history.next_offset = epoch.folded_to
            history.log_time = history.closed_before = epoch.end.time_ms
            history.limits = limits_named(self._genesis.limits)
            epoch.history = history
        if epoch.follower is None:
            self._idle.move_to_end(epoch.number)
        return epoch.history

    def _engine(self, epoch: Epoch) -> Engine:
        if epoch.engine is None:
            epoch.engine = self._storage.open(epoch.number)
            self._idle[epoch.number] = epoch
        if epoch.engine.row(CHECKPOINT) is None:
            raise DamagedHistoryError("it has no checkpoint")
        return epoch.engine

    def _newest_follower(self) -> Follower | None:
        followers = [each.follower for each in self._epochs[-2:] if each.follower is not None]
        return max(followers, key=lambda each: each.state.next_offset, default=None)

    @property
    def newest(self) -> VersionHistory | None:
        """The versions of the epoch that follows the log; None before its base is complete."""
        follower = self._newest_follower()
        return None if follower is None else follower.history


class EpochHistory:
    """The history of a partition that has epochs. Each cut is read in one of them; see SpannedHistory."""

    def __init__(self, epochs: Epochs, partition: int) -> None:
        self._epochs = epochs
        self._partition = partition

    @property
    def horizon(self) -> Position:
        """The oldest position that can be read."""
        return Position(self._partition, self._epochs.horizon)

    @property
    def position(self) -> Position:
        """The newest position that can be read, with its log time."""
        newest = self._epochs.newest
        if newest is None:
            return Position(self._partition, self.horizon.offset - 1, time_ms=0)
        return Position(self._partition, newest.next_offset - 1, time_ms=newest.log_time)

    def is_closed(self, time_ms: int) -> bool:
        """Return whether the state at a time is final."""
        newest = self._epochs.newest
        return newest is not None and time_ms < newest.closed_before

    def at(self, cut: PartitionCut) -> VersionedState:
        """Return the state at a cut.

        Raises:
            HorizonError: The cut is older than the horizon.
            NotFoldedError: The cut is not folded yet, or is a time that is not closed.
        """
        epoch = (
            self._at_time(cut.time_ms) if isinstance(cut, TimeCut) else self._at_position(cut, is_state=True)
        )
        return self._epochs.opened(epoch).at(cut, self.horizon.offset)

    def epoch_at(self, offset: int) -> VersionHistory:
        """Return the epoch of the record at an offset, with all its records.

        Raises:
            HorizonError: The record is older than the horizon.
            NotFoldedError: The epoch is not folded yet. It will be.
        """
        epoch = self._at_position(Position(self._partition, offset))
        end, follower = epoch.end, epoch.follower
        if end is not None and follower is not None and follower.state.next_offset < end.offset:
            raise NotFoldedError(f"the epoch of position {offset} is not folded yet")
        return self._epochs.opened(epoch)

    def _at_position(self, cut: Position, *, is_state: bool = False) -> Epoch:
        """Return the epoch that has the record of a position; for its state, one with this base will do."""
        offset, epochs = cut.offset, self._epochs.all()
        if offset < self._epochs.horizon:
            raise HorizonError(f"the oldest position that can be read is {self.horizon.text()}")
        older = [each for each in epochs if each.first <= offset]
        for epoch in _followed(older):
            if offset < _folded_to(epoch):
                return epoch
        if is_state and cut.index is None:
            for epoch in epochs:
                if epoch.first == offset + 1:
                    return epoch
        if epochs and (not older or _ends_before(older[-1], cut)):
            self._epochs.want(cut)
        raise NotFoldedError(f"position {cut.text()} is not folded yet")

    def _at_time(self, time_ms: int) -> Epoch:
        if not self.is_closed(time_ms):
            raise NotFoldedError(f"the state at {time_ms} ms is not final yet")
        epochs = self._epochs.all()
        older = [each for each in epochs if each.time_ms <= time_ms]
        if not older and epochs[0].first == self._epochs.horizon:
            raise HorizonError(f"the oldest position that can be read is {self.horizon.text()}")
        for epoch in _followed(older):
            if time_ms < _closed_before(epoch):
                return epoch
        if not older or _ends_before(older[-1], TimeCut(time_ms)):
            self._epochs.want(TimeCut(time_ms))
        raise NotFoldedError(f"the state at {time_ms} ms is not folded yet")


def open_history(
    folder: Path,
    log: ReadableLog,
    partition: int,
    snapshots: Snapshots | None = None,
    *,
    floor: float = FLOOR_VERSIONS,
    clock: Clock = time.monotonic,
) -> Epochs:
    """Open the history of a partition in `folder`, or begin it. No other process may have it open.

    Raises:
        HistoryInUseError: Another process has opened the history.
        FullDiskError: The disk is full.
    """
    with ExitStack() as stack:
        storage = EpochFolder(folder / f"{partition}")
        stack.callback(storage.close)
        epochs = Epochs(storage, log, partition, snapshots, floor, clock)
        stack.pop_all()
    return epochs


def memory_history(
    log: ReadableLog, partition: int, *, floor: float = math.inf, clock: Clock = time.monotonic
) -> Epochs:
    """Begin a history in memory, of a log in memory: one epoch, which shares the items with the log."""
    return Epochs(EpochMemory(), log, partition, None, floor, clock)


def delete_epochs_before(folder: Path, horizons: Sequence[int]) -> None:
    """Delete the epochs in `folder` that begin before the horizons of the partitions, where no process has them open.

    A process that has a history open deletes them by itself after the trim.
    """
    for partition, horizon in enumerate(horizons):
        if not (folder / f"{partition}").is_dir():
            continue
        with suppress(HistoryInUseError):
            storage = EpochFolder(folder / f"{partition}")
            saved = _read_list(storage)
            is_readable = saved["of"].get("format") == FORMAT
            kept = [each for each in saved["epochs"] if is_readable and each["first"] >= horizon]
            storage.write_list(orjson.dumps(saved | {"epochs": kept}))
            numbers = {each["number"] for each in kept}
            storage.remove([number for number in storage.numbers() if number not in numbers])
            storage.close()


def _read_list(storage: EpochStorage) -> dict[str, Any]:
    """Return the list of the epochs; an empty one if there is none."""
    text = storage.read_list()
    saved: dict[str, Any] = {"of": {}, "epochs": []} if text is None else orjson.loads(text)
    return saved


def _followed(older: list[Epoch]) -> Iterator[Epoch]:
    """Yield the last epoch, and the one before if it goes on to follow the log until the last one has caught up."""
    if older:
        yield older[-1]
    if len(older) > 1 and older[-2].end is not None and older[-2].end.offset == older[-1].first:
        yield older[-2]


def _folded_to(epoch: Epoch) -> int:
    """Return the offset after the last record that an epoch has."""
    if epoch.follower is not None:
        return epoch.follower.state.next_offset
    assert epoch.folded_to is not None, "an epoch without a follower is sealed"
    return epoch.folded_to


def _closed_before(epoch: Epoch) -> int:
    """Return the time before which an epoch has everything that counts."""
    if epoch.follower is not None:
        return epoch.follower.history.closed_before
    assert epoch.end is not None, "an epoch without a follower is sealed"
    return epoch.end.time_ms


def _ends_before(epoch: Epoch, cut: PartitionCut) -> bool:
    """Return whether a cut is at the end of an epoch or after it."""
    if epoch.end is None:
        return False
    if isinstance(cut, TimeCut):
        return cut.time_ms >= epoch.end.time_ms
    return cut.offset >= epoch.end.offset


def _is_after(epoch: Epoch, cut: PartitionCut) -> bool:
    """Return whether an epoch begins after a cut."""
    if isinstance(cut, TimeCut):
        return epoch.time_ms > cut.time_ms
    return epoch.first > cut.offset


def _release(engine: Engine) -> None:
    """Close a storage. All that has to be durable was synced before, and the log has the rest."""
    with suppress(DamagedHistoryError, FullDiskError):
        engine.close()


def _is_damaged(engine: Engine) -> bool:
    """Read a storage whole; return whether that fails."""
    try:
        for cursor in (engine.versions(), engine.rows()):
            at = cursor.seek(b"")
            while at is not None:
                cursor.value()
                at = cursor.next()
        return engine.row(CHECKPOINT) is None
    except DamagedHistoryError:
        return True
