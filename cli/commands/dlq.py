"""`foldb dlq`: list, show, edit, retry and drop the dead letters of triggers.

A sequence number selects one dead letter. The key of an item selects all dead letters of the key for `retry` and
`drop`, and the first of them for `edit`: it blocks the others.
"""

import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, Any

import typer

from ..lib.change_format import shown
from ..lib.command_group import CommandGroup
from ..lib.completion import complete_triggers
from ..lib.errors import CommandError, ExitCode, RequestFailedError
from ..lib.filter_options import TriggerName
from ..lib.options import DryRun
from ..lib.output import cell, counted
from ..lib.session import Session
from ..lib.settings import editor
from ..lib.values import plain_item, read_json, read_text, typed_item, write_json

app = CommandGroup()

Selector = Annotated[
    str | None,
    typer.Argument(
        metavar="[NUMBER|KEY]",
        help="Sequence number of a dead letter, or key of its item. Default: all dead letters.",
    ),
]
Limit = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Maximum number of dead letters.")]

DeadLetter = dict[str, Any]

_MAX_LIMIT = 10_000


@app.command("list")
def list_(
    session: Session,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="Name of a trigger. Default: all triggers.",
            autocompletion=complete_triggers,
        ),
    ] = None,
    limit: Limit = 100,
) -> None:
    """Print the dead letters of a trigger, or their number for each trigger.

    Example: foldb dlq list receipts
    """
    if name is not None:
        dead_letters, count = _listed(session, name, limit)
        session.output.rows(
            [_row(session, each) for each in dead_letters], first=("key", "number", "op", "error")
        )
        session.output.say(counted(count, "dead letter"))
        return
    names = [each["Name"] for each in session.client.admin("ListSubscriptions")["Subscriptions"]]
    session.output.rows([_count(session, each) for each in names], first=("trigger", "dead_letters"))


@app.command()
def show(session: Session, name: TriggerName, selector: Selector = None, limit: Limit = 100) -> None:
    """Print dead letters with the change, the error, the traceback and the attempts.

    Example: foldb dlq show receipts o-17 -o json
    """
    for dead_letter in _selected(session, name, selector)[:limit]:
        session.output.row(_full_row(session, dead_letter))


@app.command()
def edit(
    session: Session,
    name: TriggerName,
    selector: Annotated[
        str,
        typer.Argument(metavar="NUMBER|KEY", help="Sequence number of a dead letter, or key of its item."),
    ],
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="PATH=JSON",
            help="Set a part of an image: new.total=12, or new={...}. Repeatable.",
        ),
    ] = None,
    payload: Annotated[
        str | None,
        typer.Option(
            "--payload",
            metavar="FILE",
            help="File with a JSON object with `new`, `old` or both. - reads stdin.",
        ),
    ] = None,
) -> None:
    """Change the images that a retry of a dead letter delivers. Without --set and --payload it opens $EDITOR.

    If the text from the editor is invalid, it is kept in a file, and the error names the file.

    Example: foldb dlq edit receipts o-17 --set new.total=12
    """
    if set_ and payload is not None:
        raise CommandError("--set and --payload: give one of them", ExitCode.USAGE)
    dead_letter = _selected(session, name, selector)[0]
    with _draft() as draft:
        _edit(session, name, dead_letter, set_, payload, draft)


def _edit(
    session: Session,
    name: str,
    dead_letter: DeadLetter,
    set_: list[str] | None,
    payload: str | None,
    draft: Path,
) -> None:
    typed = session.settings.typed
    before = {side: dead_letter["Change"][side] for side in ("old", "new")}
    images = {
        side: image and (deepcopy(image) if typed else plain_item(image)) for side, image in before.items()
    }
    if set_:
        for text in set_:
            _set(images, text)
    elif payload is not None:
        images |= _images(read_json(read_text(payload), payload), payload)
    else:
        images |= _images(_edited(draft, write_json(images, indent=True)), "your text")
    after = images if typed else {side: image and typed_item(image) for side, image in images.items()}
    if after == before:
        session.output.say("nothing was changed")
        return
    _store(session, name, dead_letter, after)
    session.output.row(_full_row(session, dead_letter | {"Change": dead_letter["Change"] | after}))


@app.command()
def retry(
    session: Session,
    name: TriggerName,
    selector: Selector = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, max=10_000, help="Maximum number of dead letters.")
    ] = None,
) -> None:
    """Deliver dead letters again, those of a key in order. A handled dead letter is removed.

    Example: foldb dlq retry receipts o-17
    """
    request: dict[str, Any] = {"Name": name} | ({} if limit is None else {"Limit": limit})
    if selector is not None:
        request["Key"] = _selected(session, name, selector)[0]["Key"]
    answer = _send(session, "RetryDeadLetters", request)
    session.output.row({"delivered": answer["Delivered"], "failed": answer["Failed"], "left": answer["Left"]})
    if answer["Failed"]:
        raise CommandError(
            f"{counted(answer['Failed'], 'key')} failed again: `foldb dlq show {name}` prints the errors",
            ExitCode.PARTLY,
        )


@app.command()
def drop(session: Session, name: TriggerName, selector: Selector = None, dry_run: DryRun = False) -> None:
    """Remove dead letters without delivery, after confirmation: one by its number, all of a key, or all.

    A drop by number keeps the other dead letters of the same key, also earlier ones.

    Example: foldb dlq drop receipts o-17 --yes
    """
    dead_letters = _selected(session, name, selector)
    numbered = [each for each in dead_letters if each["Number"] == selector]
    if numbered:
        _drop_numbered(session, name, numbered, dry_run=dry_run)
        return
    request: dict[str, Any] = {"Name": name}
    if selector is not None:
        request["Key"] = dead_letters[0]["Key"]
        dead_letters = [each for each in dead_letters if each["Key"] == dead_letters[0]["Key"]]
    if dry_run:
        session.output.plan(_drop_plan(name, dead_letters))
        return
    session.confirm(_drop_question(dead_letters))
    answer = session.client.admin("DropDeadLetters", request)
    session.output.say(f"{counted(answer['Dropped'], 'dead letter')} dropped")


def _drop_numbered(session: Session, name: str, dead_letters: list[DeadLetter], *, dry_run: bool) -> None:
    """Drop these dead letters, and no others of their keys."""
    keys, dropped = {each["Key"] for each in dead_letters}, _sort_key(dead_letters[0])
    same_key = [_sort_key(each) for each in _listed(session, name, _MAX_LIMIT)[0] if each["Key"] in keys]
    before, after = sum(each < dropped for each in same_key), sum(each > dropped for each in same_key)
    if dry_run:
        session.output.plan(_drop_plan(name, dead_letters) | {"kept_before": before, "kept_after": after})
        return
    kept = (
        f" {before:,} before it and {after:,} after it of the same key are kept." if before or after else ""
    )
    session.confirm(f"{_drop_question(dead_letters)}{kept}")
    table = _table(session, name)
    for dead_letter in dead_letters:
        session.client.call("DeleteItem", {"TableName": table, "Key": _item_key(dead_letter)})
    session.output.say(f"{counted(len(dead_letters), 'dead letter')} dropped.{kept}")


def _drop_plan(name: str, dead_letters: list[DeadLetter]) -> dict[str, Any]:
    keys = {each["Key"] for each in dead_letters}
    counts = {"dead_letters": len(dead_letters), "keys": len(keys)}
    return {"change": "drop dead letters", "trigger": name} | counts


def _sort_key(dead_letter: DeadLetter) -> tuple[int, str]:
    """Return the position among the dead letters of a key; sequence numbers are texts."""
    return len(dead_letter["Number"]), dead_letter["Number"]


def _drop_question(dead_letters: list[DeadLetter]) -> str:
    keys = {each["Key"] for each in dead_letters}
    return (
        f"Drop {counted(len(dead_letters), 'dead letter')} of {counted(len(keys), 'key')}? "
        "Their changes are never delivered."
    )


def _listed(session: Session, name: str, limit: int) -> tuple[list[DeadLetter], int]:
    answer = _send(session, "ListDeadLetters", {"Name": name, "Limit": limit})
    return answer["DeadLetters"], answer["Count"]


def _send(session: Session, operation: str, request: dict[str, Any]) -> dict[str, Any]:
    """Return the server's answer.

    Raises:
        CommandError: The trigger does not exist; if its dead-letter table does, the text names the table.
    """
    try:
        return session.client.admin(operation, request)
    except RequestFailedError as failure:
        name = request["Name"]
        if failure.code is not ExitCode.NOT_FOUND or not _is_table(session, f"{name}.dlq"):
            raise
        raise CommandError(
            f"there is no trigger {name}, but the table of its dead letters exists: `foldb scan {name}.dlq`",
            ExitCode.NOT_FOUND,
        ) from None


def _is_table(session: Session, name: str) -> bool:
    try:
        session.shape(name)
    except RequestFailedError:
        return False
    return True


def _count(session: Session, name: str) -> dict[str, Any]:
    dead_letters, count = _listed(session, name, 1)
    first = dead_letters[0]["First"] if dead_letters else None
    return {"trigger": name, "dead_letters": count, "first": first}


def _selected(session: Session, name: str, selector: str | None) -> list[DeadLetter]:
    """Return the dead letters that a selector matches, at least one.

    Raises:
        CommandError: No dead letter matches.
    """
    dead_letters, _ = _listed(session, name, _MAX_LIMIT)
    if selector is not None:
        dead_letters = [each for each in dead_letters if _matches(each, selector)]
    if not dead_letters and selector is None:
        raise CommandError(f"{name} has no dead letters", ExitCode.NOT_FOUND)
    if not dead_letters:
        raise CommandError(
            f"{name} has no dead letter {selector}: `foldb dlq list {name}` prints them",
            ExitCode.NOT_FOUND,
        )
    return dead_letters


def _matches(dead_letter: DeadLetter, selector: str) -> bool:
    """Return whether a selector is the number or the key of a dead letter, in any spelling of numbers in the key."""
    keys = plain_item(dead_letter["Change"]["keys"] or {})  # an edit may have removed them
    values, words = [*keys.values()], selector.split(" ")
    names = (dead_letter["Number"], dead_letter["Key"], write_json(keys), " ".join(map(cell, values)))
    return selector in names or (len(words) == len(values) and all(map(_is_value, values, words)))


def _is_value(value: Any, word: str) -> bool:
    if not isinstance(value, Decimal):
        return word == cell(value)
    try:
        return value == Decimal(word)
    except InvalidOperation:
        return False


def _row(session: Session, dead_letter: DeadLetter) -> dict[str, Any]:
    change = shown(dead_letter["Change"], typed=session.settings.typed)
    return {
        "key": change["keys"],
        "number": dead_letter["Number"],
        "op": change["op"],
        "error": dead_letter["Error"],
        "attempts": dead_letter["Attempts"],
        "first": dead_letter["First"],
        "last": dead_letter["Last"],
    }


def _full_row(session: Session, dead_letter: DeadLetter) -> dict[str, Any]:
    change = shown(dead_letter["Change"], typed=session.settings.typed)
    names = ("Traceback", "Version", "Partition", "Subscription")
    return (
        _row(session, dead_letter) | {name.lower(): dead_letter[name] for name in names} | {"payload": change}
    )


def _set(images: dict[str, Any], text: str) -> None:
    """Set a part of the images, as in `new.total=12`."""
    path, equals, value = text.partition("=")
    side, *names = path.strip().split(".")
    if not equals or side not in images or not all(names):
        raise CommandError(f"--set {text}: write new.NAME=JSON, new=JSON, or the same of old", ExitCode.USAGE)
    if not names:
        images |= _images({side: read_json(value, f"--set {path}")}, f"--set {path}")
        return
    inner: Any = images[side]
    for name in names[:-1]:
        inner = inner.get(name) if isinstance(inner, dict) else None
    if not isinstance(inner, dict):
        raise CommandError(f"--set {text}: there is no {path.strip()} to set", ExitCode.USAGE)
    inner[names[-1]] = read_json(value, f"--set {path}")


def _images(document: Any, source: str) -> dict[str, Any]:
    """Return `old` and `new` of a payload, or of a dead letter as `dlq show` prints it.

    Raises:
        CommandError: The document from `source` has neither image.
    """
    if isinstance(document, dict) and isinstance(document.get("payload"), dict):
        document = document["payload"]
    present = document.keys() & {"old", "new"} if isinstance(document, dict) else set()
    sides = {side: document[side] for side in sorted(present)}
    if not sides or not all(isinstance(image, dict | None) for image in sides.values()):
        raise CommandError(
            f"{source} is not a payload: write a JSON object with `new`, `old` or both", ExitCode.USAGE
        )
    return sides


@contextmanager
def _draft() -> Iterator[Path]:
    """Yield a temporary file for an editor. It is deleted unless its text is invalid.

    Raises:
        CommandError: The text in the file is invalid; the message names the file.
    """
    folder = Path(tempfile.mkdtemp(prefix="foldb-"))
    path = folder / "payload.json"
    try:
        yield path
    except CommandError as error:
        if path.exists():
            kept = (
                f"{error.sentence.rstrip('.')}; your text is in {path}: correct it and use --payload {path}"
            )
            raise CommandError(kept, error.code) from None
        shutil.rmtree(folder)
        raise
    shutil.rmtree(folder)  # with backup files of the editor


def _edited(path: Path, text: str) -> Any:
    """Return the JSON that the user writes in an editor, which starts with `text`."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise CommandError("there is no terminal for an editor: use --set or --payload", ExitCode.USAGE)
    path.write_text(text, "utf-8")
    command = shlex.split(editor())
    try:
        ended = subprocess.run([*command, str(path)], check=False).returncode  # noqa: S603  # the user's own editor
    except OSError as error:
        path.unlink()
        raise CommandError(
            f"cannot start {command[0]}: {error.strerror}; set EDITOR", ExitCode.USAGE
        ) from None
    if ended:
        path.unlink(missing_ok=True)
        raise CommandError(f"{command[0]} ended with {ended}: nothing was changed", ExitCode.INTERRUPTED)
    return read_json(read_text(str(path)), "your text")


def _store(session: Session, name: str, dead_letter: DeadLetter, images: dict[str, Any]) -> None:
    """Replace the images of a dead letter, unless another edit or a retry changed it first."""
    before = {side: dead_letter["Change"][side] for side in images}
    selected = {"Name": name, "Key": dead_letter["Key"], "Number": dead_letter["Number"]}
    session.client.admin("EditDeadLetter", {**selected, "Before": before, "After": images})


def _table(session: Session, name: str) -> str:
    """Return the name of a trigger's dead-letter table."""
    return str(session.client.admin("DescribeSubscription", {"Name": name})["Settings"]["DeadLetterTable"])


def _item_key(dead_letter: DeadLetter) -> dict[str, Any]:
    return {"key": {"S": dead_letter["Key"]}, "number": {"S": dead_letter["Number"]}}
