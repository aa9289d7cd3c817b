"""`foldb capacity`: compute the capacity units of a workload, and print those that are consumed."""

import contextlib
import itertools
import math
import re
import time
from decimal import Decimal
from typing import Annotated, Any, Literal

import typer

from ...model import capacity
from ..lib.command_group import CommandGroup
from ..lib.durations import now, read_duration
from ..lib.errors import CommandError, ExitCode
from ..lib.heat import Heat, read_heat
from ..lib.options import TableArgument
from ..lib.output import cell, whole_or_half
from ..lib.session import Session

app = CommandGroup()

_NO_TRAFFIC = "no traffic was measured: enable Contributor Insights of a table, or serve with --heat"
_TOP_BUCKETS = 6  # of 10 s: rates are those of the last minute


@app.command()
def plan(
    session: Session,
    item_size: Annotated[
        str | None,
        typer.Option(
            "--item-size",
            metavar="SIZE",
            show_default="1KB, 2KB, 4KB and 8KB",
            help="Plan for items of this size: bytes, or a size like 3.5KB.",
        ),
    ] = None,
    rate: Annotated[int, typer.Option(min=1, max=10**9, help="Reads or writes per second.")] = 50,
    consistency: Annotated[
        Literal["strong", "eventual", "both"], typer.Option(help="The consistency of the reads.")
    ] = "both",
    reads: Annotated[bool, typer.Option("--reads", help="Print only the units of reads.")] = False,
    writes: Annotated[bool, typer.Option("--writes", help="Print only the units of writes.")] = False,
) -> None:
    """Print the provisioned throughput that a rate of reads and writes needs.

    Item sizes are rounded up to 4 KB for a read and to 1 KB for a write. An eventually consistent read costs
    half. Without --item-size the table is the one of the DynamoDB developer guide.

    Example: foldb capacity plan --item-size 3.5KB --rate 50 --consistency strong
    """
    rows: list[dict[str, Any]] = []
    if reads or not writes:
        for consistent in _consistencies(consistency):
            rows += [_read(size, rate, consistent) for size in _sizes(item_size, ("4KB", "8KB"))]
    if writes or not reads:
        rows += [_write(size, rate) for size in _sizes(item_size, ("1KB", "2KB"))]
    session.output.rows(rows)


@app.command()
def report(
    session: Session,
    table: TableArgument,
    since: Annotated[
        int, typer.Option(metavar="TIME", parser=read_duration, help="Report the last minutes or hours.")
    ] = 600_000,
) -> None:
    """Print the consumed and provisioned units of a table and its global indexes, and the throttled requests.

    `units` is the sum, `peak_rate` the units a second of the busiest minute, and `provisioned` the units a second,
    which a table on demand has not. The figures are those of `foldb metrics`, of all nodes.

    Example: foldb capacity report Music --since 10m
    """
    shape = session.shape(table)
    body = {"TableName": table, "StartTime": max(0, now() - since)}
    points: dict[tuple[str, str], list[dict[str, Any]]] = {
        (each["Dimensions"].get("GlobalSecondaryIndexName", ""), each["MetricName"]): each["Datapoints"]
        for each in session.client.admin("Metrics", body)["Metrics"]
    }
    parts = [("", shape.description)]
    parts += [(each["IndexName"], each) for each in shape.description.get("GlobalSecondaryIndexes", ())]
    session.output.rows(
        {
            "index": name,
            "access": f"{access.lower()}s",
            "units": whole_or_half(sum(each["Sum"] for each in consumed)),
            "peak_rate": round(max((each["Sum"] for each in consumed), default=Decimal()) / Decimal(60), 1),
            "provisioned": part.get("ProvisionedThroughput", {}).get(f"{access}CapacityUnits") or None,
            "throttled": int(sum(each["Sum"] for each in points.get((name, f"{access}ThrottleEvents"), ()))),
        }
        for name, part in parts
        for access in ("Read", "Write")
        for consumed in [points.get((name, f"Consumed{access}CapacityUnits"), [])]
    )


@app.command()
def top(
    session: Session,
    interval: Annotated[
        float, typer.Option("--interval", metavar="SECONDS", min=0.1, help="Refresh every N seconds.")
    ] = 2.0,
    rounds: Annotated[
        int | None, typer.Option("--rounds", metavar="N", min=1, help="End after N refreshes.")
    ] = None,
) -> None:
    """Print the tables and indexes with the most traffic, each with its heaviest key, until Ctrl-C.

    Rates are those of the last minute, in units a second; of throttles in requests a second. In a pipe, and with
    -o, they are printed once. The server measures tables with Contributor Insights, and all tables with
    `foldb serve --heat`.

    Example: foldb capacity top --rounds 1
    """
    last = rounds if session.output.draws else 1
    with contextlib.suppress(KeyboardInterrupt):
        for nth in itertools.count(1):
            rows = _tops(read_heat(session, Buckets=_TOP_BUCKETS, Limit=1))
            if nth > 1:
                session.output.clear()
            session.output.rows(rows)
            if not rows:
                session.output.say(_NO_TRAFFIC)
            if nth == last:
                break
            time.sleep(interval)


def _tops(heat: Heat) -> list[dict[str, Any]]:
    """Return a row for each table, index and layer with traffic, the highest rate first."""
    seconds = _TOP_BUCKETS * heat.bucket_ms // 1000
    rows: list[dict[str, Any]] = [
        part.names
        | {
            "layer": layer.name.lower(),
            "rate": round(layer.sum / seconds, 1),
            "provisioned": part.provisioned.get(layer.name),
            "key": cell(layer.keys[0][0]) if layer.keys else "",
            "share": layer.share(layer.keys[0][1]) if layer.keys else 0,
        }
        for part in heat.parts
        for layer in part.layers.values()
        if layer.buckets
    ]
    return sorted(rows, key=lambda row: -row["rate"])


def size_bytes(text: str) -> int:
    """Return the bytes of a size such as `500`, `3.5KB` or `1 MB`.

    >>> size_bytes("3.5KB")
    3584

    Raises:
        CommandError: `text` is not a size.
    """
    match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*(B|KB|MB|)", text.strip(), re.IGNORECASE)
    if match is None:
        raise CommandError(f"`{text}` is not a size: write 500, 3.5KB or 1MB", ExitCode.USAGE)
    unit = {"": 1, "B": 1, "KB": 1024, "MB": 1024 * 1024}[match[2].upper()]
    return math.ceil(Decimal(match[1]) * unit)


def _consistencies(text: str) -> tuple[bool, ...]:
    return {"strong": (True,), "eventual": (False,), "both": (True, False)}[text]


def _sizes(given: str | None, usual: tuple[str, ...]) -> tuple[str, ...]:
    return usual if given is None else (given,)


def _read(size: str, rate: int, consistent: bool) -> dict[str, Any]:
    size_in_bytes = size_bytes(size)
    half_units = capacity.planned_read_half_units(rate, size_in_bytes, consistent)
    return {
        "operation": "read",
        "item_size": size,
        "rounded_kb": 4 * capacity.blocks(size_in_bytes, capacity.READ_BLOCK),
        "consistency": "strong" if consistent else "eventual",
        "rate": rate,
        "units": -(-half_units // 2),  # throughput is provisioned in whole units
    }


def _write(size: str, rate: int) -> dict[str, Any]:
    size_in_bytes = size_bytes(size)
    return {
        "operation": "write",
        "item_size": size,
        "rounded_kb": capacity.blocks(size_in_bytes, capacity.WRITE_BLOCK),
        "consistency": "",
        "rate": rate,
        "units": capacity.planned_write_units(rate, size_in_bytes),
    }
