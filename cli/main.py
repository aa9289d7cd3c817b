"""The `foldb` command: global flags, the list of commands, and how each of them ends.

The global flags may stand before or after the command. Whatever a command cannot do ends in one
sentence on stderr and an exit code of `failures`; only a bug ends in a traceback.

    foldb scan Music ──► global flags ──► COMMANDS["scan"] ──► import ──► run

A command is imported once it is known that it is the one: people wait for this program at a prompt.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

from ..model.errors import FoldbError
from ..version import __version__
from .commands import COMMANDS
from .lib.errors import CommandError, ExitCode, RequestFailedError, of_foldb, of_system
from .lib.settings import DEFAULT_URL, Color, Format, Settings, credentials, default_ca, default_database

_SWITCHES = frozenset(("--typed", "-q", "--quiet", "--no-progress", "--yes", "-y", "--no-input", "--version"))
_VALUED = frozenset(("--db", "-o", "--output", "--color", "--profile", "--ca"))

_STDERR = 2

# Everything that typer finds wrong with a command line is one of these. It has no public name for them.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]


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
        command = _made(getattr(import_module(f".{module}", __package__), member))
        command.name = name
        self.commands[name] = command

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        with _ending_in_a_sentence():
            _refuse_what_is_not_utf8(args)
            return super().parse_args(ctx, flags_first(args))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in COMMANDS:
            self.load(args[0])
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        with _ending_in_a_sentence():
            try:
                return super().invoke(ctx)
            except RequestFailedError as failure:
                if (
                    failure.table is not None
                    and (closest := ctx.obj.closest_table(failure.table)) is not None
                ):
                    failure.suggest(closest)
                raise


@contextmanager
def _ending_in_a_sentence() -> Iterator[None]:
    try:
        yield
    except _UsageError as error:
        raise _end(_of_usage(error)) from error
    except CommandError as error:
        raise _end(error) from error
    except FoldbError as error:
        raise _end(of_foldb(error)) from error
    except KeyboardInterrupt as error:
        raise _end(CommandError("interrupted", ExitCode.INTERRUPTED)) from error
    except BrokenPipeError as error:
        # The reader has what it wanted: `foldb scan T | head`.
        _forget_output()
        raise typer.Exit(ExitCode.DONE) from error
    except OSError as error:
        if error.filename is None:
            _forget_output()  # perhaps it was that which could not be written
        raise _end(of_system(error)) from error


def _end(failure: CommandError) -> typer.Exit:
    if failure.sentence:
        typer.echo(f"foldb: {failure.sentence}", err=True)
    return typer.Exit(failure.code)


def _of_usage(error: Any) -> CommandError:
    """What typer says, in our manner. It says nothing where it has printed the help of a group of commands."""
    said = str(error.format_message()).replace("Value error, ", "").rstrip(".")
    if not said:
        return CommandError("", ExitCode.USAGE)
    command = "foldb" if error.ctx is None else error.ctx.command_path
    stop = "" if said.endswith("?") else "."
    return CommandError(f"{said[0].lower()}{said[1:]}{stop} See `{command} --help`.", ExitCode.USAGE)


def _refuse_what_is_not_utf8(args: Sequence[str]) -> None:
    for word in args:
        if any("\ud800" <= letter <= "\udfff" for letter in word):
            shown = word.encode("utf-8", "replace").decode()
            raise CommandError(f"`{shown}` is not UTF-8: set your terminal to it", ExitCode.USAGE)


def _forget_output() -> None:
    """Python would try at its exit to write what is left, fail again, and say so."""
    with suppress(OSError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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
            first += [word, _value(word, words)]
        elif word in _SWITCHES or word.partition("=")[0] in _VALUED:
            first.append(word)
        else:
            rest.append(word)
    return first + rest


def _value(flag: str, words: Iterator[str]) -> str:
    for word in words:
        return word
    raise CommandError(
        f"{flag} is the last word, and wants a value behind it. See `foldb --help`.", ExitCode.USAGE
    )


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
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            show_default="$FOLDB_ACCESS_KEY_ID, else AWS's",
            help="Sign with this profile's key.",
        ),
    ] = None,
    ca: Annotated[
        Path | None,
        typer.Option(metavar="FILE", show_default="$FOLDB_CA", help="Believe the certificates of this CA."),
    ] = None,
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    from .lib.session import Session  # --help and --version do without

    if db == "":
        raise CommandError("--db is empty: name a folder or a server, or leave it out", ExitCode.USAGE)
    given = default_database() if db is None else db
    session = Session(
        Settings(
            db=given or DEFAULT_URL,
            is_db_given=given is not None,
            is_db_flag=db is not None,
            format=output,
            typed=typed,
            quiet=quiet,
            progress=not no_progress,
            yes=yes,
            no_input=no_input,
            color=color,
            credentials=credentials(profile),
            ca=ca or default_ca(),
        )
    )
    ctx.obj = session
    ctx.call_on_close(session.close)


def run() -> None:
    """Be the program."""
    _open_what_is_closed()
    try:
        app(prog_name="foldb")
    except SystemExit as end:
        if end.code == ExitCode.INTERRUPTED:
            _leave_at_once()
        raise


def _leave_at_once() -> NoReturn:
    """The interrupt may have come while a server was being started in its thread, which would go on while Python takes
    the process down around it. What it writes survives a kill, so none of that is waited for."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, AttributeError):
            stream.flush()
    os._exit(ExitCode.INTERRUPTED)


def _open_what_is_closed() -> None:
    """Started without stdout or stderr, the log would be opened in its place, and what is said written into it."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        pass
    os.close(descriptor)
