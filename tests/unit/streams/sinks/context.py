"""The context of a sink under test, and batches for it."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from foldb.streams.formats.table_view import Delivery
from foldb.streams.sinks.sink import Batch, SinkContext

NOW = 1_700_000_100_000
"""2023-11-14T22:15:00Z"""


def sink_context(scratch: Path, **changes: Any) -> SinkContext:
    """Return the context of the subscription receipts on the running loop; 127.0.0.1 may be called."""
    given: dict[str, Any] = {
        "loop": asyncio.get_running_loop(),
        "clock": lambda: NOW,
        "subscription": "receipts",
        "instance": "receipts",
        "timeout_s": 30.0,
        "endpoint": lambda: "http://127.0.0.1:1",
        "folder": None,
        "webhooks": ("127.0.0.1",),
        "destinations": None,
        "kafka": None,
        "scratch": scratch,
    }
    return SinkContext(**{**given, **changes})


def batch(changes: Sequence[Delivery], **about: Any) -> Batch:
    return Batch("receipts", changes, **about)
