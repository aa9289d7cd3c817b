"""A partition on a log that others append to as well: its worker, and how a read learns what others were told."""

from .read_index import ReadIndex
from .worker import ReplicatedWorker

__all__ = ["ReadIndex", "ReplicatedWorker"]
