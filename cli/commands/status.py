"""`foldb status`: how a database is."""

import typer

from ..lib.session import Session


def status(ctx: typer.Context) -> None:
    """Print where the database is, how long its log is, how much it holds and how it syncs.

    Example: foldb status --db ./data
    """
    session: Session = ctx.obj
    session.output.row({"Endpoint": session.client.url, **session.client.admin("Status")})
