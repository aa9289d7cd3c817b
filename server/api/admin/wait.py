"""Wait: answered once a position, or each position of a cut, is folded, its index entries have arrived, and no read can
be answered from an earlier state (--read-lag and --index-lag).

{"Position"}, as `x-foldb-position` has it. The answer is an error if that takes too long; the client may retry.
"""

from functools import partial
from typing import Any

import orjson

from ....model.errors import ValidationError
from ...auth.rights import NODE, Right
from ...node import Node
from ..min_position import reach
from ..operation import admin_operation
from ..reply import Reply


@admin_operation("Wait", Right.READ, resource=NODE)
def wait(node: Node, body: dict[str, Any], reply: Reply) -> None:
    """Wait for the position, and reply with it."""
    position = body.get("Position")
    if not isinstance(position, str):
        raise ValidationError("Wait takes a Position")
    answer = partial(reply.ok, orjson.dumps({"Position": position}))
    lag_ms = max(node.settings.read_lag_ms, node.settings.index_lag_ms)

    def reached() -> None:
        if lag_ms:
            node.loop.call_later(lag_ms / 1000, answer)
        else:
            answer()

    reach(node, position, reply, reached)
