"""The fold: the state of a partition, and the effect of a record on it.

    record ──► fold ──► outcomes                    fold_record.py
                 │
                 ├── decide, then apply             writes.py, index_entries.py, transactions/
                 ├── table definitions              definitions.py
                 ├── restores and backups           restores.py
                 ├── messages between partitions    outbox.py, messages.py; indexes.py for global indexes
                 └── state                          state.py, storage.py; reads.py reads it, dump.py serializes it

    outcome ──► the versions that it wrote, with their effective times      versions.py

Everything in this folder is pure: no clock, no random numbers, no float, no file, no thread, no order of a set. The
code that drives it (worker, timers, refold) is in the folder above.
"""

from ...log.commands import LEVEL
from .fold_record import fold, fold_command

__all__ = ["LEVEL", "fold", "fold_command"]
