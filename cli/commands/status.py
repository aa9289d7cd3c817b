"""`foldb status`: print the state of a server."""

import typer

from ..lib.session import Session


def status(ctx: typer.Context) -> None:
    """Example: foldb status --db ./data"""
    session: Session = ctx.obj
    session.output.row({"Endpoint": session.client.url, **session.client.admin("Status")})
