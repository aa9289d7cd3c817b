"""`foldb capacity`: compute the capacity units of a workload."""

import math
import re
from decimal import Decimal
from typing import Annotated, Any, Literal

import typer

from ...model import capacity
from ..lib.command_group import CommandGroup
from ..lib.errors import CommandError, ExitCode
from ..lib.session import Session

app = CommandGroup()


@app.callback()
def group() -> None:
    """Make typer keep `plan` as a subcommand although it is the only one."""


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
