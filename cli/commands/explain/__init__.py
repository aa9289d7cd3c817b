"""`foldb explain`: how a request finds its items, how many bytes that is, and how bytes become units."""

import typer

from . import reads, writes

app = typer.Typer(no_args_is_help=True, help="Say what a request reads or would write, and what it costs.")

for command in (reads.get, reads.query, reads.scan, writes.put, writes.update, writes.delete):
    app.command()(command)
