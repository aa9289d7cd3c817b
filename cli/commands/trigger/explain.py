"""`foldb trigger explain`: why a trigger delivers a change, or does not."""

import re
from collections.abc import Iterable
from itertools import islice
from typing import Annotated, Any, Final

import typer

from ....streams.delivery.filter import ChangeFilter
from ....streams.formats.table_view import Delivery
from ...lib.change_sources import Row, known
from ...lib.durations import now
from ...lib.errors import CommandError, ExitCode
from ...lib.events import LAST, EventFile, deliveries_of, read_events, told
from ...lib.filter_options import FROM, TriggerName
from ...lib.session import Session
from ...lib.start_position import read_start
from ...lib.values import plain, write_json

_COLUMNS: Final = ("delivered", "why", "op", "table", "keys", "old", "new", "number", "position")


def explain(
    ctx: typer.Context,
    name: TriggerName,
    event: EventFile = None,
    last: Annotated[
        int | None,
        typer.Option("--last", min=1, show_default=str(LAST), help="The last so many of its tables."),
    ] = None,
    begin: Annotated[str | None, FROM] = None,
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
    if count is not None and begin is None:
        raise CommandError("-c is for --from; without it, --last says how many", ExitCode.USAGE)
    database = known(session)
    settings = database.settings(name)
    typed = session.settings.typed
    if event is not None:
        deliveries = deliveries_of(read_events(event), database.keys, event, typed=typed)
    else:
        meant: Iterable[Row]
        if begin is None:
            meant = database.last(settings["TableNames"], iter, last or LAST)
        else:
            meant = islice(database.rows(settings["TableNames"], read_start(begin, now)), count)
        deliveries = deliveries_of(meant, database.keys, session.settings.db)
    chooser = ChangeFilter(settings)
    explained = [_explained(settings, chooser, delivery, typed=typed) for delivery in deliveries]
    session.output.rows(explained, first=_COLUMNS)
    delivered = sum(row["delivered"] for row in explained)
    session.output.say(f"{delivered} of {len(explained):,} changes would be delivered")


def _explained(settings: Row, chooser: ChangeFilter, delivery: Delivery, *, typed: bool) -> Row:
    row = told(delivery, typed=typed)
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
    values: dict[str, Any] = {
        name: write_json(plain(value))
        for name, value in (given.get("ExpressionAttributeValues") or {}).items()
    }
    return re.sub(r"[#:]\w+", lambda match: (names | values).get(match[0], match[0]), expression)
