"""One transaction in the log: its actions, and its steps in every partition that takes part.

    all keys in one partition    Transact
    keys in several              Transact ──► Prepare ──► Vote ──► Commit or Decide ──► Decided ──► the outcome

Each message is a Relay in the log of its receiver, with the number of the transaction at its coordinator. A part of the
log is folded in each partition, from the newest snapshot before the transaction: only the fold has outcomes and images,
and the transactions that held a key.
"""

from collections.abc import Iterable, Iterator
from dataclasses import field, replace
from typing import Any, Final, TypeAlias

from ...log.commands import (
    Abandon,
    Command,
    Commit,
    Decide,
    Decided,
    Entry,
    Position,
    Prepare,
    Record,
    Relay,
    Transact,
    Vote,
)
from ...materializer.fold.outcomes import (
    Applied,
    MessageFolded,
    Outcome,
    Transacted,
    TransactionRefused,
    TransactionStarted,
)
from ...materializer.fold.transactions.state import TransactionId, key_of
from ...materializer.fold.transactions.verdicts import CONFLICT
from ...materializer.refold import fold_record
from ...model.errors import TransactionCanceledError
from ...model.lazy_dataclass import dataclass
from ...model.slots import partition_of_key
from .errors import CommandError, ExitCode
from .log_history import (
    HistoryRow,
    LogHistory,
    cancellation_of,
    context_of,
    read_position,
    state_before,
    void_in,
)
from .log_location import LogSource, SourceLog, check_position
from .output import time_text

_Place: TypeAlias = tuple[int, int, int]  # partition, offset and index of a command
_Message: TypeAlias = Prepare | Vote | Commit | Decide | Decided

_TIMES: Final = ("begun", "decided", "ended")
_STEPS: Final = {Prepare: "prepare", Vote: "vote", Commit: "commit", Decide: "abort", Decided: "confirm"}


def place_of(log: SourceLog, text: str) -> Position:
    """Return the position of the transaction that a position belongs to: that of its start, or of one of its messages.

    A footer has one position for each partition that took part; the first that is known counts.

    Raises:
        CommandError: `text` is no position of a transaction in this log.
    """
    for part in text.split(","):
        position = read_position(part, log.partitions)
        check_position(log, position)
        found = [
            place
            for index, command in enumerate(_entry(log, position).commands)
            if position.index in (None, index)
            and (place := _transact_of(log, replace(position, index=index), command)) is not None
        ]
        if len(set(found)) > 1:
            places = ", ".join(place.text(log.partitions) for place in found)
            raise CommandError(f"{part} has several transactions: give one of {places}", ExitCode.USAGE)
        if found:
            return found[0]
    shown = text.removeprefix("@")
    raise CommandError(
        f"@{shown} is not part of a transaction: `foldb log cat --from {shown}` prints its command",
        ExitCode.NOT_FOUND,
    )


def places_of_token(log: SourceLog, token: str) -> list[Position]:
    """Return the positions of the transactions with a ClientRequestToken, the oldest first.

    Raises:
        CommandError: No transaction in the log has the token.
    """
    # A transaction with a token begins where the token is kept (server/routing/router.py).
    partition = partition_of_key(0, token.encode(), log.partitions)
    found = [
        Position(partition, record.offset, index)
        for record, index, command in _commands(log, partition, log.begin(partition))
        if isinstance(command, Transact) and command.token == token
    ]
    if not found:
        raise CommandError(
            f"no transaction has the token `{token}`; a position is written as 10482.3 or 2:10482.3",
            ExitCode.NOT_FOUND,
        )
    return found


def transaction_row(source: LogSource, log: SourceLog, position: Position, *, is_typed: bool) -> HistoryRow:
    """Return the transaction that begins at a position, with its `actions` and its `steps` in the order of log time."""
    return _Transaction(source, log, position, is_typed=is_typed).row()


@dataclass(slots=True)
class _Action:
    """An action: its partition, the write that applied it, and the place where it was judged, if that is known."""

    partition: int
    row: HistoryRow
    judged_at: Position | None = None
    applied: HistoryRow = field(default_factory=dict)


class _Transaction:
    """A transaction, read from the log of its coordinator, and from those of its participants."""

    def __init__(self, source: LogSource, log: SourceLog, position: Position, *, is_typed: bool) -> None:
        self._source = source
        self._log = log
        self._position = position
        self._is_typed = is_typed
        command = _entry(log, position).commands[position.index or 0]
        assert isinstance(command, Transact), "the position is that of a Transact"
        self._command = command
        self._number: int | None = None
        self._outcome: Outcome | None = None
        self._failure: HistoryRow = {}
        self._times: dict[str, int] = {}  # log times, in milliseconds
        self._steps: list[tuple[int, HistoryRow]] = []
        self._prepared: dict[int, Position] = {}  # by participant, the command that sent its vote
        self._actions: list[_Action] = []

    def row(self) -> HistoryRow:
        self._read_coordinator()
        if self._number is not None:
            for partition in sorted({each.partition for each in self._actions} - {self._position.partition}):
                self._read_participant(partition)
        text = self._position.text(self._log.partitions)
        actions = [self._action_row(nth, each) for nth, each in enumerate(self._actions)]
        head: HistoryRow = {"transaction": text, "outcome": self._word()} | self._failure
        head |= {name: time_text(self._times[name]) for name in _TIMES if name in self._times}
        if "ended" in self._times:
            head["took_ms"] = self._times["ended"] - self._times["begun"]
        token = {} if self._command.token is None else {"token": self._command.token}
        steps = [step for _, step in sorted(self._steps, key=lambda each: each[0])]
        return head | token | context_of(self._command) | {"actions": actions, "steps": steps}

    def _word(self) -> str:
        match self._outcome:
            case Transacted(replayed=True):
                return "replayed"
            case Transacted():
                return "applied"
            case TransactionRefused():
                return "cancelled"
            case TransactionStarted():
                return "decided" if "decided" in self._times else "undecided"
        return str(self._failure["outcome"])

    # The logs

    def _read_coordinator(self) -> None:
        position = self._position
        history = self._history(position)
        state = history.states[position.partition]
        for record in self._log.read(position.partition, state.next_offset):
            pairs = history.fold(record)
            for index, (command, outcome) in enumerate(pairs):
                at = Position(record.partition, record.offset, index)
                if at == position:
                    self._begin(history, outcome)
                elif self._is_ours(at.partition, command):
                    self._step(history, at, command, outcome)
                if isinstance(outcome, MessageFolded):
                    resolved = [each for each in outcome.resolved if each.transaction_number == self._number]
                    self._outcome = resolved[0].outcome if resolved else self._outcome
                    self._times |= {"ended": state.log_time} if resolved else {}
            if record.offset < position.offset:
                continue
            under_way = None if self._number is None else state.transactions.under_way.get(self._number)
            if "decided" not in self._times and (under_way is None or under_way.commit is not None):
                self._times["decided"] = state.log_time
            if under_way is None:
                break

    def _begin(self, history: LogHistory, outcome: Outcome) -> None:
        state = history.states[self._position.partition]
        self._times["begun"] = state.log_time
        self._outcome = outcome
        count = self._log.partitions
        for nth, action in enumerate(self._command.actions):
            partition = partition_of_key(action.table, action.pk, count)
            each = _Action(partition, history.action_row(action))
            if partition == self._position.partition:
                each.judged_at = self._position
            if isinstance(outcome, Transacted) and not outcome.replayed:
                each.applied = self._applied(history, self._position, outcome.actions[nth])
            self._actions.append(each)
        if isinstance(outcome, TransactionStarted):
            self._number = outcome.transaction_number
            return
        self._times["decided"] = self._times["ended"] = self._times["begun"]
        if not isinstance(outcome, Transacted | TransactionRefused):
            self._failure = history.outcome_row(outcome)

    def _read_participant(self, partition: int) -> None:
        """Fold the records of a participant from the Prepare to the decision."""
        prepare = self._prepared.get(partition) or _prepare_of(self._log, partition, self._position)
        if prepare is None:
            return
        history = self._history(prepare)
        state = history.states[partition]
        for record in self._log.read(partition, state.next_offset):
            is_decided = False
            for index, (command, outcome) in enumerate(history.fold(record)):
                if self._is_ours(partition, command):
                    at = Position(partition, record.offset, index)
                    self._step(history, at, command, outcome)
                    is_decided = is_decided or (
                        isinstance(command, Relay) and isinstance(command.message, Commit | Decide)
                    )
            if is_decided:
                return
            held = (self._position.partition, self._number) in state.transactions.prepared
            if record.offset >= prepare.offset and not held:
                return

    def _history(self, position: Position) -> LogHistory:
        """Return a history that begins with the newest snapshot before a position, in its partition."""
        begin = {position.partition: state_before(self._log, self._source.folder, position)}
        return LogHistory(self._log, typed=self._is_typed, begin=begin)

    def _is_ours(self, partition: int, command: Command) -> bool:
        """Return whether a command of a partition's log is a step of this transaction."""
        if self._number is None:
            return False
        if isinstance(command, Abandon):
            return partition == self._position.partition and command.transaction_number == self._number
        if not isinstance(command, Relay) or not isinstance(command.message, _Message):
            return False
        coordinator = partition if isinstance(command.message, Vote | Decided) else command.sender
        return (coordinator, command.message.transaction_number) == (self._position.partition, self._number)

    def _step(self, history: LogHistory, at: Position, command: Command, outcome: Outcome) -> None:
        time_ms = history.states[at.partition].log_time
        row: HistoryRow = {
            "position": at.text(self._log.partitions),
            "time": time_text(time_ms),
            "partition": at.partition,
        }
        if isinstance(command, Abandon):
            self._steps.append((time_ms, row | {"step": "time out"}))
            return
        assert isinstance(command, Relay), "the steps are messages and the Abandon"
        message = command.message
        row["step"] = _STEPS[type(message)]
        if isinstance(message, Vote | Decided):
            row["of"] = command.sender
        match message:
            case Vote(holds=holds):
                row["holds"] = holds
                self._prepared[command.sender] = Position(*_sent_from(command))
            case Decide(commit=True):
                row["step"] = "commit"
            case Prepare(nths=nths):
                for nth in nths:
                    self._actions[nth].judged_at = at
        self._steps.append((time_ms, row))
        if isinstance(outcome, MessageFolded):
            keys = {key_of(action): nth for nth, action in enumerate(self._command.actions)}
            for applied in outcome.applied:
                self._actions[keys[key_of(applied.action)]].applied = self._applied(history, at, applied)

    # The actions

    def _applied(self, history: LogHistory, at: Position, outcome: Any) -> HistoryRow:
        row = history.outcome_row(outcome)
        return row | {"position": at.text(self._log.partitions)} if isinstance(outcome, Applied) else row

    def _action_row(self, nth: int, action: _Action) -> HistoryRow:
        row: HistoryRow = {"action": nth + 1} | action.row | {"partition": action.partition}
        outcome = self._outcome
        if not isinstance(outcome, TransactionRefused):
            return row | ({"outcome": self._word()} if not action.applied else action.applied)
        row["units"] = outcome.units[nth]
        assert isinstance(outcome.error, TransactionCanceledError), "a refused transaction has reasons"
        why = cancellation_of(outcome.error, nth)
        row |= {"outcome": "refused" if why else "cancelled"} | why
        if outcome.error.reasons[nth].code == CONFLICT:
            holder = None if action.judged_at is None else self._holder(nth, action.judged_at)
            row |= {} if holder is None else {"held_by": holder}
        return row

    def _holder(self, nth: int, at: Position) -> str | None:
        """Return the position of the transaction that held the key of an action when it was judged."""
        state = state_before(self._log, self._source.folder, at)
        void = void_in(self._log, at.partition, state.next_offset)
        for record in self._log.read(at.partition, state.next_offset):
            if record.offset < at.offset:
                fold_record(state, record, void)
                continue
            fold_record(state, _before(record, at.index or 0), void)
            break
        holder = state.transactions.held.get(key_of(self._command.actions[nth]))
        if holder is None:
            return None
        coordinator, number = holder
        if coordinator == at.partition:
            position = state.transactions.under_way[number].position
            assert position is not None, "it has one since level 3"
            base = self._log.genesis(coordinator).base
            found: Position | None = Position(coordinator, position[0] - base, position[1])
        else:
            found = _start_of(self._log, at.partition, holder)
        return None if found is None else found.text(self._log.partitions)


# Places of commands


def _before(record: Record, index: int) -> Record:
    """Return a record without the commands from `index` on."""
    return replace(record, entry=replace(record.entry, commands=record.entry.commands[:index]))


def _entry(log: SourceLog, position: Position) -> Entry:
    """Return the entry at a position.

    Raises:
        CommandError: The log ends before the position.
    """
    if position.offset >= log.end(position.partition):
        raise CommandError(
            f"the log ends before @{position.text(log.partitions)}: is it of another database?",
            ExitCode.NOT_FOUND,
        )
    return next(log.read(position.partition, position.offset)).entry


def _commands(log: SourceLog, partition: int, start: int) -> Iterator[tuple[Record, int, Command]]:
    records: Iterable[Record] = log.read(partition, start) if start < log.end(partition) else ()
    for record in records:
        for index, command in enumerate(record.entry.commands):
            yield record, index, command


def _transact_of(log: SourceLog, position: Position, command: Command) -> Position | None:
    """Return the position of the Transact that a command belongs to. None: it is of no transaction."""
    if isinstance(command, Transact):
        return position
    if not isinstance(command, Relay):
        return None
    match command.message:
        case Prepare():
            return Position(*_sent_from(command))
        case Commit(transaction_number=number) | Decide(transaction_number=number):
            return _start_of(log, position.partition, (command.sender, number))
        case Vote(transaction_number=number) | Decided(transaction_number=number):
            return _start_of(log, command.sender, (position.partition, number))
    return None


def _start_of(log: SourceLog, participant: int, transaction: TransactionId) -> Position | None:
    """Return the position of the Transact that sent a participant the Prepare of a transaction."""
    for _, _, command in _commands(log, participant, log.begin(participant)):
        if (
            isinstance(command, Relay)
            and isinstance(command.message, Prepare)
            and (command.sender, command.message.transaction_number) == transaction
        ):
            return Position(*_sent_from(command))
    return None


def _prepare_of(log: SourceLog, participant: int, transact: Position) -> Position | None:
    """Return the position of the Prepare that a Transact sent to a participant. None: it has not arrived."""
    for record, index, command in _commands(log, participant, log.begin(participant)):
        if (
            isinstance(command, Relay)
            and isinstance(command.message, Prepare)
            and _sent_from(command) == _place(transact)
        ):
            return Position(participant, record.offset, index)
    return None


def _sent_from(command: Relay) -> _Place:
    return command.sender, command.offset, command.index


def _place(position: Position) -> _Place:
    return position.partition, position.offset, position.index or 0
