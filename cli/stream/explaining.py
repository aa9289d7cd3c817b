"""`foldb trigger explain`: why a trigger delivers a change, or does not."""

import re
from collections import deque
from itertools import islice
from typing import Annotated, Final

import typer

from ...streams.formats.delivery import Delivery
from ...streams.formats.plain import plain
from ...streams.subscriptions.choosing import Chooser
from ..failures import CommandError, ExitCode
from ..output import counted
from ..session import Session
from ..values import plain as plain_value
from ..values import read_json, write_json
from .events import delivery_of, read_events
from .reading import Row, known
from .shown import shown
from .since import now, read_start

_LAST: Final = 10
_COLUMNS: Final = ("delivered", "why", "op", "table", "keys", "old", "new", "number", "position")


def explain(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The trigger's name.")],
    event: Annotated[
        str | None,
        typer.Option(
            "--event", metavar="FILE", help="These changes: as `foldb stream tail` prints them, or Lambda's."
        ),
    ] = None,
    last: Annotated[
        int | None, typer.Option("--last", min=1, show_default="10", help="The last so many of its tables.")
    ] = None,
    begin: Annotated[
        str | None,
        typer.Option("--from", metavar="PLACE", help="Those from here on: -1h, @POSITION, a number, ..."),
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", "-c", min=1, help="With --from: at most so many.")
    ] = None,
) -> None:
    """Say of changes whether a trigger delivers them, and what each of its rules says.

    Unless --event or --from names others they are the last ones of its tables. The database need not be served.

    Example: foldb trigger explain receipts --from @10482.3 -c 1
    """
    session: Session = ctx.obj
    if sum(each is not None for each in (event, last, begin)) > 1:
        raise CommandError("--event, --last and --from: say one of them", ExitCode.USAGE)
    database = known(session)
    settings = database.settings(name)
    chooser = Chooser(settings)
    if event is not None:
        rows = read_events(event, typed=session.settings.typed)
    else:
        found = iter(database.rows(settings["TableNames"], read_start(begin or "horizon", now)))
        rows = list(islice(found, count) if begin is not None else deque(found, maxlen=last or _LAST))
    time_ms = now()
    told = [
        _explained(session, settings, chooser, delivery_of(row, nth, database.keys, time_ms))
        for nth, row in enumerate(rows)
    ]
    session.output.rows(told, first=_COLUMNS)
    delivered = sum(row["delivered"] for row in told)
    session.output.say(f"{delivered} of {counted(len(told), 'change')} would be delivered")


def _explained(session: Session, settings: Row, chooser: Chooser, delivery: Delivery) -> Row:
    row = shown(read_json(plain(delivery), "the change"), typed=session.settings.typed)
    row["delivered"] = chooser.chooses(delivery)
    row["why"] = [
        {"rule": rule, "holds": holds, "says": _written(settings, says) if rule == "Filter" else says}
        for rule, holds, says in chooser.explain(delivery)
    ]
    return {name: row[name] for name in _COLUMNS}


def _written(settings: Row, expression: str) -> str:
    """The trigger's expression with its names and values in place of their placeholders."""
    given = settings["Filter"]
    names = given.get("ExpressionAttributeNames") or {}
    values = {
        name: write_json(plain_value(value))
        for name, value in (given.get("ExpressionAttributeValues") or {}).items()
    }
    return re.sub(r"[#:]\w+", lambda match: (names | values).get(match[0], match[0]), expression)
