"""The chain of a partition: one hash of all its records, the same in every copy of the log.

    leaf  ::= BLAKE2b-128 of salt command          the salt of its entry, if it has one
    value ::= BLAKE2b-128 of value(before) position time origin number leaf*

Readers compute it; the log does not store it. It covers the meaning of a record, not its bytes: `foldb log copy` writes
other bytes, in Kafka or in another schema, and keeps the chain. FORMAT.md has an example. A leaf proves one command to
a reader who knows the command and the salt, and shows nothing of it to others.
"""

from hashlib import blake2b
from struct import Struct
from typing import Final

from .binary import encode_command
from .commands import Genesis, Record

VALUE_BYTES: Final = 16
_RECORD: Final = Struct(">16sqq16sq")


class Chain:
    """The chain of one partition up to some record.

    Attributes:
        next_offset: The offset of the record that continues it.
        value: The hash of all records before that offset; the log's id before the first.
    """

    __slots__ = ("next_offset", "value")

    def __init__(self, genesis: Genesis, next_offset: int = 0, value: bytes | None = None) -> None:
        """Begin before the first record of the partition, or continue from a `value` before `next_offset`."""
        self.next_offset = next_offset
        self.value = genesis.log_id if value is None else value

    def extend(self, record: Record) -> None:
        """Add the next record."""
        assert record.offset == self.next_offset, "the log skipped or repeated a record"
        entry = record.entry
        time = record.time if entry.time is None else entry.time
        salt = entry.salt or b""
        head = _RECORD.pack(self.value, record.offset, time, entry.origin, entry.entry_number)
        leaves = [
            blake2b(salt + encode_command(command), digest_size=VALUE_BYTES).digest()
            for command in entry.commands
        ]
        self.value = blake2b(b"".join((head, *leaves)), digest_size=VALUE_BYTES).digest()
        self.next_offset = record.offset + 1
