"""Subscriptions of a served process, managed as foldb's own clients do."""

import time
from collections.abc import Callable
from typing import Any

from tests.support.raw import ask

_PATIENCE_S = 30


def operate(url: str, operation: str, **request: Any) -> Any:
    """Send one of foldb's own operations, and return its answer."""
    answer = ask(url, f"Foldb_20261121.{operation}", request)
    assert answer.status == 200, answer.data
    return answer.body


def subscribe(url: str, name: str, table: str, sink: dict[str, Any], **settings: Any) -> None:
    """Create a subscription that delivers the changes of a table."""
    operate(url, "CreateSubscription", Name=name, TableNames=[table], Sink=sink, **settings)


def described(url: str, name: str) -> dict[str, Any]:
    """Return the description of a subscription."""
    answer: dict[str, Any] = operate(url, "DescribeSubscription", Name=name)
    return answer


def settle(url: str, seconds: float = _PATIENCE_S) -> None:
    """Wait until every subscription has handled all changes written so far."""
    end = time.monotonic() + seconds
    while not (answer := operate(url, "WaitForTriggers", TimeoutMs=10_000))["Settled"]:
        assert time.monotonic() < end, answer


def until(condition: Callable[[], Any], seconds: float = _PATIENCE_S) -> Any:
    """Poll the condition until it is true, and return its value."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.005)  # there is no event to wait for
    return found
