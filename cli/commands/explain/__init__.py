"""`foldb explain`: the items that a request touches, their bytes, and the capacity units of those bytes."""

from ...lib.command_group import CommandGroup
from . import reads, writes

app = CommandGroup()

for command in (reads.get, reads.query, reads.scan, writes.put, writes.update, writes.delete):
    app.command()(command)
