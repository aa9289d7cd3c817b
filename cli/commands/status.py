"""`foldb status`: print the state of a server."""

from ..lib.session import Session


def status(session: Session) -> None:
    """Example: foldb status --db ./data"""
    session.output.row({"Endpoint": session.client.url, **session.client.admin("Status")})
