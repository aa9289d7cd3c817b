"""`foldb export`: write a table as it is or was, or its changes between two cuts, to files."""

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import typer

from ...model.cuts import AtTime, parse_cut
from ...model.lazy_dataclass import dataclass
from ...model.values import Item, load
from ...server.buckets.export_layout import ExportFacts, new_export_id
from ...server.buckets.item_files import ItemChange
from ..lib.client import Client
from ..lib.errors import CommandError, ExitCode
from ..lib.export_targets import (
    STATE,
    WRITTEN_BY_DYNAMODB,
    FileFormat,
    ItemTarget,
    LayoutFolder,
    LineFile,
    ParquetFolder,
    check_libraries,
    format_of,
    json_line,
    line_encoder,
    typed_line,
)
from ..lib.key_arguments import KeyArguments
from ..lib.options import AsOf, TableArgument, check_cut, name_as_of
from ..lib.output import Row, counted
from ..lib.progress import progress
from ..lib.resume import StateFile, resumable
from ..lib.session import Session

CHECKPOINT_BYTES: Final = 32 << 20
"""An interrupted export repeats at most these bytes; data files of DynamoDB's layout have them before compression."""

PAGE_ITEMS: Final = 1000

_NOW: Final = "-0"
_FILE_SUFFIX: Final = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,5}")
"""The suffix of a name that is meant to be a file's: .txt, but not that of exports-2026.11.23."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SpanOptions:
    """The points of history between which changes are exported."""

    since: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="CUT",
            parser=check_cut,
            help="Export only the changes after this point of history.",
        ),
    ] = None
    until: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="CUT",
            parser=check_cut,
            show_default="now",
            help="Export the changes up to this point.",
        ),
    ] = None


def export(
    session: Session,
    table: TableArgument,
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="A file such as Orders.jsonl.gz, or the folder of a bucket.")
    ],
    span: SpanOptions,
    file_format: Annotated[
        FileFormat | None,
        typer.Option("--format", show_default="by the suffix", help="The format of the items."),
    ] = None,
    as_of: AsOf = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--log",
            metavar="SOURCE",
            show_default="the server's log",
            help="Read the table from this log: a database folder, kafka://HOST:PORT/NAMESPACE, or the address of a "
            "server. It needs a file or Parquet.",
        ),
    ] = None,
) -> None:
    """OUT is a file if it ends with .jsonl (plain JSON), .json (DynamoDB JSON) or .ion, with .gz or .zst behind it to
    compress it; a folder of files if it ends with .parquet; and otherwise the folder of a bucket, in which the export
    has the layout of DynamoDB's exports to S3. All items are those of one cut. An interrupted export continues if the
    same command is run again.

    Example: foldb export Music Music.jsonl.gz
    """
    wanted = _Export(table, out, file_format or format_of(out), as_of, span.since, span.until, source)
    wanted.check()
    with resumable():
        if span.since is not None:
            row = _export_changes(session, wanted, span.since)
        elif source is not None:
            row = _export_from_log(session, wanted, source)
        else:
            row = _export_items(session, wanted)
    session.output.row(row)
    session.output.say(
        f"{table}: {counted(row['items'], 'item' if span.since is None else 'change')} as of {row['as_of']}"
    )


@dataclass(frozen=True, slots=True)
class _Export:
    """The arguments of the command."""

    table: str
    out: Path
    format: FileFormat | None
    as_of: str | None
    since: str | None
    until: str | None
    source: str | None

    @property
    def is_layout(self) -> bool:
        """Whether the output is DynamoDB's layout, in a folder."""
        return self.format in (None, *WRITTEN_BY_DYNAMODB) and format_of(self.out) is None

    def check(self) -> None:
        """Check the arguments against each other.

        Raises:
            CommandError: Two of them exclude each other, or OUT is in a missing folder or has an unknown suffix.
            MissingExtraError: The library for the format is not installed.
        """
        if self.is_layout and not self.out.is_dir() and _FILE_SUFFIX.fullmatch(self.out.suffix):
            raise CommandError(
                f"{self.out}: {self.out.suffix} is no format of an export: give a file such as {self.out.stem}.jsonl, "
                "or the folder of a bucket, which may have this name if it exists",
                ExitCode.USAGE,
            )
        if not self.out.parent.is_dir():
            raise CommandError(
                f"{self.out}: there is no folder {self.out.parent}: create it, or give another path",
                ExitCode.UNREACHABLE,
            )
        if self.since is None and self.until is not None:
            raise CommandError("--to needs --from: give --as-of for all items at a cut", ExitCode.USAGE)
        if self.since is not None and (self.as_of is not None or self.source is not None):
            raise CommandError("--from is for changes: --as-of and --log are for all items", ExitCode.USAGE)
        if self.since is not None and not self.is_layout:
            raise CommandError(
                f"{self.out} has no format for changes: give the folder of a bucket, such as exports",
                ExitCode.USAGE,
            )
        if self.source is not None and (self.as_of is None or self.is_layout):
            raise CommandError("--log needs --as-of, and a file such as Orders.jsonl", ExitCode.USAGE)
        if self.format == "csv":
            raise CommandError(
                "CSV has no types, so an export could not be imported: give a file such as Orders.jsonl, or print a "
                "CSV with `foldb scan TABLE --all -o csv`",
                ExitCode.USAGE,
            )
        if not self.is_layout:
            check_libraries(self.out, self.format)

    def state(self) -> StateFile:
        """Return the state of an interrupted run of the same command.

        Raises:
            CommandError: The output exists, or has the state of another export.
        """
        is_folder = self.is_layout or self.format == "parquet"
        path = self.out / f"{STATE}-{self.table}" if is_folder else self.out.with_name(self.out.name + STATE)
        names = ("table", "format", "as_of", "since", "until", "source")
        state = StateFile(path, {name: getattr(self, name) for name in names})
        is_there = any(self.out.glob("*.parquet")) if self.format == "parquet" else self.out.is_file()
        if state.found is None and is_there:
            raise CommandError(f"{self.out} exists: remove it, or give another name", ExitCode.USAGE)
        return state


def _export_items(session: Session, wanted: _Export) -> Row:
    state = wanted.state()
    head = state.begin(lambda: _new_state(resolved(session.client, wanted.table, wanted.as_of or _NOW)))
    name = name_as_of(wanted.table, head["cut"])
    shape, time_ms = _described(session, name, head["cut"])
    if wanted.is_layout:
        target: ItemTarget = LayoutFolder(
            wanted.out, _facts(wanted, head, shape, time_ms, None), _now_ms, head["target"]
        )
    else:
        target = _file_target(session, wanted, shape.key_names(), head["target"])
    pages = _scan(session.client, name, head["next"])
    return _run(session, wanted, state, target, target.add, pages, shape.description["ItemCount"])


def _export_changes(session: Session, wanted: _Export, since: str) -> Row:
    state = wanted.state()
    cuts = wanted.until or _NOW, since
    head = state.begin(lambda: _new_state(*(resolved(session.client, wanted.table, cut) for cut in cuts)))
    _, from_ms = _described(session, name_as_of(wanted.table, head["from"]), head["from"])
    shape, to_ms = _described(session, name_as_of(wanted.table, head["cut"]), head["cut"])
    target = LayoutFolder(wanted.out, _facts(wanted, head, shape, to_ms, from_ms), _now_ms, head["target"])
    body = {"TableName": wanted.table, "From": head["from"], "To": head["cut"]}
    pages = _differences(session.client, body, head["next"], to_ms)
    return _run(session, wanted, state, target, target.add_change, pages, None)


def _export_from_log(session: Session, wanted: _Export, source: str) -> Row:
    from ..lib.log_location import open_log  # these import the whole fold
    from ..lib.table_from_log import refold_table

    assert wanted.as_of is not None, "--log needs --as-of"
    state = wanted.state()
    past = refold_table(open_log(session, source), session, wanted.table, wanted.as_of)
    head = state.begin(lambda: _new_state(past.cut))
    target = _file_target(session, wanted, past.definition.key.names, head["target"])
    items = (load(stored[0]) for part in past.parts for _, _, _, stored in part.items.scan())
    return _run(session, wanted, state, target, target.add, _portions(items, head["next"] or 0), past.items)


def resolved(client: Client, table: str, cut: str) -> str:
    """Return a cut that is the same at every read: an age becomes a time."""
    body = {"TableName": table, "From": cut, "To": cut, "Limit": 1}
    return str(client.admin("TableDifferences", body)["To"])


def _new_state(cut: str, since: str | None = None) -> dict[str, Any]:
    """Return the state of an export that begins. It is saved at once, so that a second run has the same cut."""
    now_ms = _now_ms()
    return {
        "cut": cut,
        "from": since,
        "export_id": new_export_id(now_ms, os.urandom(8)),
        "started_ms": now_ms,
        "items": 0,
        "next": None,
        "target": None,
    }


def _described(session: Session, name: str, cut: str) -> tuple[KeyArguments, int]:
    """Return the definition of a table at a cut, and the cut's log time in milliseconds."""
    shape = session.shape(name)
    parsed, log_time_ms = parse_cut(cut), session.client.log_time_ms
    if isinstance(parsed, AtTime):
        return shape, parsed.time_ms
    assert log_time_ms is not None, "each response of a read has the log time"
    return shape, log_time_ms


def _facts(
    wanted: _Export, head: dict[str, Any], shape: KeyArguments, export_ms: int, from_ms: int | None
) -> ExportFacts:
    return ExportFacts(
        head["export_id"],
        shape.description["TableArn"],
        shape.description["TableId"],
        head["started_ms"],
        export_ms,
        from_ms,
        format=WRITTEN_BY_DYNAMODB[wanted.format or "dynamodb-json"],
        bucket=wanted.out.resolve().name,
        sse_algorithm=None,
    )


def _file_target(
    session: Session, wanted: _Export, keys: Sequence[str], state: dict[str, Any] | None
) -> ItemTarget:
    if wanted.format == "parquet":
        return ParquetFolder(wanted.out, list(keys), state)
    if wanted.format == "jsonl":
        return LineFile(wanted.out, typed_line if session.settings.typed else json_line, state)
    assert wanted.format is not None, "a file has a format"
    return LineFile(wanted.out, line_encoder(WRITTEN_BY_DYNAMODB[wanted.format]), state)


def _run(
    session: Session,
    wanted: _Export,
    state: StateFile,
    target: ItemTarget,
    add: Callable[[T], None],
    pages: Iterator[tuple[list[T], Any]],
    total: int | None,
) -> Row:
    """Write the entries of all pages, with checkpoints. Return the facts of the export.

    Args:
        pages: The entries, and the start of the next page; None at the end.
    """
    assert state.found is not None, "the export has begun"
    head = state.found
    count = head["items"]
    try:
        with progress(session.settings, session.output.stderr, wanted.table, total) as advance:
            advance(count)
            for entries, following in pages:
                for entry in entries:
                    add(entry)
                count += len(entries)
                advance(len(entries))
                if following is not None and target.pending_bytes >= CHECKPOINT_BYTES:
                    state.save(head | {"items": count, "next": following, "target": target.checkpoint()})
        facts = target.finish()
    finally:
        target.close()
    state.remove()
    start = {} if head["from"] is None else {"from": head["from"]}
    return facts | start | {"as_of": head["cut"], "items": count}


def _scan(client: Client, name: str, start: Item | None) -> Iterator[tuple[list[Item], Item | None]]:
    while True:
        body: dict[str, Any] = {"TableName": name, "Limit": PAGE_ITEMS}
        answer = client.call("Scan", body if start is None else body | {"ExclusiveStartKey": start})
        start = answer.get("LastEvaluatedKey")
        yield answer["Items"], start
        if start is None:
            return


def _differences(
    client: Client, body: dict[str, Any], start: str | None, to_ms: int
) -> Iterator[tuple[list[ItemChange], str | None]]:
    """Yield the pages of TableDifferences. Differences of two tables of one name have no time: the end is theirs."""
    while True:
        page = body | {"Limit": PAGE_ITEMS} | ({} if start is None else {"Next": start})
        answer = client.admin("TableDifferences", page)
        start = answer.get("Next")
        yield [_change(each, to_ms) for each in answer["Differences"]], start
        if start is None:
            return


def _change(difference: dict[str, Any], to_ms: int) -> ItemChange:
    time_ms = to_ms
    if "Time" in difference:
        cut = parse_cut(difference["Time"])
        assert isinstance(cut, AtTime), "the time of a change is a time"
        time_ms = cut.time_ms
    return ItemChange(difference["Key"], difference.get("Old"), difference.get("New"), time_ms * 1000)


def _portions(items: Iterator[Item], done: int) -> Iterator[tuple[list[Item], int | None]]:
    """Yield the items behind the first `done`, in portions."""
    rest = islice(items, done, None)
    while True:
        portion = list(islice(rest, PAGE_ITEMS))
        done += len(portion)
        yield portion, done if portion else None
        if not portion:
            return


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
