"""A partition on a shared log: its worker, and the wait of a consistent read for the log's end."""

from .read_index import ReadIndex
from .worker import ReplicatedWorker

__all__ = ["ReadIndex", "ReplicatedWorker"]
