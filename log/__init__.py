"""The log: what was asked of the database, in order, durably.

commands.py says what an entry holds, log.py what a log promises; local.py and memory.py keep that promise.
FORMAT.md has the bytes.
"""
