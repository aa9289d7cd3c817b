"""Trim: remove old records from the log of a served folder.

{"TimeMs"}                     remove the segments before a log time
{"Offsets": {id: offset}}      remove the segments before an offset of each partition
{"Id"}                         return the progress; the last answer has the result

`Archive` may name the folder of --archive, and no other.
"""

import asyncio
from typing import Any, Final

from ....log.commands import Cut, Position
from ....materializer.trim_job import TrimCut
from ....model.errors import InternalServerError, ValidationError
from ...auth.rights import NODE, Right
from ...node import Node
from ...partitions.retention import TrimResult
from ..operation import admin_operation
from ..reply import Caller

_ANSWER_AFTER_S: Final = 0.5


@admin_operation("Trim", Right.ADMIN, resource=NODE)
async def trim(node: Node, body: dict[str, Any], _: Caller) -> dict[str, Any]:
    """Start a trim, or return the progress of the running one."""
    retention = node.retention
    if retention is None:
        raise ValidationError("Only a log in a folder can be trimmed")
    if "Id" in body:
        requested = retention.requested
        if requested is None or body["Id"] != requested.trim_id:
            raise ValidationError("This trim is not known")
    else:
        cut = _cut(node, body)
        if retention.is_trimming:
            raise ValidationError("The log is being trimmed: one trim at a time")
        requested = retention.request(cut)
    await asyncio.wait([requested.done], timeout=_ANSWER_AFTER_S)
    if not requested.done.done():
        return {"Id": requested.trim_id, "Status": "RUNNING"}
    return _answer(node, requested.done.result())


def _cut(node: Node, body: dict[str, Any]) -> TrimCut:
    """Read the cut of a request.

    Raises:
        ValidationError: The request is malformed, or names another archive than the settings.
    """
    archive, own = body.get("Archive"), node.settings.history_archive
    if archive is not None and (own is None or archive != str(own.absolute())):
        where = "none" if own is None else str(own.absolute())
        raise ValidationError(
            f"A server copies removed segments to its --archive, which is {where}: name that folder, or start "
            "the server with another one"
        )
    time_ms, offsets = body.get("TimeMs"), body.get("Offsets")
    if type(time_ms) is int and offsets is None:
        return TrimCut(time_ms=time_ms)
    if time_ms is None and isinstance(offsets, dict) and offsets:
        known = {str(partition): partition for partition in range(node.partitions.count)}
        if all(each in known and type(offset) is int for each, offset in offsets.items()):
            return TrimCut(offsets={known[each]: offset for each, offset in offsets.items()})
    raise ValidationError("Trim takes TimeMs, or Offsets by partition id")


def _answer(node: Node, result: TrimResult | Exception) -> dict[str, Any]:
    if isinstance(result, OSError):
        raise InternalServerError(f"The log was not trimmed: {result}")
    if isinstance(result, Exception):
        raise ValidationError(str(result))
    foundation = result.foundation
    if foundation is None:
        return {"Status": "DONE", "Horizon": None}
    ends = foundation.chain.ends
    horizon = Cut(tuple(Position(partition, end) for partition, end in enumerate(ends)))
    return {
        "Status": "DONE",
        "LogId": foundation.log_id.hex(),
        "Horizon": horizon.text(node.partitions.count),
        "HorizonMs": foundation.time_ms,
        "Segments": result.segments,
        "Archive": foundation.archive,
    }
