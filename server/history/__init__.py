"""The process that keeps the histories of a node's partitions, and reads from it.

    process.py   starts it at the first read of the past, and calls it
    worker.py    the process: it follows the log, and answers reads at cuts
    thread.py    the same in a thread, for a log in memory

The serving process pays nothing while the past is not read. The histories are derived data: a process that ends is
started again by the next read.
"""
