"""Which changes are meant, as options say it: by table, by what happened, by an expression, by a pattern.

--table Orders --on INSERT,MODIFY --when "NEW.Total > 100" --pattern '{"dynamodb": {"NewImage": {...}}}'
"""

from typing import Annotated, Any, Final, TypeAlias

import typer

from ...model.subscriptions import check
from ...streams.declared import condition
from ...streams.subscriptions.choosing import Chooser
from ..commands.options import Names, Values
from ..failures import CommandError, ExitCode
from ..literals import Lifted
from ..values import read_json

__all__ = ["Events", "Names", "Pattern", "Tables", "Values", "When", "choice", "chooser"]

Tables: TypeAlias = Annotated[
    list[str] | None, typer.Option("--table", "-t", metavar="TABLE", help="Of this table; repeat it.")
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

_EVENTS: Final = ("INSERT", "MODIFY", "REMOVE", "READ")


def choice(on: list[str], when: str | None, patterns: list[str], lifted: Lifted) -> dict[str, Any]:
    """The same as members of a subscription's settings.

    Raises:
        CommandError: There is no such event, or a pattern is no JSON object.
    """
    chosen: dict[str, Any] = {}
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
    values = lifted.values | written.get("ExpressionAttributeValues", {})
    return written | ({"ExpressionAttributeValues": values} if values else {})


def _event(word: str) -> str:
    event = word.strip().upper()
    if event not in _EVENTS:
        raise CommandError(f"--on {word}: an event is one of {', '.join(_EVENTS)}", ExitCode.USAGE)
    return event


def _pattern(text: str) -> str:
    if not isinstance(read_json(text, "--pattern"), dict):
        raise CommandError(f"--pattern {text}: a pattern is a JSON object", ExitCode.USAGE)
    return text


def chooser(chosen: dict[str, Any]) -> Chooser:
    """What says of each change whether it is meant.

    Raises:
        ValidationError: The expression or a pattern is none.
    """
    return Chooser(check("tail", {"TableNames": ["any"], "Sink": {"Kind": "none"}} | chosen))
