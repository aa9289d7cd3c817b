"""`foldb explain`: the items that a request touches, their bytes, and the capacity units of those bytes."""

import typer

from . import reads, writes

app = typer.Typer(no_args_is_help=True)

for command in (reads.get, reads.query, reads.scan, writes.put, writes.update, writes.delete):
    app.command()(command)
