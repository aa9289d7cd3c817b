"""`foldb partition`: the partition of a key, the capacity partitions of a table, and the key ranges with traffic."""

import shutil
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import typer

from ..lib.command_group import CommandGroup
from ..lib.heat import Heat, HeatLayer, HeatPart, draw_map, read_heat
from ..lib.options import AsOf, KeyWords, TableArgument
from ..lib.output import time_text, whole_or_half
from ..lib.session import Session
from ..lib.settings import Format
from ..lib.values import read_item

app = CommandGroup()


@app.command("list")
def list_(session: Session, table: TableArgument, as_of: AsOf = None) -> None:
    """List the capacity partitions of a table and its global indexes, in the order of their keys.

    A range begins at the hash of a partition key, or at a key. With --throttle partitions split: each has its parent,
    the reason and the log time of the split. With --as-of the definition at the cut determines them.

    Example: foldb partition list Music
    """
    body = {"TableName": table} | ({} if as_of is None else {"AsOf": as_of})
    answer = session.client.admin("CapacityPartitions", body)
    session.output.rows(_partition_row(each) for each in answer["Partitions"])


def _partition_row(each: dict[str, Any]) -> dict[str, Any]:
    return {
        "index": each["IndexName"] or "",
        "id": each["Id"],
        "low": _boundary(each["Low"]),
        "high": _boundary(each["High"]),
        "parent": each["Parent"],
        "reason": each["Reason"],
        "time": None if each["BornMs"] is None else time_text(each["BornMs"]),
    }


def _boundary(boundary: dict[str, Any]) -> str:
    """Return a boundary as text: its hash, and the key if it is inside an item collection."""
    keys = [
        bytes.fromhex(boundary[name]).decode(errors="backslashreplace")
        for name in ("pk", "sk")
        if name in boundary
    ]
    return " ".join([boundary["hash"], *keys])


@app.command()
def of(session: Session, table: TableArgument, key: KeyWords) -> None:
    """Print the slot of a key, its partition, the node that owns the partition, and the capacity partition.

    The sort key may be omitted, because the partition key alone decides, except where a collection was split.

    Example: foldb partition of Music Kyuss
    """
    if len(key) == 1 and not key[0].lstrip().startswith("{"):
        shape = session.shape(table)
        [name] = shape.key_names(role="HASH")
        wanted = {name: shape.value(name, key[0])}
    elif len(key) == 1:
        wanted = read_item(key[0], "the key", is_typed=session.settings.typed)
    else:
        wanted = session.shape(table).read_key(key, is_typed=session.settings.typed)
    session.output.row(session.client.admin("Partition", {"TableName": table, "Key": wanted}))


@app.command()
def heat(
    session: Session,
    table: TableArgument,
    index: Annotated[
        str | None, typer.Option("--index", metavar="NAME", help="Draw only this global index.")
    ] = None,
    layer: Annotated[
        Literal["reads", "writes", "throttles"] | None,
        typer.Option("--layer", help="Draw only this layer. By default those with traffic are drawn."),
    ] = None,
    hour: Annotated[
        bool, typer.Option("--hour", help="Draw an hour in columns of a minute, not ten minutes of 10 s.")
    ] = False,
) -> None:
    """Draw a map of the traffic of a table and its global indexes: a column for a time, a line for a key range.

    A hot key is one bright line. `├` marks the first line of a capacity partition, and `┼` a split of one. The
    server measures tables with Contributor Insights, and all tables with `foldb serve --heat`. In a pipe, and with
    -o, each time bucket is a row with the units of 64 equal ranges of slots.

    Example: foldb partition heat Music
    """
    found = read_heat(session, TableName=table, BucketMs=60_000 if hour else 10_000)
    shown = [
        (part, each)
        for part in found.parts
        for each in part.layers.values()
        if index in (None, part.index) and each.name.lower() == (layer or each.name.lower()) and each.buckets
    ]
    if not session.output.draws and session.settings.format is not Format.TABLE:
        session.output.rows(_rows(found, shown))
        return
    width, height = shutil.get_terminal_size()
    for part, each in shown:
        for line in draw_map(part, each, found, width=width, height=height):
            session.output.line(line)
    if not shown:
        session.output.say(
            f"there was no such traffic of {table} in the last {'hour' if hour else '10 minutes'}"
        )


def _rows(found: Heat, shown: list[tuple[HeatPart, HeatLayer]]) -> Iterator[dict[str, Any]]:
    for part, layer in shown:
        for time_ms, values in layer.buckets.items():
            yield part.names | {
                "layer": layer.name.lower(),
                "time": time_text(time_ms),
                "seconds": found.bucket_ms // 1000,
                "units": [whole_or_half(value) for value in values],
            }
