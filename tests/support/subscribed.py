"""Subscriptions of a served process, asked for and looked at as foldb's own clients do."""

import time
from collections.abc import Callable
from typing import Any

from tests.support.raw import ask

_PATIENCE_S = 30


def operate(url: str, operation: str, **request: Any) -> Any:
    """Ask for one of foldb's own operations, and return what it answers."""
    answer = ask(url, f"Foldb_20261121.{operation}", request)
    assert answer.status == 200, answer.data
    return answer.body


def subscribe(url: str, name: str, table: str, sink: dict[str, Any], **settings: Any) -> None:
    """Have the changes of a table delivered."""
    operate(url, "CreateSubscription", Name=name, TableNames=[table], Sink=sink, **settings)


def described(url: str, name: str) -> dict[str, Any]:
    """What is known of a subscription."""
    told: dict[str, Any] = operate(url, "DescribeSubscription", Name=name)
    return told


def settle(url: str, seconds: float = _PATIENCE_S) -> None:
    """Return when every subscription has handled all that was written."""
    end = time.monotonic() + seconds
    while not (told := operate(url, "WaitForTriggers", TimeoutMs=10_000))["Settled"]:
        assert time.monotonic() < end, told


def until(condition: Callable[[], Any], seconds: float = _PATIENCE_S) -> Any:
    """What the condition yields, once it is something."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.005)  # nobody tells, everybody can be asked
    return found
