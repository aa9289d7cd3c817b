"""`foldb log skip`: declare an entry or a command of the log void.

A void command must not change the messages to other partitions. They have folded them by their numbers: with one
message fewer, the next one of the partition has the number of an old one, and is ignored.
"""

import os
from contextlib import suppress
from hashlib import blake2b
from typing import Annotated

import typer

from ....log.binary import encode_message
from ....log.commands import Entry, Genesis, Level, Position, Record, Skip, new_context
from ....log.copy import first_entries
from ....log.log import Appended
from ....materializer.fold.fold_record import Void
from ....materializer.fold.outcomes import Outcome
from ....materializer.fold.state import PartitionState
from ....materializer.foundation import initial_state
from ....materializer.refold import FoldError, refold_log
from ....model.errors import LogError
from ....server.api.reasons import check_reason
from ...lib.errors import CommandError, ExitCode
from ...lib.log_history import read_position
from ...lib.log_location import SourceLog, opened_to_write, source_of
from ...lib.options import DryRun, SourceArgument
from ...lib.progress import progress
from ...lib.session import Session

_ORIGIN_BYTES = 16


def skip(
    session: Session,
    position: Annotated[
        str,
        typer.Argument(
            help="The position at which the fold stopped: a command, 10482.3, or an entry, 10482."
        ),
    ],
    source: SourceArgument = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Skip it even if the fold does not stop there, and undo its effects."),
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Declare an entry or a command void, so that a log at which the fold stopped can be served again.

    This cannot be undone: every node and every refold skips it from now on. The record stays in the log. The command
    folds the log first. Stop the server of a folder before; nodes that share a log may run. With several partitions a
    command is refused if messages to other partitions depend on it, such as index entries: use `foldb undo` instead.

    Example: foldb log skip 10482.3 ./data
    """
    found = source_of(session, source)
    log = found.open()
    void = read_position(position, log.partitions)
    kinds = _kinds(log, void)
    if not force:
        _check(session, log, void)
    elif log.partitions > 1:
        _check_messages(session, log, void)
    at = void.text(log.partitions)
    if dry_run:
        session.output.plan({"change": "declare void", "void": at, "commands": kinds, "count": len(kinds)})
        return
    session.confirm(f"Declare @{at} ({', '.join(kinds)}) void? This cannot be undone.")
    context = new_context("", reason=_reason(session, log, void.partition))
    decision = Skip(void.offset, void.index, context)
    offset = _append(found.location, log, void.partition, Entry(os.urandom(_ORIGIN_BYTES), 0, [decision]))
    session.output.row(
        {"position": Position(void.partition, offset, 0).text(log.partitions), "void": at, "commands": kinds}
    )


def _reason(session: Session, log: SourceLog, partition: int) -> str | None:
    """Return the reason of --why, if the log has a level that can keep it.

    Raises:
        ValidationError: The reason is not valid, or the level is too low.
    """
    reason = session.settings.why
    if reason is not None:
        level = initial_state(log, partition).level
        for record in log.read(partition, log.begin(partition)):
            for command in record.entry.commands:
                if isinstance(command, Genesis | Level):
                    level = max(level, command.level)
        check_reason(reason.encode(), level)
    return reason


def _check(session: Session, log: SourceLog, void: Position) -> None:
    """Check that the fold stops at the position, and that a skip lets it continue.

    Other partitions may have received messages from a folded command, and acted on them.

    Raises:
        CommandError: The skip has no use.
    """
    at = void.text(log.partitions)
    stop = _stop(session, log, void.partition)
    if stop != void.offset:
        last = "" if stop is None else Position(void.partition, stop).text(log.partitions)
        result = "folds to its end" if stop is None else f"stops at @{last}"
        raise CommandError(
            f"the log {result}: @{at} does not stop it. Give --force to declare it void nevertheless.",
            ExitCode.USAGE,
        )
    if void.index is not None and _stop(session, log, void.partition, (void.offset, void.index)) == stop:
        raise CommandError(
            f"the fold does not stop at @{at}, but at another command of @{void.offset}: give that one, or the entry",
            ExitCode.USAGE,
        )


class _SentMessages:
    """Hashes the messages that a refold sends, as its `Capture`."""

    def __init__(self, state: PartitionState) -> None:
        self._state = state
        self.begin_again()

    def begin_again(self) -> None:
        """Forget the messages: the state is the first one again."""
        self._numbers = {
            receiver: outbox.next_message_number for receiver, outbox in self._state.outboxes.items()
        }
        self.hash = blake2b(digest_size=16)

    def folded(self, _: list[Outcome]) -> None:
        """Add the messages of the record that was folded last."""
        for receiver, outbox in self._state.outboxes.items():
            known = self._numbers.get(receiver, 0)
            self._numbers[receiver] = outbox.next_message_number
            for relay in reversed(outbox.unacknowledged):
                if relay.message_number < known:
                    break
                place = f"{receiver} {relay.message_number} {relay.offset} {relay.index} {relay.time} "
                self.hash.update(place.encode() + encode_message(relay.message))


def _check_messages(session: Session, log: SourceLog, void: Position) -> None:
    """Check that a partition has sent the same messages without the void commands.

    Raises:
        CommandError: The receivers have folded other messages than it would send.
    """
    whole, without = (
        _sent(session, log, void.partition, each) for each in ((), ((void.offset, void.index),))
    )
    if whole != without:
        at = void.text(log.partitions)
        raise CommandError(
            f"other partitions have folded messages that depend on @{at}, and they would not fit the log without it. "
            f"`foldb undo @{at}` puts back the items that a write changed.",
            ExitCode.USAGE,
        )


def _sent(session: Session, log: SourceLog, partition: int, void: tuple[Void, ...]) -> bytes:
    """Return a hash of the messages of a partition, up to the record at which the fold stops."""
    state = initial_state(log, partition)
    messages = _SentMessages(state)
    with progress(session.settings, session.output.stderr, "fold", None), suppress(FoldError):
        refold_log(state, log, partition, void=frozenset(void), capture=messages)
    return messages.hash.digest()


def _stop(session: Session, log: SourceLog, partition: int, *void: Void) -> int | None:
    """Return the offset at which the fold stops. None: it reaches the end of the log."""
    with progress(session.settings, session.output.stderr, "fold", None) as advance:
        folded = 0

        def on_folded(commands: int) -> None:
            nonlocal folded
            advance(commands - folded)
            folded = commands

        try:
            refold_log(initial_state(log, partition), log, partition, on_folded, void=frozenset(void))
        except FoldError as error:
            return error.position.offset
    return None


def _kinds(log: SourceLog, void: Position) -> list[str]:
    """Return the names of the commands at a position.

    Raises:
        CommandError: The command does not exist, or is Genesis.
    """
    record = _record(log, void)
    commands = record.entry.commands
    if void.index is not None:
        commands = commands[void.index : void.index + 1]
    if not commands:
        raise CommandError(
            f"@{void.offset} has {len(record.entry.commands)} commands, and none with the index {void.index}",
            ExitCode.NOT_FOUND,
        )
    if any(type(command) is Genesis for command in commands):
        raise CommandError(
            "Genesis cannot be void: it is the first command of each partition", ExitCode.USAGE
        )
    return [type(command).__name__ for command in commands]


def _record(log: SourceLog, void: Position) -> Record:
    if void.offset >= log.end(void.partition):
        raise CommandError(f"there is no entry @{void.offset}: the log ends before it", ExitCode.NOT_FOUND)
    return next(log.read(void.partition, void.offset))


def _append(location: str, log: SourceLog, partition: int, entry: Entry) -> int:
    """Append an entry durably, and return its offset."""
    results: list[Appended | LogError] = []
    first = None if log.begin(partition) else first_entries(log)
    with opened_to_write(location, first) as (written, deliveries):
        written.append(partition, entry, results.append)
        while not results:
            deliveries.get()()
    [result] = results
    if isinstance(result, LogError):
        raise result
    return result.offset
