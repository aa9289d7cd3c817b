"""The `foldb` command: global flags, the list of commands, and how each of them ends.

The global flags may stand before or after the command. Whatever a command cannot do ends in one
sentence on stderr and an exit code of `failures`; only a bug ends in a traceback.

    foldb scan Music ──► global flags ──► COMMANDS["scan"] ──► import ──► run

A command is imported once it is known that it is the one: people wait for this program at a prompt.
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

from .. import __version__
from ..model.errors import FoldbError
from .commands import COMMANDS
from .failures import CommandError, ExitCode, of_foldb
from .settings import Color, Format, Settings, default_database

_SWITCHES = frozenset(("--typed", "-q", "--quiet", "--no-progress", "--yes", "-y", "--no-input", "--version"))
_VALUED = frozenset(("--db", "-o", "--output", "--color"))


class Program(TyperGroup):
    """The top of the program: takes global flags from anywhere, and turns failures into exit codes.

    Its commands are stand-ins that know their summary, until they are loaded.
    """

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {name: TyperCommand(name, help=place.summary) for name, place in COMMANDS.items()}

    def load(self, name: str) -> None:
        """Put a command in the place of its stand-in."""
        module, _, member = COMMANDS[name].target.partition(":")
        command = _made(getattr(import_module(f".commands.{module}", __package__), member))
        command.name = name
        self.commands[name] = command

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, flags_first(args))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in COMMANDS:
            self.load(args[0])
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (CommandError, FoldbError) as error:
            failure = error if isinstance(error, CommandError) else of_foldb(error)
            typer.echo(f"foldb: {failure.sentence}", err=True)
            raise typer.Exit(failure.code) from error
        except KeyboardInterrupt as error:
            typer.echo("foldb: interrupted", err=True)
            raise typer.Exit(ExitCode.INTERRUPTED) from error
        except BrokenPipeError as error:
            # The reader has what it wanted: `foldb scan T | head`. Python must not try to write the rest at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(ExitCode.DONE) from error


def _made(command: Any) -> Any:
    """What typer makes of a function, or of a group of them."""
    if isinstance(command, typer.Typer):
        return typer.main.get_group(command)
    alone = typer.Typer(add_completion=False)
    alone.command()(command)
    return typer.main.get_command(alone)


def flags_first(args: Sequence[str]) -> list[str]:
    """Move global flags in front of the command; after `--` nothing is a flag.

    >>> flags_first(["scan", "Music", "-o", "csv", "--limit", "5"])
    ['-o', 'csv', 'scan', 'Music', '--limit', '5']
    """
    first: list[str] = []
    rest: list[str] = []
    words = iter(args)
    for word in words:
        if word == "--":
            return [*first, *rest, word, *words]
        if word in _VALUED:
            first += [word, *_next(words)]
        elif word in _SWITCHES or word.partition("=")[0] in _VALUED:
            first.append(word)
        else:
            rest.append(word)
    return first + rest


def _next(words: Any) -> list[str]:
    return [word for word in (next(words, None),) if word is not None]


app = typer.Typer(
    cls=Program,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="A DynamoDB-compatible database whose only source of truth is a log.",
    epilog="Global options may also stand behind the command. Example: foldb scan Music -o csv",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"foldb {__version__}")
        raise typer.Exit


@app.callback()
def main(
    ctx: typer.Context,
    db: Annotated[
        str | None,
        typer.Option(
            metavar="PATH|URL",
            show_default="$FOLDB_DB, else http://127.0.0.1:8000",
            help="A folder or a server.",
        ),
    ] = None,
    output: Annotated[
        Format | None,
        typer.Option(
            "--output", "-o", show_default="table on a terminal, else jsonl", help="How to write data."
        ),
    ] = None,
    typed: Annotated[bool, typer.Option("--typed", help="Items in DynamoDB JSON, in and out.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Data and errors only.")] = False,
    no_progress: Annotated[bool, typer.Option("--no-progress", help="No progress bars.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Answer every question with yes.")] = False,
    no_input: Annotated[
        bool, typer.Option("--no-input", help="Never ask: fail where a question is due.")
    ] = False,
    color: Annotated[Color, typer.Option(help="Colours.")] = Color.AUTO,
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    from .session import Session  # --help and --version do without

    session = Session(
        Settings(
            db=db or default_database(),
            format=output,
            typed=typed,
            quiet=quiet,
            progress=not no_progress,
            yes=yes,
            no_input=no_input,
            color=color,
        )
    )
    ctx.obj = session
    ctx.call_on_close(session.close)


def run() -> None:
    """What the console script calls."""
    app(prog_name="foldb")
