"""`foldb trigger explain`: why a trigger delivers a change, or does not."""

from typing import Annotated

import typer

from ...streams.formats.plain import plain
from ...streams.subscriptions.choosing import Chooser
from ..failures import CommandError, ExitCode
from ..output import counted
from ..session import Session
from ..values import read_json
from .events import delivery_of, read_events
from .known import known
from .shown import shown
from .since import now, read_start


def explain(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The trigger's name.")],
    event: Annotated[
        str | None,
        typer.Option(
            "--event", metavar="FILE", help="These changes: as `foldb stream tail` prints them, or Lambda's."
        ),
    ] = None,
    begin: Annotated[
        str | None,
        typer.Option("--from", metavar="PLACE", help="From here on: -1h, @POSITION, a sequence number, ..."),
    ] = None,
    count: Annotated[int, typer.Option("--count", "-c", min=1, help="At most so many changes.")] = 10,
) -> None:
    """Say of changes whether a trigger delivers them, and what each of its rules says.

    Without --event and --from they are the last ones of its tables. The database need not be served.

    Example: foldb trigger explain receipts --from @10482.3 -c 1
    """
    session: Session = ctx.obj
    if event is not None and begin is not None:
        raise CommandError(
            "--event and --from: the changes are either of a file or of the feed", ExitCode.USAGE
        )
    database = known(session)
    settings = database.settings(name)
    chooser = Chooser(settings)
    if event is not None:
        rows = read_events(event, typed=session.settings.typed)
    else:
        found = list(database.rows(settings["TableNames"], read_start(begin or "horizon", now)))
        rows = found[:count] if begin is not None else found[-count:]
    time_ms = now()
    told = []
    for nth, row in enumerate(rows):
        delivery = delivery_of(row, nth, database.keys, time_ms)
        told.append(
            shown(read_json(plain(delivery), "the change"), typed=session.settings.typed)
            | {
                "delivered": chooser.chooses(delivery),
                "why": [
                    {"rule": rule, "holds": holds, "says": says}
                    for rule, holds, says in chooser.explain(delivery)
                ],
            }
        )
    columns = ("delivered", "why", "op", "table", "keys", "old", "new")
    session.output.rows(
        [{name: row[name] for name in (*columns, "number", "position")} for row in told], first=columns
    )
    delivered = sum(row["delivered"] for row in told)
    session.output.say(f"{delivered} of {counted(len(told), 'change')} would be delivered")
