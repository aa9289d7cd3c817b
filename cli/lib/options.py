"""Arguments and options that several commands share."""

from typing import Annotated, Final, TypeAlias

import typer

from ...model.cuts import SEPARATOR, parse_cut
from ...model.lazy_dataclass import dataclass
from .completion import complete_cuts, complete_indexes, complete_tables
from .errors import CommandError, ExitCode
from .literals import Lifted

Texts: TypeAlias = list[str] | None

TableArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="TABLE", help="The name of the table.", autocompletion=complete_tables)
]
KeyWords: TypeAlias = Annotated[
    list[str], typer.Argument(metavar="KEY...", help="The partition key and sort key, or one JSON object.")
]
PartitionKeyWords: TypeAlias = Annotated[
    list[str], typer.Argument(metavar="PK...", help="The value of the partition key.")
]
SortOption: TypeAlias = Annotated[
    Texts,
    typer.Option(
        "--sk",
        metavar="'>= X'",
        help="Read only these sort keys: =, <, <=, >, >=, begins_with X, between X and Y. Repeat the flag for the next "
        "sort attribute of an index, in their order.",
    ),
]
SOURCE: Final = "A database folder, kafka://HOST:PORT/NAMESPACE, or the address of a server"

SourceArgument: TypeAlias = Annotated[
    str | None,
    typer.Argument(metavar="[SOURCE]", show_default="the database of --db", help=f"{SOURCE}."),
]

ValuesOption: TypeAlias = Annotated[
    Texts,
    typer.Option(
        "--value", metavar=":X=JSON", help="Set the value of a placeholder. Repeat the flag for more."
    ),
]
NamesOption: TypeAlias = Annotated[
    Texts,
    typer.Option(
        "--name", metavar="#N=NAME", help="Set the attribute name of a placeholder. Repeat the flag for more."
    ),
]
ConditionOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--if", metavar="CONDITION", help="Write only if this is true of the current item."),
]
ShowOld: TypeAlias = Annotated[
    bool, typer.Option("--show-old", help="Print the current item if the condition fails.")
]
Consistent: TypeAlias = Annotated[
    bool, typer.Option("--consistent", help="Make the read strongly consistent.")
]
Select: TypeAlias = Annotated[
    str | None, typer.Option("--select", metavar="A,B", help="Print only these attributes, or `count`.")
]
Where: TypeAlias = Annotated[
    str | None, typer.Option("--where", metavar="CONDITION", help="Print only items for which this is true.")
]
IndexOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--index", metavar="NAME", help="Read this index.", autocompletion=complete_indexes),
]


def check_cut(text: str) -> str:
    """Return a cut of the command line, without the `@` that footers print before it.

    Raises:
        CommandError: The text is not a cut.
    """
    cut = text.removeprefix(SEPARATOR)
    try:
        parse_cut(cut)
    except ValueError as error:
        raise CommandError(str(error), ExitCode.USAGE) from None
    return cut


AsOf: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="CUT",
        parser=check_cut,
        autocompletion=complete_cuts,
        help="Read the state at this position (10482.3, 2:10482), time (2026-11-20T12:00Z) or age (-1h).",
    ),
]


def name_as_of(table: str, as_of: str | None) -> str:
    """Return the name of a table at a cut; None is now."""
    return table if as_of is None else f"{table}{SEPARATOR}{as_of}"


DryRun: TypeAlias = Annotated[
    bool, typer.Option("--dry-run", help="Print the change and its size, and change nothing.")
]
"""The option of destructive commands. With it they end with `Output.plan` before they send a write."""


@dataclass(frozen=True, slots=True)
class Placeholders:
    """The placeholders of the expressions of a command."""

    values: ValuesOption = None
    names: NamesOption = None

    def lifted(self) -> Lifted:
        """Return the placeholders of a request, to which its expressions add theirs."""
        return Lifted(self.names or [], self.values or [])


@dataclass(frozen=True, slots=True)
class UpdateClauses:
    """The clauses of an update."""

    set_: Annotated[Texts, typer.Option("--set", metavar="'A = B'", help="Set attributes.")] = None
    remove: Annotated[Texts, typer.Option("--remove", metavar="A,B", help="Remove attributes.")] = None
    add: Annotated[Texts, typer.Option("--add", metavar="'A 1'", help="Add to a number or a set.")] = None
    delete: Annotated[Texts, typer.Option("--delete", metavar="'A :x'", help="Delete elements of a set.")] = (
        None
    )


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options that Query and Scan share."""

    index: IndexOption = None
    where: Where = None
    select: Select = None
    consistent: Consistent = False
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Read at most N items.")] = None
    everything: Annotated[bool, typer.Option("--all", help="Read all pages, not only the first.")] = False
    start: Annotated[
        str | None,
        typer.Option("--start", metavar="JSON", help="Start after this key, which a footer printed."),
    ] = None
    fail_empty: Annotated[bool, typer.Option("--fail-empty", help="Exit with code 1 if no item matches.")] = (
        False
    )
    as_of: AsOf = None


@dataclass(frozen=True, slots=True)
class PeriodOptions:
    """The part of a log that counts."""

    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="POSITION|TIME",
            autocompletion=complete_cuts,
            show_default="the beginning of the log",
            help="Count the writes from this position or time on: 10482, -1h, an ISO 8601 time.",
        ),
    ] = None
    end: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="POSITION|TIME",
            autocompletion=complete_cuts,
            show_default="the end of the log",
            help="Stop at this position or time.",
        ),
    ] = None
    log: Annotated[
        str | None,
        typer.Option("--log", metavar="SOURCE", show_default="the database of --db", help=f"{SOURCE}."),
    ] = None
    reads: Annotated[
        str | None,
        typer.Option(
            "--reads",
            metavar="FILE|server",
            help="Estimate the reads from this file of read units by time, or from the metrics of the running server.",
        ),
    ] = None
