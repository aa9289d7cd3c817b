"""The partitions of this process: their workers, their owners, and the memory that they share."""

from .replica import Partitions, Replica

__all__ = ["Partitions", "Replica"]
