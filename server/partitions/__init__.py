"""The partitions of this process: their workers, their owners, and the memory that they share."""

from .hosted import Hosted, Partitions

__all__ = ["Hosted", "Partitions"]
