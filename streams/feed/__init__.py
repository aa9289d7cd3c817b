"""The change feed of the partitions of this process: kept in memory while it is new, and in change segments."""

from .feed import Feed

__all__ = ["Feed"]
