"""`foldb stream`: read the change feed of a database."""

from collections import Counter
from typing import Annotated, Any

from ....model.subscriptions.setting_types import EVENTS
from ...lib.change_sources import reading_of
from ...lib.command_group import CommandGroup
from ...lib.durations import now
from ...lib.errors import CommandError, ExitCode
from ...lib.filter_options import FROM, FilterOptions, TableOptions
from ...lib.options import TableArgument
from ...lib.session import Session
from ...lib.start_position import read_start
from ...lib.values import write_json
from .tail import tail

app = CommandGroup()
app.command()(tail)

_COLUMNS = ("TableName", "Status", "StreamViewType", "StreamLabel", "Subscriptions")


@app.command("list")
def list_(session: Session) -> None:
    """Print the tables whose changes are kept: those with a stream, and those that only a trigger reads.

    Example: foldb stream list
    """
    streams = session.client.admin("Streams")["Streams"]
    # The row of an enabled stream includes the subscriptions of the table.
    enabled = {each["TableName"] for each in streams if each["Status"] == "ENABLED"}
    rows = [each for each in streams if each["Status"] != "WATCHED" or each["TableName"] not in enabled]
    session.output.rows(rows, first=_COLUMNS)


@app.command()
def describe(session: Session, table: TableArgument) -> None:
    """Print the streams of a table, the changes that each partition keeps, and the shards of the newest stream.

    Example: foldb stream describe Orders -o json
    """
    answer = session.client.admin("Streams", {"TableName": table})
    if not answer["Streams"]:
        raise CommandError(
            f"{table} has no stream and no trigger: `foldb table update {table} --stream` enables a stream",
            ExitCode.NOT_FOUND,
        )
    session.output.row(answer)


@app.command()
def stats(
    session: Session,
    tables: TableOptions,
    begin: Annotated[str, FROM] = "horizon",
    *,
    filter_: FilterOptions,
) -> None:
    """Count the changes of each table by event, and print the number of keys and bytes.

    Example: foldb stream stats --table Orders --from -1h
    """
    chosen = filter_.settings()
    counts: dict[str, _Count] = {}
    for row in reading_of(session, tables.names, read_start(begin, now), chosen).rows(follow=False):
        counts.setdefault(row["table"], _Count()).add(row)
    session.output.rows(
        [{"table": name, **counts[name].row()} for name in sorted(counts)], first=("table", "changes")
    )


class _Count:
    """The counters of one table."""

    def __init__(self) -> None:
        self._operations: Counter[str] = Counter()
        self._keys: Counter[str] = Counter()
        self._bytes = self._transactions = 0
        self._first = self._last = ""

    def add(self, row: dict[str, Any]) -> None:
        self._operations[row["op"]] += 1
        self._keys[write_json(row["keys"])] += 1
        self._bytes += sum(len(write_json(row[side])) for side in ("old", "new") if row[side] is not None)
        self._transactions += row["tx"] is not None
        self._first = self._first or row["time"]
        self._last = row["time"]

    def row(self) -> dict[str, Any]:
        count = self._operations.total()
        return {
            "changes": count,
            **{name: self._operations[name] for name in EVENTS},
            "in_transactions": self._transactions,
            "keys": len(self._keys),
            "most_of_a_key": max(self._keys.values()),
            "bytes": self._bytes,
            "first": self._first,
            "last": self._last,
        }
