"""The `foldb` command: global flags, the list of commands, and exit codes.

Global flags may be before or after the command. A failure is one sentence on stderr and an exit code of `ExitCode`;
only a bug shows a traceback.

    foldb scan Music ──► global flags ──► COMMANDS["scan"] ──► import ──► run

Only the command that runs is imported, to keep the start short.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer
import typer.main

from ..model.errors import FoldbError
from ..version import __version__
from .commands import COMMANDS
from .lib.command_group import AGES, as_typer_reads
from .lib.errors import CommandError, ExitCode, RequestFailedError, of_foldb, of_system
from .lib.help import PlainCommand, PlainGroup
from .lib.imports import importing
from .lib.settings import GlobalOptions

_SWITCHES = frozenset(("--typed", "-q", "--quiet", "--no-progress", "--yes", "-y", "--no-input", "--version"))
_VALUED = frozenset(("--db", "-o", "--output", "--color", "--profile", "--ca", "--why"))

_STDERR = 2

# The base class of typer's errors about a command line. typer has no public name for it.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]


class Program(PlainGroup):
    """The top of the program. It accepts global flags anywhere and turns failures into exit codes.

    A command is a placeholder with a summary until it is loaded.
    """

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {name: PlainCommand(name, help=each.summary) for name, each in COMMANDS.items()}

    def load(self, name: str) -> None:
        """Import a command and replace its placeholder."""
        target, summary, has_ages = COMMANDS[name]
        module, _, member = target.partition(":")
        with importing():
            loaded = getattr(import_module(f".{module}", __package__), member)
        command = _typer_command(loaded, AGES if has_ages else {})
        command.name = name
        command.help = summary if isinstance(command, PlainGroup) else f"{summary}\n\n{command.help}"
        self.commands[name] = command

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if ctx.resilient_parsing:  # a shell completes the words, which may end with a flag without its value
            with suppress(CommandError):
                args = flags_first(args)
            return super().parse_args(ctx, args)
        with _exit_codes():
            _check_utf8(args)
            return super().parse_args(ctx, flags_first(args))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in COMMANDS:
            self.load(args[0])
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        with _exit_codes():
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
def _exit_codes() -> Iterator[None]:
    """Print a failure as one sentence, and exit with its code."""
    try:
        yield
    except _UsageError as error:
        raise _exit(_of_usage(error)) from error
    except CommandError as error:
        raise _exit(error) from error
    except FoldbError as error:
        raise _exit(of_foldb(error)) from error
    except KeyboardInterrupt as error:
        raise _exit(CommandError("interrupted", ExitCode.INTERRUPTED)) from error
    except BrokenPipeError as error:
        # The reader closed the pipe early: `foldb scan T | head`.
        _discard_stdout()
        raise typer.Exit(ExitCode.DONE) from error
    except OSError as error:
        if error.filename is None:
            _discard_stdout()  # the write to stdout may be the failure
        raise _exit(of_system(error)) from error


def _exit(failure: CommandError) -> typer.Exit:
    if failure.sentence:
        typer.echo(f"foldb: {failure.sentence}", err=True)
    return typer.Exit(failure.code)


def _of_usage(error: Any) -> CommandError:
    """Return typer's error with the next step."""
    message = str(error.format_message()).replace("Value error, ", "").rstrip(".")
    command = "foldb" if error.ctx is None else error.ctx.command_path
    stop = "" if message.endswith("?") else "."
    return CommandError(f"{message[0].lower()}{message[1:]}{stop} See `{command} --help`.", ExitCode.USAGE)


def _check_utf8(args: Sequence[str]) -> None:
    """Raise CommandError if a word is not UTF-8."""
    for word in args:
        if any("\ud800" <= character <= "\udfff" for character in word):
            shown = word.encode("utf-8", "replace").decode()
            raise CommandError(f"`{shown}` is not UTF-8: set your terminal to UTF-8", ExitCode.USAGE)


def _discard_stdout() -> None:
    """Discard buffered output. Python would write it at exit, fail again, and print the failure."""
    with suppress(OSError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _typer_command(command: Any, context_settings: dict[str, Any]) -> Any:
    """Return the typer command of a function, or the group of a Typer."""
    if isinstance(command, typer.Typer):
        return typer.main.get_group(command)
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(cls=PlainCommand, context_settings=context_settings)(as_typer_reads(command))
    return typer.main.get_command(alone)


def flags_first(args: Sequence[str]) -> list[str]:
    """Move global flags before the command. Words after `--` are not flags.

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
        f"{flag} is the last word, and needs a value after it. See `foldb --help`.", ExitCode.USAGE
    )


app = typer.Typer(
    cls=Program,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"max_content_width": 120},
    help="A DynamoDB-compatible database whose only source of truth is a log.",
    epilog="Global options may also follow the command. Example: foldb scan Music -o csv",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"foldb {__version__}")
        raise typer.Exit


@app.callback()
@as_typer_reads
def main(
    ctx: typer.Context,
    options: GlobalOptions,
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    with importing():
        from .lib.session import Session  # --help and --version do not need it

    session = Session(options.settings())
    ctx.obj = session
    ctx.call_on_close(session.close)


def run() -> None:
    _open_standard_streams()
    try:
        app(prog_name="foldb")
    except SystemExit as end:
        if end.code == ExitCode.INTERRUPTED:
            _exit_at_once()
        raise


def _exit_at_once() -> NoReturn:
    """Exit without waiting for threads.

    A server that is starting in a thread would continue during the interpreter's shutdown. Its files survive a kill.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, AttributeError):
            stream.flush()
    os._exit(ExitCode.INTERRUPTED)


def _open_standard_streams() -> None:
    """Open closed standard streams. Otherwise the log would get the descriptor of stderr, and messages with it."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        pass
    os.close(descriptor)
