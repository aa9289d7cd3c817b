"""The partitions of this process: their workers, owners and shared memory limit."""

from .replica import Partitions, Replica

__all__ = ["Partitions", "Replica"]
