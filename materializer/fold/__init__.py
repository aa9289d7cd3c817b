"""The fold: what a partition is, and what a record does to it.

    record ──► fold ──► outcomes                    record.py
                 │
                 ├── decide, then apply             writes.py, entries.py (indexes), transactions/
                 ├── which tables exist             definitions.py
                 ├── what partitions tell others    outbox.py, messages.py; indexes.py where an index is spread
                 └── state                          state.py, storage.py; reads.py looks at it, dump.py writes it down

Everything in this folder is pure: no clock, no chance, no float, no file, no thread, no order of a hash. What
drives it (worker, timers, refold) stands in the folder above.
"""

from .fold_record import LEVEL, fold, fold_command

__all__ = ["LEVEL", "fold", "fold_command"]
