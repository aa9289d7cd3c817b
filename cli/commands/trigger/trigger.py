"""`foldb trigger`: add, inspect, pause, reset, replay and test triggers."""

import time
from decimal import Decimal
from typing import Annotated, Any, Final

import typer

from ...lib import trigger_options
from ...lib.change_sources import check_triggers_run
from ...lib.command_group import CommandGroup
from ...lib.completion import complete_triggers
from ...lib.durations import now
from ...lib.errors import CommandError, ExitCode
from ...lib.filter_options import FROM, FilterOptions, Tables, TriggerName
from ...lib.options import DryRun
from ...lib.output import counted
from ...lib.session import Session
from ...lib.start_position import read_start
from .debug import debug
from .explain import explain
from .replay import replay
from .test import run_test

app = CommandGroup()

Row = dict[str, Any]

_START_TIMEOUT_S: Final = 3.0
_POLL_S: Final = 0.02


@app.command()
@trigger_options.with_trigger_options
def add(
    session: Session,
    name: TriggerName,
    tables: Tables = None,
    sink: trigger_options.SinkOption = None,
    begin: Annotated[str | None, FROM] = None,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Update the existing trigger NAME: only the given settings change."),
    ] = False,
    *,
    filter_: FilterOptions,
    **options: Any,
) -> None:
    """Call a target when items of a table change: of the table NAME, or those of --table.

    Commands and functions come from the server's folder of --triggers. Every change after this command is delivered;
    --from delivers earlier ones too.

    Example: foldb trigger add receipts --table Orders --python receipts.py:send --when "NEW.Status = 'PAID'"
    """
    called = trigger_options.sink_of(options, sink)
    settings = filter_.settings() | trigger_options.settings_of(options)
    if called:
        settings["Sink"] = called
    if replace:
        _replace(session, name, settings | ({"TableNames": tables} if tables else {}), begin)
        return
    if "Kind" not in called:
        raise CommandError(
            f"name the target: {', '.join(trigger_options.sink_flags())}, or --sink with its Kind",
            ExitCode.USAGE,
        )
    request = {
        "Name": name,
        "TableNames": tables or [name],
        "Start": read_start(begin or "end", now),
    } | settings
    session.client.admin("CreateSubscription", request)
    described = _wait_until_started(session, name)
    session.output.row(_summary(described))
    if described["LastError"] is not None and not _is_started(described):
        raise CommandError(
            f"{name} is added, but its target cannot be loaded: {described['LastError']}. Loading is retried; "
            f"`foldb trigger show {name}` prints its state.",
            ExitCode.PARTLY,
        )


def _replace(session: Session, name: str, settings: Row, begin: str | None) -> None:
    if begin is not None:
        raise CommandError(
            f"--from: `foldb trigger reset {name} --from {begin}` moves an existing trigger", ExitCode.USAGE
        )
    if "Sink" in settings and "Kind" not in settings["Sink"]:
        raise CommandError(
            "--sink: a target is replaced as a whole: give its Kind, or its option such as --webhook URL",
            ExitCode.USAGE,
        )
    if not settings:
        raise CommandError("nothing to change: see `foldb trigger add --help`", ExitCode.USAGE)
    session.client.admin("UpdateSubscription", {"Name": name} | settings)
    _print_summary(session, name)


@app.command("list")
def list_(session: Session) -> None:
    """Print all triggers with target, status and lag.

    Example: foldb trigger list
    """
    session.output.rows(
        [_summary(_described(session, name)) for name in _names(session)],
        first=("trigger", "tables", "target", "status"),
    )


@app.command()
def show(session: Session, name: TriggerName) -> None:
    """Print a trigger's settings, checkpoints, lag, rates, errors and blocked keys.

    Example: foldb trigger show receipts -o json
    """
    session.output.row(_described(session, name))


@app.command()
def pause(
    session: Session,
    name: TriggerName,
    drain: Annotated[bool, typer.Option("--drain", help="First deliver all changes written so far.")] = False,
) -> None:
    """Stop calling the target. `foldb trigger resume` continues from the checkpoint, without loss.

    Example: foldb trigger pause receipts --drain
    """
    if drain:
        check_triggers_run(session, [name])
    session.client.admin("PauseSubscription", {"Name": name, "Drain": drain})
    _print_summary(session, name)


@app.command()
def resume(session: Session, name: TriggerName) -> None:
    """Continue a paused or stopped trigger from its checkpoint.

    Example: foldb trigger resume receipts
    """
    session.client.admin("ResumeSubscription", {"Name": name})
    _print_summary(session, name)


@app.command()
def reset(session: Session, name: TriggerName, begin: Annotated[str, FROM]) -> None:
    """Move a trigger to another start, after confirmation. Later changes are delivered, also those delivered before.

    Example: foldb trigger reset receipts --from 2026-11-20T12:00:00Z
    """
    start = read_start(begin, now)
    _described(session, name)
    session.confirm(f"Set {name} to {begin}? Later changes are delivered, also those delivered before.")
    session.client.admin("ResetSubscription", {"Name": name, "Start": start})
    _print_summary(session, name)


@app.command()
def remove(session: Session, name: TriggerName, dry_run: DryRun = False) -> None:
    """Remove a trigger, after confirmation. The table of its dead letters is kept.

    Example: foldb trigger remove receipts --yes
    """
    described = _described(session, name)
    if dry_run:
        summary = _summary(described)
        members = ("trigger", "tables", "target", "status", "behind", "dead_letters")
        session.output.plan({"change": "remove the trigger"} | {each: summary[each] for each in members})
        return
    session.confirm(f"Remove the trigger {name} on {', '.join(described['TableNames'])}?")
    session.client.admin("RemoveSubscription", {"Name": name})
    session.output.say(f"{name}: removed")


@app.command()
def lag(
    session: Session,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="Name of a trigger. Default: all triggers.",
            autocompletion=complete_triggers,
        ),
    ] = None,
) -> None:
    """Print the lag of triggers per partition, in changes and in seconds.

    Example: foldb trigger lag receipts
    """
    names = _names(session) if name is None else [name]
    rows = [row for each in names for row in _lag_rows(_described(session, each))]
    session.output.rows(rows, first=("trigger", "partition", "changes", "seconds"))
    behind = sum(row["changes"] for row in rows)
    session.output.say(f"{counted(behind, 'change')} behind")


app.command()(debug)
app.command()(replay)
app.command("test")(run_test)
app.command()(explain)


def _names(session: Session) -> list[str]:
    return [each["Name"] for each in session.client.admin("ListSubscriptions")["Subscriptions"]]


def _described(session: Session, name: str) -> Row:
    described: Row = session.client.admin("DescribeSubscription", {"Name": name})
    return described


def _wait_until_started(session: Session, name: str) -> Row:
    """Return a trigger once its target is loaded or failed to load, so that `add` reports a wrong function name."""
    deadline = time.monotonic() + _START_TIMEOUT_S
    while True:
        described = _described(session, name)
        here, error = described["RunsHere"], described["LastError"]
        if not here or _is_started(described) or error is not None or time.monotonic() > deadline:
            return described
        time.sleep(_POLL_S)


def _is_started(described: Row) -> bool:
    """Return whether the target is loaded on the node that answered."""
    return bool(described.get("Figures", {}).get("IsStarted"))


def _print_summary(session: Session, name: str) -> None:
    session.output.row(_summary(_described(session, name)))


def _summary(described: Row) -> Row:
    lag = described["Lag"].values()
    return {
        "trigger": described["Name"],
        "tables": described["TableNames"],
        "target": trigger_options.sink_text(described["Settings"]["Sink"]),
        "status": described["Status"],
        **({"reason": described["Reason"]} if described["Reason"] else {}),
        "handled": described["Handled"],
        "behind": sum(each["Changes"] for each in lag),
        "seconds": _seconds(max((each["Milliseconds"] for each in lag), default=0)),
        "dead_letters": described["Dead"],
        "last_error": described["LastError"],
    }


def _seconds(milliseconds: int) -> Decimal:
    return Decimal(milliseconds) / 1000


def _lag_rows(described: Row) -> list[Row]:
    return [
        {
            "trigger": described["Name"],
            "partition": int(partition),
            "changes": lag["Changes"],
            "seconds": _seconds(lag["Milliseconds"]),
            "checkpoint": described["Checkpoints"].get(partition),
        }
        for partition, lag in described["Lag"].items()
    ]
