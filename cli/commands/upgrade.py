"""`foldb upgrade`: raise the level of a shared log after an upgrade of its nodes."""

from ..lib.session import Session


def upgrade(session: Session) -> None:
    """A new level gives commands a meaning that older releases cannot read, such as subscriptions and streams.

    A folder is upgraded without this command. A log in Kafka is not, because nodes of older releases stop at a higher
    level. An upgrade cannot be undone. A second call changes nothing.

    Example: foldb upgrade
    """
    answer = session.client.admin("Upgrade", {})
    before, level = answer["From"], answer["Level"]
    session.output.row({"from": before, "level": level})
    session.output.say(
        f"the log is at level {level} already"
        if before == level
        else f"the log went from level {before} to {level}"
    )
