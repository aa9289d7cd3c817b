"""`foldb item`: read and write single items, put many from JSON Lines, and read the history of an item."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any

import typer

from ..lib.batch_writer import BatchWriter, Placed
from ..lib.command_group import AGES, CommandGroup
from ..lib.differences import Pages, attributes, blamed, context_row, version_row
from ..lib.errors import CommandError, ExitCode, RequestFailedError
from ..lib.literals import Lifted
from ..lib.options import (
    AsOf,
    ConditionOption,
    Consistent,
    DryRun,
    KeyWords,
    Placeholders,
    Select,
    ShowOld,
    TableArgument,
    UpdateClauses,
    check_cut,
    name_as_of,
)
from ..lib.output import counted
from ..lib.progress import progress
from ..lib.session import Session, consumed
from ..lib.values import item_of, line_name, plain, plain_item, read_item, read_json, read_lines

app = CommandGroup()


@app.command()
def put(
    session: Session,
    table: TableArgument,
    item: Annotated[
        str, typer.Argument(help="A JSON object, @FILE of JSON Lines, or - for JSON Lines from stdin.")
    ],
    condition: ConditionOption = None,
    show_old: ShowOld = False,
    *,
    placeholders: Placeholders,
) -> None:
    """Put an item. It replaces an item with the same key.

    Items from a file or stdin are written with BatchWriteItem, which has no conditions.

    Example: foldb item put Music '{"Artist": "Kyuss", "Song": "Space Cadet"}' --if 'attribute_not_exists(Song)'
    """
    if item == "-" or item.startswith("@"):
        if condition is not None:
            raise CommandError("--if is for a single item: BatchWriteItem has no conditions", ExitCode.USAGE)
        _put_lines(session, table, item)
        return
    body = {"Item": read_item(item, "the item", is_typed=session.settings.typed)}
    _write(session, "PutItem", table, body, condition, placeholders.lifted(), show_old)


@app.command()
def get(
    session: Session,
    table: TableArgument,
    key: KeyWords,
    select: Select = None,
    consistent: Consistent = False,
    as_of: AsOf = None,
) -> None:
    """Print one item. The exit code is 3 if there is none.

    Example: foldb item get Music Kyuss 'Space Cadet'
    """
    table = name_as_of(table, as_of)
    body: dict[str, Any] = {
        "TableName": table,
        "Key": session.shape(table).read_key(key, is_typed=session.settings.typed),
        "ConsistentRead": consistent,
        "ReturnConsumedCapacity": "TOTAL",
    }
    if select is not None:
        lifted = Lifted([], [])
        body |= {"ProjectionExpression": lifted.paths(select)} | lifted.body()
    answer = session.client.call("GetItem", body)
    if "Item" in answer:
        session.output.item(answer["Item"])
    session.read_footer(1 if "Item" in answer else 0, consumed(answer))
    if "Item" not in answer:
        raise CommandError(f"no item with this key in {table}", ExitCode.NOT_FOUND)


@app.command()
def update(
    session: Session,
    table: TableArgument,
    key: KeyWords,
    condition: ConditionOption = None,
    show_old: ShowOld = False,
    *,
    clauses: UpdateClauses,
    placeholders: Placeholders,
) -> None:
    """Change attributes of an item, or create it, and print the new item.

    Example: foldb item update Counters home --set 'visits = if_not_exists(visits, 0) + 1' --if 'visits < 10'
    """
    lifted = placeholders.lifted()
    body = {
        "Key": session.shape(table).read_key(key, is_typed=session.settings.typed),
        "UpdateExpression": update_of(lifted, clauses),
        "ReturnValues": "ALL_NEW",
    }
    _write(session, "UpdateItem", table, body, condition, lifted, show_old)


@app.command()
def delete(
    session: Session,
    table: TableArgument,
    key: KeyWords,
    condition: ConditionOption = None,
    show_old: ShowOld = False,
    dry_run: DryRun = False,
    *,
    placeholders: Placeholders,
) -> None:
    """Delete an item and print the old item. Print nothing if there was none.

    Example: foldb item delete Music Kyuss 'Space Cadet'
    """
    body = {
        "Key": session.shape(table).read_key(key, is_typed=session.settings.typed),
        "ReturnValues": "ALL_OLD",
    }
    if dry_run:
        request = {"TableName": table, "Key": body["Key"], "ConsistentRead": True}
        item = session.client.call("GetItem", request).get("Item")
        typed = session.settings.typed
        session.output.plan(
            {"change": "delete the item", "table": table, "items": 0 if item is None else 1}
            | ({} if condition is None else {"condition": condition})
            | ({} if item is None else {"item": item if typed else plain_item(item)})
        )
        return
    _write(session, "DeleteItem", table, body, condition, placeholders.lifted(), show_old)


@app.command()
def history(
    session: Session,
    table: TableArgument,
    key: KeyWords,
    since: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="CUT",
            parser=check_cut,
            help="Print only what was written after this point of history.",
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="CUT",
            parser=check_cut,
            show_default="now",
            help="Print what was written up to this point.",
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Print at most N versions.")] = 100,
) -> None:
    """Print the versions of an item and the writes to it that were refused, the newest first.

    Example: foldb item history Music Kyuss 'Space Cadet'
    """
    body = _history_request(session, table, key, until)
    if since is not None:
        body["From"] = since
    pages = Pages(session.client, "ItemHistory", body)
    is_typed = session.settings.typed
    rows = (version_row(each, is_typed=is_typed) for each in pages.entries("Versions", limit))
    count = session.output.rows(rows, first=("position", "time", "kind"))
    more = " · more: --limit" if "Next" in pages.answer else ""
    session.output.say(f"{counted(count, 'version')} · up to {pages.answer['To']}{more}")


@app.command()
def blame(session: Session, table: TableArgument, key: KeyWords, as_of: AsOf = None) -> None:
    """Print which write set each attribute of an item. The exit code is 3 if there is no item.

    Example: foldb item blame Music Kyuss 'Space Cadet'
    """
    pages = Pages(session.client, "ItemHistory", _history_request(session, table, key, as_of))
    is_typed = session.settings.typed
    rows = [
        {
            "attribute": name,
            "value": value if is_typed else plain(value),
            "position": version["Position"],
            "time": version["Time"],
        }
        | context_row(version)
        for name, value, version in blamed(pages.entries("Versions"))
    ]
    if not rows:
        raise CommandError(f"no item with this key in {name_as_of(table, as_of)}", ExitCode.NOT_FOUND)
    session.output.rows(rows)


@app.command(context_settings=AGES)
def diff(
    session: Session,
    table: TableArgument,
    words: Annotated[
        list[str], typer.Argument(metavar="KEY... CUT CUT", help="The key as in `item get`, and two cuts.")
    ],
) -> None:
    """Print each attribute of an item that differs between two points of history.

    Example: foldb item diff Music Kyuss 'Space Cadet' -1h -0
    """
    for word in words:
        if word.startswith("--"):
            raise CommandError(f"no such option: {word}. See `foldb item diff --help`.", ExitCode.USAGE)
    if len(words) < 3:
        raise CommandError(
            "write the key and two cuts, as in `foldb item diff TABLE KEY -1h -0`", ExitCode.USAGE
        )
    *key, since, until = words
    items = []
    for cut in (since, until):
        name = name_as_of(table, check_cut(cut))
        shape = session.shape(name)
        request = {"TableName": name, "Key": shape.read_key(key, is_typed=session.settings.typed)}
        items.append(session.client.call("GetItem", request).get("Item"))
    count = session.output.rows(
        attributes(*items, is_typed=session.settings.typed), first=("kind", "attribute")
    )
    session.output.say(f"{counted(count, 'attribute')} changed")


def _history_request(session: Session, table: str, key: Sequence[str], until: str | None) -> dict[str, Any]:
    """Return the request for the history of an item up to a cut; None is now."""
    shape = session.shape(name_as_of(table, until))
    body = {"TableName": table, "Key": shape.read_key(key, is_typed=session.settings.typed)}
    return body if until is None else body | {"To": until}


def update_of(lifted: Lifted, clauses: UpdateClauses) -> str:
    """Return the UpdateExpression of an update.

    Raises:
        CommandError: All clauses are empty.
    """
    expression = update_expression(lifted, clauses.set_, clauses.remove, clauses.add, clauses.delete)
    if not expression:
        raise CommandError("nothing to change: give --set, --remove, --add or --delete", ExitCode.USAGE)
    return expression


def update_expression(lifted: Lifted, *clauses: Iterable[str] | None) -> str:
    """Return SET, REMOVE, ADD and DELETE clauses, given in this order, as one UpdateExpression."""
    words = zip(("SET", "REMOVE", "ADD", "DELETE"), clauses, strict=True)
    return " ".join(
        f"{word} {', '.join(lifted.lift(part, is_update=True) for part in parts)}"
        for word, parts in words
        if parts
    )


def _write(
    session: Session,
    operation: str,
    table: str,
    body: dict[str, Any],
    condition: str | None,
    lifted: Lifted,
    show_old: bool,
) -> None:
    """Send a write and print the item that it returns: the new, the old, or the one that failed the condition."""
    body |= {"TableName": table, "ReturnConsumedCapacity": "TOTAL"}
    if condition is not None:
        body["ConditionExpression"] = lifted.lift(condition)
        if show_old:
            body["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
    try:
        answer = session.client.call(operation, body | lifted.body())
    except RequestFailedError as failure:
        if "Item" in failure.body:
            session.output.item(failure.body["Item"])
        raise
    if "Attributes" in answer:
        session.output.item(answer["Attributes"])
    session.write_footer(1, consumed(answer))


def _put_lines(session: Session, table: str, source: str) -> None:
    """Write the items of a file or of stdin in batches, up to the first invalid line."""
    loader = BatchWriter(session.client, session.shape(table), is_typed=session.settings.typed)
    items = _items(source.removeprefix("@"), loader, session.settings.typed)
    try:
        with progress(session.settings, session.output.stderr, table, None) as advance:
            loader.load(items, advance)
    except KeyboardInterrupt as error:
        raise CommandError(
            f"interrupted after {counted(loader.written, 'item')}; to put them again is harmless",
            ExitCode.INTERRUPTED,
        ) from error
    session.write_footer(loader.written, loader.units)


def _items(source: str, loader: BatchWriter, is_typed: bool) -> Iterator[Placed]:
    for line_number, line in enumerate(read_lines(source), start=1):
        if line.strip():
            name = line_name(source, line_number)
            value = read_json(line, name)
            key = loader.key_text(value) if isinstance(value, dict) else ""
            yield name, item_of(value, f"{name}{key}", is_typed=is_typed)
