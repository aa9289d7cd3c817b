"""The tables of a server, and waits until one is ACTIVE or deleted."""

import time
from collections.abc import Callable
from typing import Any

from ...model.durations import duration
from .errors import CommandError, ExitCode, RequestFailedError
from .session import Session


def names(session: Session) -> list[str]:
    """Return the names of all tables, from all pages."""
    found: list[str] = []
    body: dict[str, Any] = {}
    while True:
        answer = session.client.call("ListTables", body)
        found += answer["TableNames"]
        if "LastEvaluatedTableName" not in answer:
            return found
        body = {"ExclusiveStartTableName": answer["LastEvaluatedTableName"]}


def until_settled(session: Session, name: str, timeout_ms: int = 60_000) -> None:
    """Wait until the table and its global indexes are ACTIVE.

    ListTables lists a new table before DescribeTable finds it, if the control plane has a delay.
    """

    def settled() -> bool:
        try:
            table = session.client.call("DescribeTable", {"TableName": name})["Table"]
        except RequestFailedError as failure:
            if failure.code is ExitCode.NOT_FOUND and name in names(session):
                return False
            raise
        indexes = table.get("GlobalSecondaryIndexes", ())
        return table["TableStatus"] == "ACTIVE" and all(index["IndexStatus"] == "ACTIVE" for index in indexes)

    _until(settled, f"{name} is not ACTIVE yet", timeout_ms)


def until_gone(session: Session, name: str, timeout_ms: int = 60_000) -> None:
    """Wait until the table is deleted."""

    def gone() -> bool:
        try:
            session.client.call("DescribeTable", {"TableName": name})
        except RequestFailedError as failure:
            if failure.code is ExitCode.NOT_FOUND:
                return True
            raise
        return False

    _until(gone, f"{name} is still there", timeout_ms)


def _until(condition: Callable[[], bool], otherwise: str, timeout_ms: int) -> None:
    start = time.monotonic()
    while not condition():
        elapsed = time.monotonic() - start
        if elapsed > timeout_ms / 1000:
            raise CommandError(f"{otherwise}, after {duration(timeout_ms)}", ExitCode.PARTLY)
        # A tenth of the time that it has taken, so the wait is at most a tenth too long.
        time.sleep(min(max(0.02, elapsed / 10), 0.5))
