"""The change feed of the partitions of this process: in memory while it is new, and in change segments."""

from .change_store import ChangeStore, folder_of
from .feed import Feed
from .serial_executor import ThreadExecutor

__all__ = ["ChangeStore", "Feed", "ThreadExecutor", "folder_of"]
