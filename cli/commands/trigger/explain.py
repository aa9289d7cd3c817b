"""`foldb trigger explain`: the rules by which a trigger delivers a change, or does not."""

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
from ...lib.events import LAST, EventFile, change_row, deliveries_of, read_events
from ...lib.filter_options import FROM, TriggerName
from ...lib.session import Session
from ...lib.start_position import read_start
from ...lib.values import plain, write_json

_COLUMNS: Final = ("delivered", "why", "op", "table", "keys", "old", "new", "number", "position")


def explain(
    session: Session,
    name: TriggerName,
    event: EventFile = None,
    last: Annotated[
        int | None,
        typer.Option("--last", min=1, show_default=str(LAST), help="Number of latest changes of its tables."),
    ] = None,
    begin: Annotated[str | None, FROM] = None,
    count: Annotated[
        int | None, typer.Option("--count", "-c", min=1, help="Maximum number of changes; with --from only.")
    ] = None,
) -> None:
    """Print for changes whether a trigger delivers them, and the result of each of its rules.

    Default: the latest changes of its tables. The command works without a server.

    Example: foldb trigger explain receipts --from @10482.3 -c 1
    """
    if sum(each is not None for each in (event, last, begin)) > 1:
        raise CommandError("--event, --last and --from: give one of them", ExitCode.USAGE)
    if count is not None and begin is None:
        raise CommandError("-c requires --from; use --last for the latest changes", ExitCode.USAGE)
    database = known(session)
    settings = database.settings(name)
    typed = session.settings.typed
    if event is not None:
        deliveries = deliveries_of(read_events(event), database.keys, event, typed=typed)
    else:
        rows: Iterable[Row]
        if begin is None:
            rows = database.last(settings["TableNames"], iter, last or LAST)
        else:
            rows = islice(database.rows(settings["TableNames"], read_start(begin, now)), count)
        deliveries = deliveries_of(rows, database.keys, session.settings.db)
    change_filter = ChangeFilter(settings)
    explained = [_explained(settings, change_filter, delivery, typed=typed) for delivery in deliveries]
    session.output.rows(explained, first=_COLUMNS)
    delivered = sum(row["delivered"] for row in explained)
    session.output.say(f"{delivered} of {len(explained):,} changes would be delivered")


def _explained(settings: Row, change_filter: ChangeFilter, delivery: Delivery, *, typed: bool) -> Row:
    row = change_row(delivery, typed=typed)
    row["delivered"] = change_filter.chooses(delivery)
    row["why"] = [
        {"rule": rule, "holds": holds, "says": _with_values(settings, says) if rule == "Filter" else says}
        for rule, holds, says in change_filter.explain(delivery)
    ]
    return {name: row[name] for name in _COLUMNS}


def _with_values(settings: Row, expression: str) -> str:
    """Return the trigger's expression with names and values substituted for their placeholders."""
    condition = settings["Filter"]
    names = condition.get("ExpressionAttributeNames") or {}
    values: dict[str, Any] = {
        name: write_json(plain(value))
        for name, value in (condition.get("ExpressionAttributeValues") or {}).items()
    }
    return re.sub(r"[#:]\w+", lambda match: (names | values).get(match[0], match[0]), expression)
