"""`foldb restore`: bring back a table, or items of it, as they were at a cut."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import islice
from typing import Annotated, Any

import typer

from ...model.lazy_dataclass import dataclass
from ...model.values import Item, dump
from ..lib.client import Client
from ..lib.completion import complete_cuts
from ..lib.differences import Pages, difference_text, shower
from ..lib.errors import CommandError, ExitCode
from ..lib.options import TableArgument, Texts, check_cut, name_as_of
from ..lib.output import Row, counted
from ..lib.session import Session
from ..lib.values import plain_item
from .fork import copy

_WRITES = 25


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """The place to which the past is restored."""

    into: Annotated[
        str | None, typer.Option("--into", metavar="NEW", help="Copy the table as it was to a new table.")
    ] = None
    key: Annotated[
        Texts,
        typer.Option(
            "--key",
            metavar="WORD",
            help="Restore the item with this key, in place. Repeat it for a sort key.",
        ),
    ] = None
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Restore all items of the table, in place.")
    ] = False


def restore(
    session: Session,
    table: TableArgument,
    as_of: Annotated[
        str,
        typer.Option(
            "--as-of",
            metavar="CUT",
            parser=check_cut,
            autocompletion=complete_cuts,
            help="Restore the state at this position (10482.3, 2:10482), time (2026-11-20T12:00Z) or age (-1h).",
        ),
    ],
    target: TargetOptions,
    source: Annotated[
        str | None,
        typer.Option(
            "--log",
            metavar="SOURCE",
            show_default="the server's log",
            help="Copy the table from this log: a database folder, kafka://HOST:PORT/NAMESPACE, or the address of a "
            "server. It needs --into.",
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="With --key or --in-place: print the changes and their number, and change nothing.",
        ),
    ] = False,
) -> None:
    """Give --into, --key or --in-place.

    With --into the items are copied to a new table without stream, time to live, tags and deletion protection; the
    table may be deleted since. The server copies them. With --log this command does, with the table in memory; run it
    again if it was interrupted. In place, the command prints each item that it would put or remove, asks for
    confirmation, and changes an item only if it is still as printed. Streams and triggers see these changes.

    Example: foldb restore Music --as-of -1h --into MusicBefore
    """
    into, key = target.into, target.key
    if sum((into is not None, bool(key), target.in_place)) != 1:
        raise CommandError("give one of --into NEW, --key WORD and --in-place", ExitCode.USAGE)
    if dry_run and into is not None:
        raise CommandError("--dry-run is for --key and --in-place: --into replaces nothing", ExitCode.USAGE)
    if into is not None:
        if source is None:
            copy(session, "Restore", table, into, as_of)
        else:
            _copy_from_log(session, table, as_of, into, source)
        return
    if source is not None:
        raise CommandError(
            "--log needs --into: a state of another log does not replace a live table", ExitCode.USAGE
        )
    changes = _of_key(session, table, as_of, key) if key else _TableChanges(session.client, table, as_of)
    kinds: Counter[str] = Counter()
    _print(session, _counted(changes, kinds))
    if not kinds:
        session.output.say(f"{table} is as it was at {as_of}")
        return
    puts = kinds.total() - kinds["remove"]
    if dry_run:
        session.output.say(
            f"dry run: nothing was changed; {counted(puts, 'item')} to put, {kinds['remove']:,} to remove"
        )
        return
    session.confirm(f"Put {counted(puts, 'item')} and remove {counted(kinds['remove'], 'item')} in {table}?")
    _apply(session, table, changes)


def _copy_from_log(session: Session, table: str, as_of: str, new: str, source: str) -> None:
    from ..lib.table_from_log import copy_from_log  # it imports the whole fold

    try:
        copy_from_log(session, table, as_of, new, source)
    except KeyboardInterrupt as error:
        raise CommandError(
            "interrupted; run the same command again to continue", ExitCode.INTERRUPTED
        ) from error


# A difference as TableDifferences returns it (Kind, Key, Old, New), from the present table to that at the cut.
_Change = dict[str, Any]


def _of_key(session: Session, table: str, as_of: str, words: Sequence[str]) -> list[_Change]:
    key = session.shape(table).read_key(words, is_typed=session.settings.typed)

    def read(name: str) -> Item | None:
        answer = session.client.call("GetItem", {"TableName": name, "Key": key, "ConsistentRead": True})
        item: Item | None = answer.get("Item")
        return item

    old, new = read(table), read(name_as_of(table, as_of))
    if _digest(old) == _digest(new):
        return []
    kind = "put" if old is None else "remove" if new is None else "change"
    images = {"Old": old, "New": new}
    return [{"Kind": kind, "Key": key} | {name: item for name, item in images.items() if item is not None}]


class _TableChanges:
    """The changes that restore a table. Each iteration reads them again, in pages, between the same two cuts."""

    def __init__(self, client: Client, table: str, as_of: str) -> None:
        self._client = client
        self._request = {"TableName": table, "From": as_of}

    def __iter__(self) -> Iterator[_Change]:
        pages = Pages(self._client, "TableDifferences", self._request)
        for difference in pages.entries("Differences"):
            self._request |= {name: pages.answer[name] for name in ("From", "To")}
            yield _reversed(difference)


def _reversed(difference: _Change) -> _Change:
    kind = {"put": "remove", "remove": "put"}.get(difference["Kind"], "change")
    images = {"Old": difference.get("New"), "New": difference.get("Old")}
    change = {"Kind": kind, "Key": difference["Key"]}
    return change | {name: item for name, item in images.items() if item is not None}


def _counted(changes: Iterable[_Change], kinds: Counter[str]) -> Iterator[_Change]:
    for change in changes:
        kinds[change["Kind"]] += 1
        yield change


def _print(session: Session, changes: Iterable[_Change]) -> None:
    is_typed = session.settings.typed
    if session.output.draws:
        for change in changes:
            session.output.line(difference_text(change, is_typed=is_typed))
    else:
        session.output.rows((_row(change, is_typed=is_typed) for change in changes), first=("change", "key"))


def _row(change: _Change, *, is_typed: bool) -> Row:
    show = shower(is_typed=is_typed)
    row = {"change": "put" if "New" in change else "remove", "key": show(change["Key"])}
    names = {"Old": "present", "New": "restored"}
    return row | {name: show(change[image]) for image, name in names.items() if image in change}


def _apply(session: Session, table: str, changes: Iterable[_Change]) -> None:
    """Write the changes, each if its item is still as it was printed.

    Raises:
        CommandError: Some items have changed in between; the others are restored.
    """
    restored = kept = 0
    rest = iter(changes)
    while some := list(islice(rest, _WRITES)):
        writes = [_write(change) for change in some]
        applied = session.client.admin("RestoreItems", {"TableName": table, "Writes": writes})["Applied"]
        for change, is_applied in zip(some, applied, strict=True):
            if not is_applied:
                session.output.warn(f"changed in between, and kept: {plain_item(change['Key'])}")
        restored += sum(applied)
        kept += len(some) - sum(applied)
    session.output.say(f"{table}: restored {counted(restored, 'item')}")
    if kept:
        raise CommandError(
            f"{counted(kept, 'item')} had changed: run the command again to see them", ExitCode.PARTLY
        )


def _write(change: _Change) -> dict[str, Any]:
    write = {"Key": change["Key"], "Digest": _digest(change.get("Old"))}
    return write | {"Item": change["New"]} if "New" in change else write


def _digest(item: Item | None) -> str:
    """Return the digest of the item's canonical bytes; empty for no item."""
    return "" if item is None else blake2b(dump(item), digest_size=16).hexdigest()
