"""`foldb wait`: until a write can be read everywhere, or until triggers have handled all that was written."""

import time
from contextlib import closing
from typing import Annotated

import typer

from ..lib.client import Client
from ..lib.errors import CommandError, ExitCode, NoAnswerError, RequestFailedError
from ..lib.session import Session

# What the server says when it has waited as long as it lets a request wait.
_NOT_YET = "InternalServerError"
_AT_ONCE_S = 20.0
# The least time that a request may take, also with --timeout 0.
_LOOK_S = 1.0


def wait(
    ctx: typer.Context,
    position: Annotated[
        str | None,
        typer.Argument(
            help="As a footer or `x-foldb-position` tells it: 10482.3, 2:10482.3, or with commas."
        ),
    ] = None,
    triggers: Annotated[
        bool, typer.Option("--triggers", help="Until every trigger has handled what was written so far.")
    ] = False,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", min=0, help="Fail after this time. Default: never.")
    ] = None,
) -> None:
    """Wait until a position is folded and the global indexes have it, or until triggers are done.

    With several partitions an index follows its table a little later. A program says the position of its last write
    in the header `x-foldb-position` of a read; a script waits here. With --triggers it is what is called that one waits
    for: also for what triggers write meanwhile, and what that calls.

    Example: foldb wait 10482.3
    """
    session: Session = ctx.obj
    if (position is None) is not triggers:
        raise CommandError("wait for a position, or for --triggers", ExitCode.USAGE)
    end = None if timeout is None else time.monotonic() + timeout
    if position is None:
        _settle(session, end, timeout)
        return
    place = position.removeprefix("@")
    while not _is_reached(session, place, end):
        if end is not None and time.monotonic() >= end:
            raise CommandError(f"@{place} is not reached after {timeout:g} s", ExitCode.UNREACHABLE)
    session.output.say(f"reached @{place}")


def _settle(session: Session, end: float | None, timeout: float | None) -> None:
    """Ask again for as long as the server only lacked time; what does not run keeps it from settling at all."""
    from ..lib.change_sources import check_called  # who waits for a position does without all that

    check_called(
        session, [each["Name"] for each in session.client.admin("ListSubscriptions")["Subscriptions"]]
    )
    while True:
        begun = time.monotonic()
        left = _AT_ONCE_S if end is None else max(_LOOK_S, min(_AT_ONCE_S, end - begun))
        answer = session.client.admin("WaitForTriggers", {"TimeoutMs": round(left * 1000)})
        if answer["Settled"]:
            session.output.say("every trigger has handled what was written")
            return
        now = time.monotonic()
        cannot_settle = now - begun < left
        if cannot_settle or (end is not None and now >= end):
            after = "" if cannot_settle else f" after {timeout:g} s"
            raise CommandError(
                f"{answer['Why']}{after}. `foldb trigger list` tells more.", ExitCode.UNREACHABLE
            )


def _is_reached(session: Session, position: str, end: float | None) -> bool:
    """Ask once. The server lets a request wait for some seconds, which may be longer than until `end`."""
    if end is None:
        return _has(session.client, position)
    with closing(session.client.copy(max(_LOOK_S, end - time.monotonic()))) as client:
        try:
            return _has(client, position)
        except NoAnswerError:
            return False


def _has(client: Client, position: str) -> bool:
    try:
        client.admin("Wait", {"Position": position})
    except RequestFailedError as failure:
        if failure.name != _NOT_YET:
            raise
        return False
    return True
