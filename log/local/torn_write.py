"""Tell a torn write at the end of a log from damage, for starts of the server and for readers. No file is changed.

mark, last segment ──► intact up to byte N   zeros follow, or a write torn by a crash, which a start cuts
                  └──► damaged               the log is refused with segment and byte
"""

from typing import Final

from . import segment
from .durable_position import NAME, DurablePosition
from .history import History, text_of
from .segment import Chain, Scan

SECTOR: Final = 512


def known_end(history: History, mark: DurablePosition | None) -> DurablePosition | None:
    """Return the durable position if it is in the last segment. After a power cut it may be in an earlier one: None.

    Raises:
        CorruptionError: The file `mark` names a segment that the folder does not hold.
    """
    last = history.last.chain.sequence
    if mark and mark.sequence > last:
        raise history.damaged(
            segment.name(mark.sequence),
            "the segment is missing, but the log's file `mark` names it",
            behind_mark=True,
        )
    return mark if mark and mark.sequence == last else None


def judge_end(
    history: History, data: bytes, at: int, chain: Chain, known: DurablePosition | None, base: int = 0
) -> Scan:
    """Scan the blocks of the last segment, and accept after them only the remains of a torn write.

    Args:
        history: The log's segments.
        data: The last segment's bytes from byte `base`.
        at: The index of the first block in `data`; `chain` includes all records before it.
        known: The durable position, if it is in this segment.

    Raises:
        CorruptionError: Bytes that were durable are missing or changed.
    """
    last = history.last
    scan = segment.scan(data, at, last.marker, chain)
    reason = scan.damage.reason if scan.damage else "the segment ends here"
    end = text_of(last, base + scan.end, scan.chain)
    if known and base + scan.end < known.synced:
        raise history.damaged(
            end,
            f"{reason}, but the log was synced up to byte {known.synced} according to its file `{NAME}`",
            behind_mark=True,
        )
    if (
        scan.damage
        and torn_write(data, scan)
        and not segment.is_torn(data, scan.end, last.marker, scan.chain)
    ):
        raise history.damaged(end, reason)
    return scan


def torn_write(data: bytes, scan: Scan) -> bytes:
    """Return the sectors of a torn write after the last intact block; empty if only zeros follow (fill-ahead)."""
    end = scan.end + len(data[scan.end :].rstrip(b"\0"))
    return data[scan.end : -(-end // SECTOR) * SECTOR] if end > scan.end else b""
