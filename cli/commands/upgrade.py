"""`foldb upgrade`: let a log that nodes share have what a new release brings."""

import typer

from ..lib.session import Session


def upgrade(ctx: typer.Context) -> None:
    """Bring the log to the level of this release, once every node that shares it is of this release.

    A release may give commands a meaning that older ones do not know: subscriptions and captured streams, of late. A
    folder comes to that by itself; a log in Kafka when this is said, because a node of an older release stops there.
    There is no way back. Said again, it changes nothing.

    Example: foldb upgrade
    """
    session: Session = ctx.obj
    answer = session.client.admin("Upgrade", {})
    before, level = answer["From"], answer["Level"]
    session.output.row({"from": before, "level": level})
    session.output.say(
        f"the log was at level {level}" if before == level else f"level {before} became {level}"
    )
