"""`foldb alarm`: alarms on CloudWatch's metrics, which call a target when they change their state."""

from typing import Annotated, Any, Final

import typer

from ...model.lazy_dataclass import dataclass
from ..lib import trigger_options
from ..lib.command_group import CommandGroup
from ..lib.durations import read_duration
from ..lib.errors import CommandError, ExitCode, RequestFailedError
from ..lib.filter_options import Tables
from ..lib.options import DryRun
from ..lib.session import Session

app = CommandGroup()

Row = dict[str, Any]
AlarmName = Annotated[str, typer.Argument(metavar="NAME", help="The name of the alarm.")]

_TABLE: Final = "foldb-alarms"
_COMPARISONS: Final = {
    ">": "GreaterThanThreshold",
    ">=": "GreaterThanOrEqualToThreshold",
    "<": "LessThanThreshold",
    "<=": "LessThanOrEqualToThreshold",
}


@dataclass(frozen=True, slots=True)
class Condition:
    """The metric of an alarm, and the threshold."""

    metric: Annotated[
        str, typer.Option(metavar="NAME", help="The metric, like WriteThrottleEvents; see `foldb metrics`.")
    ]
    threshold: Annotated[str, typer.Option(metavar="X", help="The threshold, a number.")]
    statistic: Annotated[
        str, typer.Option(metavar="NAME", help="Sum, Average, Minimum, Maximum or SampleCount.")
    ] = "Sum"
    comparison: Annotated[str, typer.Option(metavar="OP", help="Breaching values are >, >=, < or <=.")] = ">="
    period: Annotated[
        int, typer.Option(metavar="TIME", parser=read_duration, help="The length of a period.")
    ] = 60_000
    evaluation_periods: Annotated[int, typer.Option(min=1, metavar="N", help="Evaluate N periods.")] = 1
    datapoints: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Breaching periods that make an alarm. Default: all periods."),
    ] = None
    missing: Annotated[
        str,
        typer.Option(
            metavar="WORD", help="Periods without samples: missing, notBreaching, breaching or ignore."
        ),
    ] = "missing"
    index: Annotated[str | None, typer.Option(metavar="INDEX", help="A global index of the table.")] = None
    operation: Annotated[str | None, typer.Option(metavar="NAME", help="One operation, like PutItem.")] = None

    def members(self) -> Row:
        """Return the condition as members of PutAlarm.

        Raises:
            CommandError: The comparison is unknown, or the threshold is no number.
        """
        if self.comparison not in _COMPARISONS:
            raise CommandError(
                f"--comparison {self.comparison}: write >, >=, < or <=, in quotes", ExitCode.USAGE
            )
        try:
            threshold = float(self.threshold)
        except ValueError:
            raise CommandError(f"--threshold {self.threshold}: write a number", ExitCode.USAGE) from None
        members = {
            "MetricName": self.metric,
            "Statistic": self.statistic,
            "Threshold": threshold,
            "ComparisonOperator": _COMPARISONS[self.comparison],
            "Period": self.period // 1000,
            "EvaluationPeriods": self.evaluation_periods,
            "DatapointsToAlarm": self.datapoints,
            "TreatMissingData": self.missing,
            "GlobalSecondaryIndexName": self.index,
            "Operation": self.operation,
        }
        return {name: value for name, value in members.items() if value is not None}


@app.command()
@trigger_options.with_trigger_options
def add(
    session: Session,
    name: AlarmName,
    tables: Tables = None,
    sink: trigger_options.SinkOption = None,
    on: Annotated[
        str,
        typer.Option(
            metavar="STATES", help="Call the target on ALARM, OK or INSUFFICIENT_DATA, or on several."
        ),
    ] = "ALARM",
    *,
    condition: Condition,
    **options: Any,
) -> None:
    """Call a target when a metric of a table crosses a threshold.

    The target receives a change of the alarm's item in the table `foldb-alarms`, as a trigger delivers it. The options
    of its delivery are those of a trigger.

    Example: foldb alarm add slow --metric SuccessfulRequestLatency --statistic Maximum --threshold 500 --file alarms
    """
    called = trigger_options.sink_of(options, sink)
    if "Kind" not in called:
        raise CommandError(
            f"name the target: {', '.join(trigger_options.sink_flags())}, or --sink with its Kind",
            ExitCode.USAGE,
        )
    if tables and len(tables) > 1:
        raise CommandError("--table: an alarm is on one table, or without the option on all", ExitCode.USAGE)
    request = {
        "AlarmName": name,
        **condition.members(),
        **({"TableName": tables[0]} if tables else {}),
        "States": [state.strip() for state in on.split(",")],
        "Subscription": trigger_options.settings_of(options) | {"Sink": called},
    }
    session.output.row(_summary(session.client.admin("PutAlarm", request)))


@app.command("list")
def list_(session: Session) -> None:
    """Print all alarms with their conditions and states.

    Example: foldb alarm list
    """
    session.output.rows(
        map(_summary, session.client.admin("DescribeAlarms")["Alarms"]), first=("alarm", "state")
    )


@app.command()
def describe(session: Session, name: AlarmName) -> None:
    """Print all members of an alarm, its state and its target.

    Example: foldb alarm describe slow
    """
    alarm = _find(session, name)
    if alarm is None:
        raise CommandError(
            f"{name} is no alarm, because its item was edited: `foldb item get {_TABLE} {name}` prints the item, and "
            f"`foldb alarm remove {name}` removes it",
            ExitCode.INVALID,
        )
    session.output.row(alarm)


@app.command()
def remove(session: Session, name: AlarmName, dry_run: DryRun = False) -> None:
    """Remove an alarm and its trigger, after confirmation; also an alarm whose item was edited into none.

    Example: foldb alarm remove slow --yes
    """
    alarm = _find(session, name)
    removed = f"the item {name} of {_TABLE}, which is no alarm because it was edited, and its trigger"
    if dry_run:
        shown = (
            {"change": f"remove {removed}"}
            if alarm is None
            else {"change": "remove the alarm"} | _summary(alarm)
        )
        session.output.plan(shown)
        return
    session.confirm(f"Remove {removed if alarm is None else f'the alarm {name}'}?")
    session.client.admin("DeleteAlarm", {"AlarmName": name})
    session.output.say(f"{name}: removed")


def _find(session: Session, name: str) -> Row | None:
    """Return an alarm. None: its item was edited into something that is no alarm.

    Raises:
        RequestFailedError: No alarm has the name.
    """
    try:
        [alarm] = session.client.admin("DescribeAlarms", {"AlarmName": name})["Alarms"]
    except RequestFailedError as error:
        if error.code is ExitCode.NOT_FOUND and _has_item(session, name):
            return None
        raise
    return dict(alarm)


def _has_item(session: Session, name: str) -> bool:
    """Return whether the table of alarms has an item of this name; without the table there is none."""
    try:
        answer = session.client.call("GetItem", {"TableName": _TABLE, "Key": {"AlarmName": {"S": name}}})
    except RequestFailedError as error:
        if error.code is ExitCode.NOT_FOUND:
            return False
        raise
    return "Item" in answer


def _summary(alarm: Row) -> Row:
    operator = next(short for short, long in _COMPARISONS.items() if long == alarm["ComparisonOperator"])
    sink = alarm["Sink"]
    return {
        "alarm": alarm["AlarmName"],
        "state": alarm["StateValue"],
        "updated": alarm["StateUpdated"],
        "table": alarm.get("TableName"),
        "condition": f"{alarm['Statistic']} {alarm['MetricName']} {operator} {alarm['Threshold']} in "
        f"{alarm['DatapointsToAlarm']} of {alarm['EvaluationPeriods']} periods of {alarm['Period']} s",
        "target": None if sink is None else trigger_options.sink_text(sink),
        "reason": alarm["StateReason"],
    }
