"""Capture periods and subscriptions, in a dump of a partition's state.

    frames ::= period* subscription*      by table and in the order in which they began; by name

A state that never captured a change has none of them.
"""

from collections.abc import Iterator
from typing import Any, Final

import orjson

from ....model.subscriptions import Subscription
from ..state import PartitionState
from .capture import CapturePeriod

PERIOD: Final = b"W"
SUBSCRIPTION: Final = b"U"


def frames(state: PartitionState) -> Iterator[tuple[bytes, Any]]:
    """Yield kind and content, as JSON, of each frame."""
    for table_id in sorted(state.periods):
        for period in state.periods[table_id]:
            yield PERIOD, period.to_json()
    for name in sorted(state.subscriptions):
        yield SUBSCRIPTION, state.subscriptions[name].to_json()


def load_frame(state: PartitionState, kind: bytes, payload: bytes) -> bool:
    """Load a frame; return False for a frame of another kind."""
    if kind == PERIOD:
        period = CapturePeriod.from_json(orjson.loads(payload))
        state.periods.setdefault(period.table, []).append(period)
        return True
    if kind == SUBSCRIPTION:
        subscription = Subscription.from_json(orjson.loads(payload))
        state.subscriptions[subscription.name] = subscription
        return True
    return False
