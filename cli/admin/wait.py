"""`foldb wait`: until a write can be read everywhere."""

import time
from typing import Annotated

import typer

from ..failures import CommandError, ExitCode, ServerError
from ..session import Session

# What the server says when it has waited as long as it lets a request wait.
_NOT_YET = "InternalServerError"


def wait(
    ctx: typer.Context,
    position: Annotated[
        str,
        typer.Argument(
            help="As a footer or `x-foldb-position` tells it: 10482.3, 2:10482.3, or with commas."
        ),
    ],
    timeout: Annotated[float | None, typer.Option(metavar="SECONDS", help="Give up after so long.")] = None,
) -> None:
    """Wait until a position is folded, and the global indexes have what was written up to there.

    With several partitions an index follows its table a little later. A program says the position of its last write
    in the header `x-foldb-position` of a read; a script waits here.

    Example: foldb wait 10482.3
    """
    session: Session = ctx.obj
    end = None if timeout is None else time.monotonic() + timeout
    while not _is_reached(session, position.removeprefix("@")):
        if end is not None and time.monotonic() >= end:
            raise CommandError(f"@{position.removeprefix('@')} is not reached", ExitCode.UNREACHABLE)
    session.output.say(f"reached @{position.removeprefix('@')}")


def _is_reached(session: Session, position: str) -> bool:
    try:
        session.client.admin("Wait", {"Position": position})
    except ServerError as failure:
        if failure.name != _NOT_YET:
            raise
        return False
    return True
