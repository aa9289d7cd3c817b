"""`foldb advise`: find keys that limit the throughput of a table."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from ..lib.command_group import CommandGroup
from ..lib.completion import complete_cuts
from ..lib.heat import PARTITION_LIMITS, Heat, HeatLayer, HeatPart, fits, hottest_share, peak_rate, read_heat
from ..lib.options import TableArgument
from ..lib.session import Session

app = CommandGroup()

_SHARDS = (2, 3, 5, 10)
_THROTTLED_KEYS = 50  # of which it is known whether they were throttled
_MORE_SHARDS = (20, 50, 100)  # if the load does not fit yet


@app.callback()
def group() -> None:
    """Make typer keep `keys` as a subcommand although it is the only one."""


@app.command()
def keys(
    session: Session,
    table: TableArgument,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="Print this many keys.")] = 5,
    shards: Annotated[
        list[int] | None,
        typer.Option(
            "--shards",
            metavar="N",
            min=2,
            max=1000,
            show_default="2, 3, 5 and 10; up to 100 until the load fits",
            help="Print the effect of this number of keys in place of one. Repeat the flag for more.",
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="POSITION|TIME",
            autocompletion=complete_cuts,
            help="Count the writes from this position or time on in the log: 10482, -1h, an ISO 8601 time.",
        ),
    ] = None,
) -> None:
    """Print the heaviest partition keys of a table and its indexes, and the effect of dividing the heaviest one.

    A capacity partition serves at most 3,000 read units and 1,000 write units a second, so a heavier key is
    throttled. A row with `shards` N is about N keys in place of one, such as `KEY#1` to `KEY#N`:
    `hottest_share` is the share of the hottest capacity partition, `hottest_rate` its units a second in the
    busiest 10 seconds of the last ten minutes, and `fits` whether it serves them. Rates are those of admitted
    requests, so a key does not fit if it was throttled near the limit. The server measures tables with Contributor
    Insights, and all tables with `foldb serve --heat`. `source` is then `sketch`.

    With --from the command counts the writes in the log, and needs no measuring server: `source` is `log`, the counts
    are exact, and rates are those of the busiest 10 seconds since then. The log has no reads and throttled requests.

    Example: foldb advise keys Music
    """
    if start is None:
        found = read_heat(session, TableName=table, Limit=max(limit, _THROTTLED_KEYS))
        source, text = "sketch", "from the server's sketch, in which older requests count less"
    else:
        from ..lib.log_heat import heat_of_log  # it imports the whole fold

        found = heat_of_log(session, table, start, limit)
        source, text = "log", f"counted from the log, from {start} on"
    rows = [row | {"source": source} for part in found.parts for row in _advice(found, part, limit, shards)]
    session.output.rows(rows)
    session.output.say(f"{table}: {text}" if rows else f"there were no reads and writes of {table}, {text}")


def _advice(found: Heat, part: HeatPart, limit: int, shards: list[int] | None) -> Iterator[dict[str, Any]]:
    for layer in (part.layers[name] for name in PARTITION_LIMITS if name in part.layers):
        for nth, key in enumerate(layer.keys[:limit]):
            numbers = [1] if nth else [1, *(shards or _SHARDS)]
            rows = [_row(found, part, layer, key, number) for number in numbers]
            if not nth and shards is None:
                for number in _MORE_SHARDS:
                    if not rows[-1]["fits"]:
                        rows.append(_row(found, part, layer, key, number))
            yield from rows


def _row(
    found: Heat, part: HeatPart, layer: HeatLayer, key: tuple[Any, Any, int], shards: int
) -> dict[str, Any]:
    hottest = hottest_share(part, layer, key, shards)
    rate = round(hottest * peak_rate(layer, found.bucket_ms), 1)
    return {
        "index": part.index or "",
        "layer": layer.name.lower(),
        "key": key[0],
        "share": layer.share(key[1]),
        "shards": shards,
        "hottest_share": hottest,
        "hottest_rate": rate,
        "fits": fits(part, layer, key[0], rate, shards),
    }
