"""The text of a change: a row of JSON, a line in the user's format, or a coloured line on a terminal.

A row has the form of `streams/formats/plain.py`, with items in plain JSON unless --typed is given. Fields of a format:

    %T   time                    %k    key, without names      %tx   transaction and index in it: 7.0 1/2
    %ms  time in milliseconds    %K    key, as JSON            %who  access key of the writer
    %op  event                   %old  the item before         %src  api, ttl, trigger or restore
    %t   table                   %new  the item after          %req  request id
    %n   sequence number         %old.NAME, %new.NAME          %d    number of triggers in the chain before it
    %p   position                      one attribute           %j    the whole change, as JSON; %% is one %
"""

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

import typer

from .errors import CommandError, ExitCode
from .output import cell, visible
from .values import plain_item, write_json

Row = dict[str, Any]

_ITEMS: Final = ("keys", "old", "new")
_COLOURS: Final = {"INSERT": "green", "MODIFY": "yellow", "REMOVE": "red", "READ": "cyan"}
_ESCAPES: Final = {r"\t": "\t", r"\n": "\n", r"\\": "\\"}
_ABSENT: Final = "-"


def shown(row: Row, *, typed: bool) -> Row:
    """Return the row with plain items, or unchanged, with DynamoDB JSON, if `typed`."""
    if typed:
        return row
    return row | {name: row[name] and plain_item(row[name]) for name in _ITEMS}


def line_of(format_: str) -> Callable[[Row], str]:
    """Return the function that writes a row in a format.

    Raises:
        CommandError: `format_` has an unknown field.
    """
    for match in _PART.finditer(format_):
        if match["wrong"] is not None:
            raise CommandError(
                f"--format: `{match['wrong']}` is not a field; the fields are {', '.join(sorted(_FIELDS))}, "
                "%old.NAME, %new.NAME and %%",
                ExitCode.USAGE,
            )

    def line(row: Row) -> str:
        return _PART.sub(lambda match: _text(match, row), format_)

    return line


def coloured(row: Row) -> str:
    """Return a change as one coloured line. A MODIFY shows only the attributes that differ."""
    op = row["op"]
    name = typer.style(f"{op:6}", fg=_COLOURS[op])
    head = f"{typer.style(row['time'], dim=True)} {name} {typer.style(row['table'], bold=True)}"
    return f"{head} {visible(write_json(row['keys']))} {visible(_images(row))}"


def _images(row: Row) -> str:
    old, new = row["old"] or {}, row["new"] or {}
    if row["op"] != "MODIFY":
        rest = {name: value for name, value in (new or old).items() if name not in row["keys"]}
        return write_json(rest)
    names = [name for name in sorted({*old, *new}) if old.get(name, ...) != new.get(name, ...)]
    return ", ".join(f"{name}: {_side(old, name)} → {_side(new, name)}" for name in names)


def _side(item: Row, name: str) -> str:
    return write_json(item[name]) if name in item else _ABSENT


def _transaction(row: Row) -> str:
    tx = row["tx"]
    return _ABSENT if tx is None else f"{tx['id']} {tx['n'] + 1}/{tx['of']}"


def _milliseconds(row: Row) -> str:
    return str(round(datetime.fromisoformat(row["time"]).timestamp() * 1000))


def _or_absent(value: Any) -> str:
    return _ABSENT if value is None else cell(value)


_FIELDS: Final[dict[str, Callable[[Row], str]]] = {
    "%T": lambda row: row["time"],
    "%ms": _milliseconds,
    "%op": lambda row: row["op"],
    "%t": lambda row: row["table"],
    "%n": lambda row: row["number"],
    "%p": lambda row: row["position"],
    "%k": lambda row: " ".join(cell(value) for value in row["keys"].values()),
    "%K": lambda row: write_json(row["keys"]),
    "%old": lambda row: write_json(row["old"]),
    "%new": lambda row: write_json(row["new"]),
    "%tx": _transaction,
    "%who": lambda row: _or_absent(row["principal"]),
    "%src": lambda row: row["source"],
    "%req": lambda row: row["requestId"],
    "%d": lambda row: str(row["depth"]),
    "%j": write_json,
}
_NAMES = "|".join(re.escape(name) for name in sorted(_FIELDS, key=len, reverse=True))
_PART: Final = re.compile(
    rf"(?P<side>%old|%new)\.(?P<name>[A-Za-z_]\w*(?:-\w+)*)|(?P<field>{_NAMES})(?![A-Za-z])"
    r"|(?P<literal>%%|\\[tn\\])|(?P<wrong>%(?:[A-Za-z]+|.?))"
)


def _text(match: re.Match[str], row: Row) -> str:
    if match["side"] is not None:
        return _or_absent((row[match["side"][1:]] or {}).get(match["name"]))
    if match["field"] is not None:
        return _FIELDS[match["field"]](row)
    return _ESCAPES.get(match["literal"], "%")
