"""Wait: answers when a position, or each of a cut, is folded, and what it had told indexes by then has arrived.

It takes {"Position"}, as `x-foldb-position` tells it, and answers with an error if that does not come about soon:
then it may be asked again.
"""

from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from ....model.errors import ValidationError
from ..min_position import reach
from ..reply import Reply

if TYPE_CHECKING:
    from ...node import Node


def wait(node: "Node", body: dict[str, Any], reply: Reply) -> None:
    """Wait, and answer what was waited for."""
    position = body.get("Position")
    if not isinstance(position, str):
        raise ValidationError("Wait takes a Position")
    reach(node, position, reply, partial(reply.ok, orjson.dumps({"Position": position})))
