"""`foldb trigger replay`: deliver a range of history again."""

import time
from typing import Annotated, Any, Final

import typer

from ....model.lazy_dataclass import dataclass
from ...lib.change_sources import is_served, no_server_error
from ...lib.durations import now
from ...lib.errors import CommandError, ExitCode
from ...lib.filter_options import FROM, TriggerName
from ...lib.output import counted
from ...lib.progress import progress
from ...lib.session import Session
from ...lib.start_position import is_reversed, read_end, read_start
from ...lib.values import read_item

_POLL_S: Final = 0.2
_DONE: Final = "done"


@dataclass(frozen=True, slots=True)
class PartOptions:
    """The changes that are delivered again."""

    begin: Annotated[str, FROM]
    end: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="PLACE",
            help="End: -1h, a time, @POSITION or a sequence number. Default: now.",
        ),
    ] = None
    key: Annotated[
        str | None,
        typer.Option(
            "--key", metavar="KEY", help="Deliver only changes of this item: its key, or a JSON object."
        ),
    ] = None


def replay(
    session: Session,
    name: TriggerName,
    part: PartOptions,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the number of calls, and call nothing.")
    ] = False,
    side_effects: Annotated[
        bool,
        typer.Option(
            "--side-effects",
            help="Call also a command, a Lambda handler, a webhook or a topic, whose effects are repeated.",
        ),
    ] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the end of the replay.")] = True,
) -> None:
    """Call a trigger again for earlier changes; the calls are marked as a replay.

    The command counts calls and keys, and asks for confirmation. The replay is a subscription of its own, which ends
    after the last change: the trigger itself continues, with its own checkpoints. A function sees `change.replay`, and
    decides itself. Targets with effects outside the database are called with --side-effects only. Dead letters are
    delivered again by `foldb dlq retry`.

    Example: foldb trigger replay receipts --from 2026-11-20 --dry-run
    """
    request: dict[str, Any] = {"Name": name, "From": read_start(part.begin, now)}
    if request["From"]["At"] in ("NOW", "SNAPSHOT"):
        raise CommandError(f"--from {part.begin}: a replay begins in the past", ExitCode.USAGE)
    if part.end is not None:
        request["To"] = read_end(part.end, now)
        if is_reversed(request["From"], request["To"]):
            raise CommandError(f"--to {part.end} is before --from {part.begin}", ExitCode.USAGE)
    if part.key is not None:
        request["Key"] = _key(session, name, part.key)
    counts = session.client.admin("ReplaySubscription", request | {"DryRun": True})
    row = {"trigger": name, "calls": counts["Calls"], "changes": counts["Changes"], "keys": counts["Keys"]}
    if dry_run or not counts["Changes"]:
        session.output.row(row | {"side_effects": counts["SideEffects"]})
        session.output.say("nothing was called")
        return
    if counts["SideEffects"] and not side_effects:
        raise CommandError(
            f"nothing was called: {counted(counts['Calls'], 'call')} of {name} would repeat its effects outside the "
            "database. Give --side-effects to make them, or --dry-run to count them.",
            ExitCode.USAGE,
        )
    if wait and not is_served(session):
        raise no_server_error(session)
    session.confirm(
        f"Call {name} {counted(counts['Calls'], 'time')} again, for {counted(counts['Changes'], 'change')} of "
        f"{counted(counts['Keys'], 'key')}?"
    )
    request |= {"DryRun": False, "SideEffects": side_effects}
    begun = session.client.admin("ReplaySubscription", request)
    replay_name = begun["Replay"]
    ended = _watch(session, replay_name, counts["Changes"]) if wait else {}
    session.output.row(row | {"replay": replay_name} | ended)
    if ended.get("dead_letters"):
        raise CommandError(
            f"{counted(ended['dead_letters'], 'dead letter')}: `foldb dlq show {replay_name}` prints the errors",
            ExitCode.PARTLY,
        )
    if ended.get("status", _DONE) != _DONE:
        raise CommandError(
            f"the replay stopped early: `foldb trigger show {replay_name}` prints the reason", ExitCode.PARTLY
        )
    session.output.say(f"`foldb trigger show {replay_name}` prints its state")


def _watch(session: Session, name: str, total: int) -> dict[str, Any]:
    """Return the result of a replay at its end; print its progress until then."""
    shown = 0
    try:
        with progress(session.settings, session.output.stderr, name, total) as advance:
            while True:
                described = session.client.admin("DescribeSubscription", {"Name": name})
                handled = min(described["Handled"], total)  # changes that the filter drops count as handled
                advance(handled - shown)
                shown = handled
                if described["Status"] != "ACTIVE":
                    return {"status": described["Reason"], "dead_letters": described["Dead"]}
                time.sleep(_POLL_S)
    except KeyboardInterrupt as error:
        raise CommandError(
            f"interrupted; the replay continues: `foldb trigger pause {name}` stops it", ExitCode.INTERRUPTED
        ) from error


def _key(session: Session, name: str, text: str) -> dict[str, Any]:
    if text.lstrip().startswith("{"):
        return read_item(text, "--key", is_typed=session.settings.typed)
    tables = session.client.admin("DescribeSubscription", {"Name": name})["TableNames"]
    return session.shape(tables[0]).read_key([text], is_typed=session.settings.typed)
