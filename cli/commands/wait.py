"""`foldb wait`: wait until a write is visible everywhere, or until triggers have handled all changes."""

import time
from contextlib import closing
from typing import Annotated

import typer

from ...model.durations import duration
from ..lib.client import Client
from ..lib.durations import read_duration
from ..lib.errors import CommandError, ExitCode, NoAnswerError, RequestFailedError
from ..lib.session import Session

# The error with which a server ends a request that waited for the server's own deadline.
_DEADLINE_ERROR = "InternalServerError"
_POLL_S = 20.0
# The shortest timeout of a request, also with --timeout 0.
_POLL_MIN_S = 1.0


def wait(
    session: Session,
    position: Annotated[
        str | None,
        typer.Argument(
            help="A position from `x-foldb-position` or a footer: 10482.3, 2:10482.3, or several with commas."
        ),
    ] = None,
    triggers: Annotated[
        bool, typer.Option("--triggers", help="Wait until every trigger has handled all changes so far.")
    ] = False,
    timeout: Annotated[
        int | None,
        typer.Option(
            metavar="DURATION",
            parser=read_duration,
            show_default="no timeout",
            help="Fail after this time, like 200ms, 10s or 5m. 0 checks once.",
        ),
    ] = None,
) -> None:
    """With several partitions an index follows its table with a delay.

    An application sends the position of its last write in the header `x-foldb-position` of a read; a script runs this
    command. --triggers also waits for changes that triggers write, and for the triggers of those.

    Example: foldb wait 10482.3
    """
    if (position is None) is not triggers:
        raise CommandError("wait for a position, or for --triggers", ExitCode.USAGE)
    deadline = None if timeout is None else time.monotonic() + timeout / 1000
    after = "" if timeout is None else f" after {duration(timeout)}"
    if position is None:
        _wait_for_triggers(session, deadline, after)
        return
    wanted = position.removeprefix("@")
    while not _is_reached(session, wanted, deadline):
        if deadline is not None and time.monotonic() >= deadline:
            raise CommandError(f"@{wanted} is not reached{after}", ExitCode.UNREACHABLE)
    session.output.say(f"reached @{wanted}")


def _wait_for_triggers(session: Session, deadline: float | None, after: str) -> None:
    """Poll until triggers have settled. An answer before the poll's timeout means that they cannot settle."""
    # Imported here: its imports are slow, and `wait POSITION` does not need them.
    from ..lib.change_sources import check_triggers_run

    check_triggers_run(
        session, [each["Name"] for each in session.client.admin("ListSubscriptions")["Subscriptions"]]
    )
    while True:
        start = time.monotonic()
        poll_s = _POLL_S if deadline is None else max(_POLL_MIN_S, min(_POLL_S, deadline - start))
        answer = session.client.admin("WaitForTriggers", {"TimeoutMs": round(poll_s * 1000)})
        if answer["Settled"]:
            session.output.say("every trigger has handled all changes")
            return
        end = time.monotonic()
        cannot_settle = end - start < poll_s
        if cannot_settle or (deadline is not None and end >= deadline):
            raise CommandError(
                f"{answer['Why']}{'' if cannot_settle else after}. `foldb trigger list` shows more.",
                ExitCode.UNREACHABLE,
            )


def _is_reached(session: Session, position: str, deadline: float | None) -> bool:
    """Poll once, for at most the time until `deadline`, which may be less than the server's own deadline."""
    if deadline is None:
        return _has(session.client, position)
    with closing(session.client.copy(max(_POLL_MIN_S, deadline - time.monotonic()))) as client:
        try:
            return _has(client, position)
        except NoAnswerError:
            return False


def _has(client: Client, position: str) -> bool:
    try:
        client.admin("Wait", {"Position": position})
    except RequestFailedError as failure:
        if failure.name != _DEADLINE_ERROR:
            raise
        return False
    return True
