"""The help of commands and groups as plain text: typer's own imports rich, more than half of the time of `--help`."""

from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from .errors import ExitCode


class _Help:
    """The sections of a command: arguments, options by the group of the setting, and commands with their summaries."""

    def format_options(self: Any, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            kind = "Arguments" if parameter.param_type_name == "argument" else "Options"
            if (row := parameter.get_help_record(ctx)) is not None:
                sections.setdefault(parameter.rich_help_panel or kind, []).append(row)
        sections["Commands"] = list(_summaries(self, ctx))
        for title, rows in sections.items():
            if rows:
                with formatter.section(typer.style(title, bold=True)):
                    formatter.write_dl(rows)


class PlainCommand(_Help, TyperCommand):
    """A command with plain help."""


class PlainGroup(_Help, TyperGroup):
    """A group of commands with plain help, which it prints if no word follows."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
            raise typer.Exit(ExitCode.USAGE)
        return super().parse_args(ctx, args)


def _summaries(command: Any, ctx: Any) -> Iterator[tuple[str, str]]:
    """Yield the first paragraph of each command of a group."""
    for name in command.list_commands(ctx) if isinstance(command, TyperGroup) else ():
        if not (each := command.get_command(ctx, name)).hidden:
            yield name, " ".join((each.help or "").partition("\n\n")[0].split())
