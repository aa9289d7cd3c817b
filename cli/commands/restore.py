"""`foldb restore`: bring back a table, or items of it, as they were at a cut."""

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Annotated, Any, NamedTuple

import typer

from ...model.values import Item, dump
from ..lib.errors import CommandError, ExitCode
from ..lib.key_arguments import KeyArguments
from ..lib.options import TableArgument, Texts, check_cut, name_as_of
from ..lib.output import counted
from ..lib.read_requests import Reading
from ..lib.session import Session
from ..lib.values import plain_item
from .fork import copy

_WRITES = 25


def restore(
    session: Session,
    table: TableArgument,
    as_of: Annotated[
        str,
        typer.Option(
            "--as-of",
            metavar="CUT",
            parser=check_cut,
            help="Restore the state at this position (10482.3, 2:10482), time (2026-11-20T12:00Z) or age (-1h).",
        ),
    ],
    into: Annotated[
        str | None, typer.Option("--into", metavar="NEW", help="Copy the table as it was to a new table.")
    ] = None,
    key: Annotated[
        Texts,
        typer.Option(
            "--key",
            metavar="WORD",
            help="Restore the item with this key, in place. Repeat it for a sort key.",
        ),
    ] = None,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Restore all items of the table, in place.")
    ] = False,
) -> None:
    """Give --into, --key or --in-place.

    With --into the server copies the items to a new table without stream, time to live, tags and deletion protection;
    the table may be deleted since. In place, the command prints each item that it would put or remove, asks for
    confirmation, and changes an item only if it is still as printed. Streams and triggers see these changes.

    Example: foldb restore Music --as-of -1h --into MusicBefore
    """
    if sum((into is not None, bool(key), in_place)) != 1:
        raise CommandError("give one of --into NEW, --key WORD and --in-place", ExitCode.USAGE)
    if into is not None:
        copy(session, "Restore", table, into, as_of)
        return
    changes = _of_key(session, table, as_of, key) if key else _of_table(session, table, as_of)
    if not changes:
        session.output.say(f"{table} is as it was at {as_of}")
        return
    session.output.rows([_row(session, change) for change in changes], first=("change", "key"))
    puts = sum(change.past is not None for change in changes)
    session.confirm(
        f"Put {counted(puts, 'item')} and remove {counted(len(changes) - puts, 'item')} in {table}?"
    )
    _apply(session, table, changes)


class _Change(NamedTuple):
    """A difference at a key: the item at the cut and the present one; None if there is none."""

    key: Item
    past: Item | None
    present: Item | None


def _of_key(session: Session, table: str, as_of: str, words: Sequence[str]) -> list[_Change]:
    key = session.shape(table).read_key(words, is_typed=session.settings.typed)

    def read(name: str) -> Item | None:
        answer = session.client.call("GetItem", {"TableName": name, "Key": key, "ConsistentRead": True})
        item: Item | None = answer.get("Item")
        return item

    past, present = read(name_as_of(table, as_of)), read(table)
    return [] if _digest(past) == _digest(present) else [_Change(key, past, present)]


def _of_table(session: Session, table: str, as_of: str) -> list[_Change]:
    """Compare the table at the cut with the present one, in the order of their Scans."""
    shape = session.shape(table)
    past = {dump(_key(shape, item)): item for item in _scan(session, name_as_of(table, as_of))}
    changes = []
    for present in _scan(session, table):
        key = _key(shape, present)
        was = past.pop(dump(key), None)
        if _digest(was) != _digest(present):
            changes.append(_Change(key, was, present))
    return changes + [_Change(_key(shape, was), was, None) for was in past.values()]


def _key(shape: KeyArguments, item: Item) -> Item:
    return {name: item[name] for name in shape.key_names()}


def _scan(session: Session, name: str) -> Iterator[Item]:
    body = {"TableName": name, "ConsistentRead": True, "ReturnConsumedCapacity": "TOTAL"}
    return Reading(session.client, "Scan", body, everything=True).items()


def _apply(session: Session, table: str, changes: Sequence[_Change]) -> None:
    """Write the changes, each if its item is still as it was read.

    Raises:
        CommandError: Some items have changed in between; the others are restored.
    """
    kept: list[_Change] = []
    for begin in range(0, len(changes), _WRITES):
        some = changes[begin : begin + _WRITES]
        writes = [_write(change) for change in some]
        applied = session.client.admin("RestoreItems", {"TableName": table, "Writes": writes})["Applied"]
        kept += [change for change, is_applied in zip(some, applied, strict=True) if not is_applied]
    session.output.say(f"{table}: restored {counted(len(changes) - len(kept), 'item')}")
    if kept:
        for change in kept:
            session.output.warn(f"changed in between, and kept: {plain_item(change.key)}")
        raise CommandError(
            f"{counted(len(kept), 'item')} had changed: run the command again to see them", ExitCode.PARTLY
        )


def _write(change: _Change) -> dict[str, Any]:
    write = {"Key": change.key, "Digest": _digest(change.present)}
    return write if change.past is None else write | {"Item": change.past}


def _digest(item: Item | None) -> str:
    """Return the digest of the item's canonical bytes; empty for no item."""
    return "" if item is None else blake2b(dump(item), digest_size=16).hexdigest()


def _row(session: Session, change: _Change) -> dict[str, Any]:
    def shown(item: Item) -> Any:
        return item if session.settings.typed else plain_item(item)

    row = {"change": "remove" if change.past is None else "put", "key": shown(change.key)}
    if change.present is not None:
        row["present"] = shown(change.present)
    if change.past is not None:
        row["restored"] = shown(change.past)
    return row
