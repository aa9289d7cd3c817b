"""The first record of each partition, by which a log is told from any other."""

from typing import Final

from .commands import Entry, Genesis

HASH: Final = "blake2b-64"
"""How a partition key finds its slot (model/keys.py)."""
LEVEL: Final = 1
"""The meaning of commands that a new log begins with."""


def genesis_entry(
    log_id: bytes, partition: int, partitions: int, *, limits: str = "modern", level: int = LEVEL
) -> Entry:
    """The entry at offset 0; its origin is the log itself."""
    genesis = Genesis(log_id, partition, partitions, base=0, level=level, hash=HASH, limits=limits)
    return Entry(origin=log_id, number=0, commands=[genesis])
