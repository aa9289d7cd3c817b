"""A trim as its caller describes it, for the process that prepares it (trim_worker.py): a line of JSON each way."""

from dataclasses import field
from pathlib import Path
from typing import Any, Final

import orjson

from ..log.local.foundation import Foundation
from ..log.local.segment import Header
from ..model.errors import FoldbError
from ..model.lazy_dataclass import dataclass

MODULE: Final = "foldb.materializer.trim_worker"

DAY_MS: Final = 24 * 3_600_000
STREAM_RETENTION_MS: Final = DAY_MS


@dataclass(frozen=True, slots=True)
class TrimCut:
    """The records to keep: those after a log time, or from an offset on in some partitions."""

    time_ms: int | None = None
    offsets: dict[int, int] = field(default_factory=dict)

    def allows(self, header: Header) -> bool:
        """Return whether the horizon may be at the beginning of a segment."""
        chain = header.chain
        if self.time_ms is not None and chain.time > self.time_ms:
            return False
        return all(chain.ends[partition] <= offset for partition, offset in self.offsets.items())


@dataclass(frozen=True, slots=True)
class TrimJob:
    """A trim of the log in a folder.

    Attributes:
        folder: The folder of the log.
        cut: The records to keep.
        archive: The folder to which the removed segments are copied; None if they are not.
        retention_ms: How long the change feed keeps changes, in log time; 0 for no limit.
        is_lenient: Whether to trim less if the cut passes a bound; otherwise the trim is refused.
    """

    folder: Path
    cut: TrimCut
    archive: Path | None = None
    retention_ms: int = STREAM_RETENTION_MS
    is_lenient: bool = False


def encode_job(job: TrimJob) -> bytes:
    """Return a job as a line of JSON."""
    return encode_line(
        {
            "folder": str(job.folder.absolute()),
            "time_ms": job.cut.time_ms,
            "offsets": list(job.cut.offsets.items()),
            "archive": None if job.archive is None else str(job.archive.absolute()),
            "retention_ms": job.retention_ms,
            "is_lenient": job.is_lenient,
        }
    )


def read_result(line: bytes) -> Foundation | None:
    """Parse the line that the process writes: the foundation; None if there is nothing to remove.

    Raises:
        TrimFailedError: The process refused the trim, or failed.
    """
    result = orjson.loads(line)
    if "error" in result:
        raise TrimFailedError(result["error"])
    head = result["foundation"]
    return None if head is None else Foundation.decode(bytes.fromhex(head))


class TrimFailedError(FoldbError):
    """The log was not trimmed. Nothing was removed."""


def encode_line(data: dict[str, Any]) -> bytes:
    """Return a line of JSON."""
    return orjson.dumps(data) + b"\n"
