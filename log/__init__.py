"""The log: every command sent to the database, in order, durable.

commands.py defines the commands, codec.py their bytes, chain.py a hash of all of them, and log.py the interface of a
log. Implementations: local/ (a folder on disk), kafka/ (a topic), memory_log.py (tests and the simulator). FORMAT.md
describes the bytes.
"""
