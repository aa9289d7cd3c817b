"""The change feed of the partitions of this process: in memory while it is new, and in change segments."""

from .feed import Feed
from .keeping import Keeping, folder_of
from .work import Thread

__all__ = ["Feed", "Keeping", "Thread", "folder_of"]
