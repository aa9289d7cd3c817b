"""Which changes are meant, as options say it: by table, by what happened, by an expression, by a pattern.

--table Orders --on INSERT,MODIFY --when "NEW.Total > 100" --pattern '{"dynamodb": {"NewImage": {...}}}'
"""

import re
from typing import Annotated, Any, Final, TypeAlias

import typer

from ...model.errors import ValidationError
from ...model.subscriptions import check
from ...model.subscriptions.setting_types import EVENTS
from ...streams.decorator import condition
from ...streams.delivery.filter import ChangeFilter
from .errors import CommandError, ExitCode
from .literals import Lifted
from .options import Names, Values
from .values import read_json

__all__ = [
    "FROM", "Events", "Names", "Pattern", "TableNames", "Tables", "TriggerName", "Values", "When", "choice", "chooser",
]  # fmt: skip

TriggerName: TypeAlias = Annotated[str, typer.Argument(metavar="NAME", help="The trigger's name.")]
FROM: Final = typer.Option(
    "--from",
    metavar="PLACE",
    help="start, horizon, end, snapshot, -1h, a time, @POSITION or a sequence number.",
)

Tables: TypeAlias = Annotated[
    list[str] | None, typer.Option("--table", "-t", metavar="TABLE", help="Of this table; repeat it.")
]
TableNames: TypeAlias = Annotated[
    list[str] | None, typer.Argument(metavar="[TABLE]...", help="The same as --table.")
]
Events: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--on", metavar="EVENT", help="Only INSERT, MODIFY, REMOVE or READ; repeat it, or use commas."
    ),
]
When: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--when", metavar="CONDITION", help="Only where this holds for OLD and NEW: NEW.Total > 100."
    ),
]
Pattern: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--pattern",
        metavar="JSON",
        help="Only what has this pattern, as Lambda's filters have; repeated: or that.",
    ),
]

_IN_FILTERS: Final = "Invalid FilterExpression: "
_WORD: Final = re.compile(r"(?<![\w.:#])[A-Za-z_]\w*(?![\w(]|\s+\()")
_GRAMMAR: Final = frozenset(("OLD", "NEW", "AND", "OR", "NOT", "IN", "BETWEEN"))


def choice(
    on: list[str] | None,
    when: str | None,
    patterns: list[str] | None,
    names: list[str] | None,
    values: list[str] | None,
) -> dict[str, Any]:
    """The same as members of a subscription's settings.

    Raises:
        CommandError: There is no such event, the expression is none, or a pattern is no JSON object.
    """
    chosen: dict[str, Any] = {}
    lifted = Lifted(names or [], values or [])
    if on:
        chosen["Events"] = [_event(word) for text in on for word in text.split(",")]
    if when is not None:
        chosen["Filter"] = _filter(when, lifted)
    elif lifted.names or lifted.values:
        raise CommandError("--name and --value are for --when, which is not there", ExitCode.USAGE)
    if patterns:
        chosen["FilterCriteria"] = {"Filters": [{"Pattern": _pattern(text)} for text in patterns]}
    return chosen


def _filter(when: str, lifted: Lifted) -> dict[str, Any]:
    """The expression without the literals and the names behind OLD and NEW, which may be reserved words."""
    written = condition(when, lifted.names, {})
    for word in _WORD.findall(written["Expression"]):
        if word.upper() not in _GRAMMAR:
            raise CommandError(
                f"--when {when}: write NEW.{word} or OLD.{word}, and strings in quotes", ExitCode.USAGE
            )
    values = lifted.values | written.get("ExpressionAttributeValues", {})
    written |= {"ExpressionAttributeValues": values} if values else {}
    try:
        chooser({"Filter": written})
    except ValidationError as error:
        raise CommandError(
            f"--when {when}: {error.message.removeprefix(_IN_FILTERS)}", ExitCode.USAGE
        ) from None
    return written


def _event(word: str) -> str:
    event = word.strip().upper()
    if event not in EVENTS:
        raise CommandError(f"--on {word}: an event is one of {', '.join(EVENTS)}", ExitCode.USAGE)
    return event


def _pattern(text: str) -> str:
    if not isinstance(read_json(text, "--pattern"), dict):
        raise CommandError(f"--pattern {text}: a pattern is a JSON object", ExitCode.USAGE)
    return text


def chooser(chosen: dict[str, Any]) -> ChangeFilter:
    """What says of each change whether it is meant.

    Raises:
        ValidationError: The expression or a pattern is none.
    """
    return ChangeFilter(check("tail", {"TableNames": ["any"], "Sink": {"Kind": "none"}} | chosen))
