"""Failures of commands: one sentence, with the next step, and an exit code.

    0  success; `verify`: the log can be served   6  throttled, after retries
    1  a difference, or nothing to compare        7  the server refused the request as invalid
    2  wrong usage                                8  cannot connect, start, read or write
    3  no such table, index or item               9  the log or a table is damaged
    4  the condition failed                      10  partly complete
    5  the transaction was cancelled            130  interrupted

Scripts rely on these codes: add codes, never change one.
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
    HorizonError,
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
    """The command failed. The program prints `sentence` and exits with `code`."""

    def __init__(self, sentence: str, code: ExitCode) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.code = code


class NoAnswerError(CommandError):
    """The server did not answer within the timeout."""


class RequestFailedError(CommandError):
    """The server answered with an error.

    Attributes:
        name: The name of the error in DynamoDB's API.
        body: The whole answer.
        table: The table of the request, if the error is that it does not exist.
    """

    def __init__(self, name: str, status: int, body: Mapping[str, Any]) -> None:
        message = body.get("message") or body.get("Message") or "no reason given"
        super().__init__(_sentence(name, str(message)), exit_code(name, status))
        self.name = name
        self.body = body
        self.table: str | None = None
        self._message = str(message)

    def suggest(self, table: str) -> None:
        """Replace the next step with a question whether another table was meant."""
        self.sentence = f"{self.name}: {self._message.rstrip('.')}. Did you mean {table}?"


_NOT_FOUND = {"ResourceNotFoundException", "TableNotFoundException"}
_THROTTLED = {
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "ThrottlingException",
    "LimitExceededException",
}


def is_throttling(name: str) -> bool:
    """Return whether a retry may succeed. The request had no effect."""
    return name in _THROTTLED - {"LimitExceededException"}


def exit_code(name: str, status: int) -> ExitCode:
    """Return the exit code of a server's error.

    >>> exit_code("ConditionalCheckFailedException", 400)
    <ExitCode.CONDITION: 4>
    >>> exit_code("ResourceInUseException", 400)
    <ExitCode.INVALID: 7>
    """
    if name in _NOT_FOUND:
        return ExitCode.NOT_FOUND
    if name in ("ConditionalCheckFailedException", "DuplicateItemException"):
        return ExitCode.CONDITION
    if name == "TransactionCanceledException":
        return ExitCode.CANCELLED
    if name in _THROTTLED:
        return ExitCode.THROTTLED
    return ExitCode.UNREACHABLE if status >= 500 else ExitCode.INVALID


def of_foldb(error: FoldbError) -> CommandError:
    """Return the failure for an error of the log or the fold in this process."""
    # Imported after a failure alone, because it imports the whole fold.
    from ...materializer.refold import FoldError

    if isinstance(error, AppendUnknownError):
        return CommandError(str(error), ExitCode.INTEGRITY)
    if isinstance(error, HorizonError):
        return CommandError(str(error), ExitCode.NOT_FOUND)
    if isinstance(error, (LogError, NewerVersionError)):
        return CommandError(str(error), ExitCode.UNREACHABLE)
    if isinstance(error, (CorruptionError, ForeignLogError, FoldError)):
        return CommandError(str(error), ExitCode.INTEGRITY)
    return CommandError(str(error), ExitCode.USAGE)


_SYSTEM_STEPS = {
    errno.ENOENT: "give the path of an existing file or folder",
    errno.EACCES: "run as its owner, or give another path",
    errno.EPERM: "run as its owner, or give another path",
    errno.EROFS: "`foldb log` and `foldb verify` only read; for other commands copy the folder to a writable disk",
    errno.ENOSPC: "free space, or give another path",
    errno.EDQUOT: "free space, or give another path",
}


def of_system(error: OSError) -> CommandError:
    """Return the failure for an error of the operating system: path, reason and next step."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    step = _SYSTEM_STEPS.get(error.errno or 0, "check the disk, the folder, and the target of the output")
    path = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
    return CommandError(f"{path}{reason}: {step}", ExitCode.UNREACHABLE)


_NEXT_STEPS = (
    ("Requested resource not found: Alarm", "`foldb alarm list` lists the alarms."),
    ("Requested resource not found: Subscription", "`foldb trigger list` lists the triggers."),
    ("Subscription already exists", "Change it with `foldb trigger add NAME --replace`."),
    ("TableNames cannot be changed", "Remove it with `foldb trigger remove`, and add it again."),
    ("not found at ", "`foldb log cat --table NAME` prints when a table existed."),
    ("Cannot do operations on a non-existent table", "`foldb table list` lists the tables."),
    ("Requested resource not found", "`foldb table list` lists the tables."),
    (
        "The security token included in the request is invalid",
        "Use a key of the server: set FOLDB_ACCESS_KEY_ID and FOLDB_SECRET_ACCESS_KEY, or give --profile.",
    ),
    (
        " is not authorized to perform: ",
        "Use a key with this right: `foldb key create` makes one, FOLDB_ACCESS_KEY_ID or --profile selects it.",
    ),
    ("reserved keyword", "Use a placeholder: --name '#n=NAME', and #n in the expression."),
)


def _sentence(name: str, message: str) -> str:
    """Return DynamoDB's message, with a next step if the message is a known one."""
    for part, step in _NEXT_STEPS:
        if part in message:
            return f"{name}: {message.rstrip('.')}. {step}"
    return f"{name}: {message}"
