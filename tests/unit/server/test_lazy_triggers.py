"""The subscriptions of a node, which are imported and made at their first use."""

import asyncio
import random
from collections.abc import Callable

from foldb.server.node import Node
from foldb.server.settings import Settings


def test_triggers_used_before_the_start_are_started() -> None:
    """The listener accepts requests before the triggers start, and `GET /metrics` uses them."""
    reports: list[Callable[[bytes], int] | None] = []

    async def start_and_stop() -> None:
        node = Node(
            Settings(path=None),
            loop=asyncio.get_running_loop(),
            clock=lambda: 1_700_000_000_000,
            random_bytes=random.Random(0).randbytes,
            on_fatal=lambda _: None,
        )
        _ = node.triggers
        node.start_triggers(reports.append)
        await node.stop_triggers()
        await node.close()

    asyncio.run(start_and_stop())

    assert None in reports
