"""What went wrong, as one sentence, the next step and an exit code.

    0  done; `verify`: a start takes the log    6  throttled, retries included
    1  a difference, or nothing to compare      7  the server calls the request invalid
    2  wrong usage                              8  not reachable, not started, not to be read or written
    3  no such table, index or item             9  the log or a table is not what it was: integrity
    4  the condition did not hold              10  partly done
    5  the transaction was cancelled          130  interrupted

A script may rely on these numbers: add, never change.
"""

import errno
import os
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from ...model.errors import (
    AppendUnknownError,
    CorruptionError,
    FoldbError,
    ForeignLogError,
    LogError,
    NewerVersionError,
)


class ExitCode(IntEnum):
    DONE = 0
    DIFFERENT = 1
    USAGE = 2
    NOT_FOUND = 3
    CONDITION = 4
    CANCELLED = 5
    THROTTLED = 6
    INVALID = 7
    UNREACHABLE = 8
    INTEGRITY = 9
    PARTLY = 10
    INTERRUPTED = 130


class CommandError(Exception):
    """The command cannot go on; the top of the program prints `sentence` and leaves with `code`."""

    def __init__(self, sentence: str, code: ExitCode) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.code = code


class NoAnswerError(CommandError):
    """The server was reached and did not answer in time."""


class RequestFailedError(CommandError):
    """The server answered with an error. `name` is DynamoDB's, `body` the whole answer.

    Attributes:
        table: The table that the request named, where it named one and that is not found.
    """

    def __init__(self, name: str, status: int, body: Mapping[str, Any]) -> None:
        message = body.get("message") or body.get("Message") or "no reason given"
        super().__init__(_sentence(name, str(message)), exit_code(name, status))
        self.name = name
        self.body = body
        self.table: str | None = None
        self._message = str(message)

    def suggest(self, table: str) -> None:
        """Name a table that the request may have meant as the next step."""
        self.sentence = f"{self.name}: {self._message.rstrip('.')}. Did you mean {table}?"


_NOT_FOUND = {"ResourceNotFoundException", "TableNotFoundException"}
_THROTTLED = {
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "ThrottlingException",
    "LimitExceededException",
}


def is_throttling(name: str) -> bool:
    """Whether the same request may go through a little later. Nothing of it was done."""
    return name in _THROTTLED - {"LimitExceededException"}


def exit_code(name: str, status: int) -> ExitCode:
    """The exit code for an error of the server.

    >>> exit_code("ConditionalCheckFailedException", 400)
    <ExitCode.CONDITION: 4>
    >>> exit_code("ResourceInUseException", 400)
    <ExitCode.INVALID: 7>
    """
    if name in _NOT_FOUND:
        return ExitCode.NOT_FOUND
    if name == "ConditionalCheckFailedException":
        return ExitCode.CONDITION
    if name == "TransactionCanceledException":
        return ExitCode.CANCELLED
    if name in _THROTTLED:
        return ExitCode.THROTTLED
    return ExitCode.UNREACHABLE if status >= 500 else ExitCode.INVALID


def of_foldb(error: FoldbError) -> CommandError:
    """The failure behind what the log or the fold raised in this process."""
    # Only who has failed needs it, and it brings the whole fold.
    from ...materializer.refold import FoldError

    if isinstance(error, AppendUnknownError):
        return CommandError(str(error), ExitCode.INTEGRITY)
    if isinstance(error, (LogError, NewerVersionError)):
        return CommandError(str(error), ExitCode.UNREACHABLE)
    if isinstance(error, (CorruptionError, ForeignLogError, FoldError)):
        return CommandError(str(error), ExitCode.INTEGRITY)
    return CommandError(str(error), ExitCode.USAGE)


_SYSTEM_STEPS = {
    errno.EACCES: "run as its owner, or name another place",
    errno.EPERM: "run as its owner, or name another place",
    errno.EROFS: "`foldb log` and `foldb verify` only read; for all else copy the folder to where it can be written",
    errno.ENOSPC: "make room, or name another place",
    errno.EDQUOT: "make room, or name another place",
}


def of_system(error: OSError) -> CommandError:
    """The failure behind what the operating system refused: what, why, and what to do."""
    why = os.strerror(error.errno) if error.errno else str(error)
    step = _SYSTEM_STEPS.get(error.errno or 0, "look at the disk, the folder, and where the output goes")
    what = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
    return CommandError(f"{what}{why}: {step}", ExitCode.UNREACHABLE)


_NEXT_STEPS = (
    ("Requested resource not found: Subscription", "`foldb trigger list` names the triggers there are."),
    ("Subscription already exists", "Change it with `foldb trigger add NAME --replace`."),
    ("TableNames cannot be changed", "Remove it with `foldb trigger remove`, and add it anew."),
    ("Cannot do operations on a non-existent table", "`foldb table list` names the tables there are."),
    ("Requested resource not found", "`foldb table list` names the tables there are."),
    (
        "The security token included in the request is invalid",
        "Name a key of the server's: set FOLDB_ACCESS_KEY_ID and FOLDB_SECRET_ACCESS_KEY, or say --profile.",
    ),
    ("reserved keyword", "Give it another name: --name '#n=NAME', and write #n in the expression."),
)


def _sentence(name: str, message: str) -> str:
    """DynamoDB's own words, and what to do where we know it."""
    for part, step in _NEXT_STEPS:
        if part in message:
            return f"{name}: {message.rstrip('.')}. {step}"
    return f"{name}: {message}"
