"""The judgement of a log's last segment, shared by a start of the server and by every reader. It changes nothing.

mark, last segment ──► whole up to byte N    zeros follow, or a write that a crash tore, which a start cuts
                  └──► damaged               the log is refused with segment and byte
"""

from typing import Final

from . import segment
from .durable_position import NAME, DurablePosition
from .history import History, place
from .segment import Chain, Scan

SECTOR: Final = 512


def known_end(history: History, mark: DurablePosition | None) -> DurablePosition | None:
    """Return the mark if it is about the last segment; one that a power cut left behind is about an earlier one.

    Raises:
        CorruptionError: The mark names a segment that the folder does not hold.
    """
    last = history.last.chain.sequence
    if mark and mark.sequence > last:
        raise history.damaged(
            segment.name(mark.sequence),
            "the segment is missing, though the log's mark names it",
            behind_mark=True,
        )
    return mark if mark and mark.sequence == last else None


def judge_end(
    history: History, data: bytes, at: int, chain: Chain, known: DurablePosition | None, base: int = 0
) -> Scan:
    """Follow the blocks of the last segment, and accept behind them only the remains of a torn write.

    Args:
        history: The log's segments.
        data: The last segment's bytes from byte `base` on.
        at: The first block's place in `data`; `chain` includes all before it.
        known: The mark, if it is about this segment.

    Raises:
        CorruptionError: Bytes that were durable are missing or changed.
    """
    last = history.last
    scan = segment.scan(data, at, last.marker, chain)
    what = scan.damage.what if scan.damage else "the segment ends here"
    end = place(last, base + scan.end, scan.chain)
    if known and base + scan.end < known.synced:
        raise history.damaged(
            end,
            f"{what}, but the log was synced up to byte {known.synced} (says its file `{NAME}`)",
            behind_mark=True,
        )
    if (
        scan.damage
        and torn_write(data, scan)
        and not segment.is_torn(data, scan.end, last.marker, scan.chain)
    ):
        raise history.damaged(end, what)
    return scan


def torn_write(data: bytes, scan: Scan) -> bytes:
    """Return the sectors of a torn write behind the last whole block; none for zeros, which the writer fills in."""
    end = len(data.rstrip(b"\0"))
    return data[scan.end : -(-end // SECTOR) * SECTOR] if end > scan.end else b""
