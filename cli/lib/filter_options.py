"""Options that select changes: by table, event, expression or pattern.

--table Orders --on INSERT,MODIFY --when "NEW.Total > 100" --pattern '{"dynamodb": {"NewImage": {...}}}'
"""

import re
from typing import Annotated, Any, Final, TypeAlias

import typer

from ...model.errors import ValidationError
from ...model.lazy_dataclass import dataclass
from ...model.subscriptions.setting_types import EVENTS
from ...model.subscriptions.settings import check
from ...streams.decorator import condition
from ...streams.delivery.filter import ChangeFilter
from .completion import complete_tables, complete_triggers
from .errors import CommandError, ExitCode
from .literals import Lifted
from .options import NamesOption, Texts, ValuesOption
from .values import read_json

TriggerName: TypeAlias = Annotated[
    str,
    typer.Argument(metavar="NAME", help="The name of the trigger.", autocompletion=complete_triggers),
]
FROM: Final = typer.Option(
    "--from",
    metavar="PLACE",
    help="Start here: start, horizon, end, snapshot, -1h, a time, @POSITION or a sequence number.",
)

Tables: TypeAlias = Annotated[
    Texts,
    typer.Option(
        "--table",
        "-t",
        metavar="TABLE",
        help="Read the changes of this table. Repeat the flag for more.",
        autocompletion=complete_tables,
    ),
]

_IN_FILTERS: Final = "Invalid FilterExpression: "
_WORD: Final = re.compile(r"(?<![\w.:#])[A-Za-z_]\w*(?![\w(]|\s+\()")
_GRAMMAR: Final = frozenset(("OLD", "NEW", "AND", "OR", "NOT", "IN", "BETWEEN"))


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The tables whose changes are read, as arguments or as options. None given: all tables."""

    arguments: Annotated[Texts, typer.Argument(metavar="[TABLE]...", help="The same as --table.")] = None
    tables: Tables = None

    @property
    def names(self) -> list[str]:
        return [*(self.arguments or ()), *(self.tables or ())]


@dataclass(frozen=True, slots=True)
class FilterOptions:
    """The changes that are read, or that a trigger receives."""

    on: Annotated[
        Texts,
        typer.Option(
            metavar="EVENT",
            help="Select INSERT, MODIFY, REMOVE or READ. Repeat the flag, or use commas, for more.",
        ),
    ] = None
    when: Annotated[
        str | None,
        typer.Option(
            metavar="CONDITION",
            help="Select changes for which this is true of OLD and NEW, like NEW.Total > 100.",
        ),
    ] = None
    pattern: Annotated[
        Texts,
        typer.Option(
            metavar="JSON",
            help="Select changes that match this pattern of Lambda's filters. Repeat the flag for alternatives.",
        ),
    ] = None
    values: ValuesOption = None
    names: NamesOption = None

    def settings(self) -> dict[str, Any]:
        """Return the options as settings of a subscription.

        Raises:
            CommandError: An event is unknown, the expression is invalid, or a pattern is not a JSON object.
        """
        chosen: dict[str, Any] = {}
        lifted = Lifted(self.names or [], self.values or [])
        if self.on:
            chosen["Events"] = [_event(word) for text in self.on for word in text.split(",")]
        if self.when is not None:
            chosen["Filter"] = _filter(self.when, lifted)
        elif lifted.names or lifted.values:
            raise CommandError("--name and --value need --when", ExitCode.USAGE)
        if self.pattern:
            chosen["FilterCriteria"] = {"Filters": [{"Pattern": _pattern(text)} for text in self.pattern]}
        return chosen


def _filter(when: str, lifted: Lifted) -> dict[str, Any]:
    """Return the expression with placeholders for literals, and for the names after OLD and NEW."""
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
        raise CommandError(f"--on {word}: write one of {', '.join(EVENTS)}", ExitCode.USAGE)
    return event


def _pattern(text: str) -> str:
    if not isinstance(read_json(text, "--pattern"), dict):
        raise CommandError(f"--pattern {text}: a pattern is a JSON object", ExitCode.USAGE)
    return text


def chooser(chosen: dict[str, Any]) -> ChangeFilter:
    """Return the filter of the options.

    Raises:
        ValidationError: The expression or a pattern is invalid.
    """
    return ChangeFilter(check("tail", {"TableNames": ["any"], "Sink": {"Kind": "none"}} | chosen))
