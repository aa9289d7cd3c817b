"""From the log to tables: the fold (`fold/`), and the code that drives it.

worker.py        appends commands and folds them once they are durable
owner/           relays messages, proposes timed commands: settled tables, filled indexes, expired items
replicated/      a worker on a log to which other processes append
refold.py        folds the log at a start; rebuild.py rebuilds one table beside the live one
snapshots.py     saves and loads states, so that a start need not fold the whole log
partition.py     the interface that the server uses; local_partition.py and consistent_partition.py implement it
"""
