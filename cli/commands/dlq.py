"""`foldb dlq`: what triggers gave up, to look at, to mend, to deliver again or to do without.

A letter is meant by its sequence number, or by the key of its item; of a key the first letter, in whose way nothing is.
What is delivered again or dropped by a key is all of its letters.
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
from ..lib.errors import CommandError, ExitCode, RequestFailedError
from ..lib.filter_options import TriggerName
from ..lib.output import cell, counted
from ..lib.session import Session
from ..lib.settings import editor
from ..lib.values import plain_item, read_json, read_text, typed_item, write_json

app = typer.Typer(
    no_args_is_help=True, help="Look at what triggers gave up, mend it, deliver it again, or drop it."
)

Which = Annotated[
    str | None,
    typer.Argument(
        metavar="[NUMBER|KEY]", help="A letter's sequence number, or its item's key; all, if left out."
    ),
]
Limit = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="At most so many letters.")]

Letter = dict[str, Any]

_MOST = 10_000


@app.command("list")
def list_(
    ctx: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="A trigger; all, if none is named.")
    ] = None,
    limit: Limit = 100,
) -> None:
    """Print the letters of a trigger, or how many each trigger has.

    Example: foldb dlq list receipts
    """
    session: Session = ctx.obj
    if name is not None:
        letters, count = _letters(session, name, limit)
        session.output.rows(
            [_row(session, letter) for letter in letters], first=("key", "number", "op", "error")
        )
        session.output.say(counted(count, "letter"))
        return
    names = [each["Name"] for each in session.client.admin("ListSubscriptions")["Subscriptions"]]
    session.output.rows([_count(session, each) for each in names], first=("trigger", "letters"))


@app.command()
def show(ctx: typer.Context, name: TriggerName, which: Which = None, limit: Limit = 100) -> None:
    """Print letters whole: the change, the error, the traceback, the attempts.

    Example: foldb dlq show receipts o-17 -o json
    """
    session: Session = ctx.obj
    for letter in _meant(session, name, which)[:limit]:
        session.output.row(_whole(session, letter))


@app.command()
def edit(
    ctx: typer.Context,
    name: TriggerName,
    which: Annotated[
        str, typer.Argument(metavar="NUMBER|KEY", help="A letter's sequence number, or its item's key.")
    ],
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="PATH=JSON", help="Change a part: new.total=12, or new={...}; repeat it."
        ),
    ] = None,
    payload: Annotated[
        str | None,
        typer.Option(
            "--payload", metavar="FILE", help="A JSON object with `new`, `old` or both; - is stdin."
        ),
    ] = None,
) -> None:
    """Change what a letter delivers when it is retried; without --set and --payload in $EDITOR.

    What was written in an editor and cannot be used is kept in a file, and that is said.

    Example: foldb dlq edit receipts o-17 --set new.total=12
    """
    session: Session = ctx.obj
    if set_ and payload is not None:
        raise CommandError("--set and --payload: say one of them", ExitCode.USAGE)
    letter = _meant(session, name, which)[0]
    with _draft() as draft:
        _edit(session, name, letter, set_, payload, draft)


def _edit(
    session: Session, name: str, letter: Letter, set_: list[str] | None, payload: str | None, draft: Path
) -> None:
    typed = session.settings.typed
    before = {side: letter["Change"][side] for side in ("old", "new")}
    images = {
        side: image and (deepcopy(image) if typed else plain_item(image)) for side, image in before.items()
    }
    if set_:
        for text in set_:
            _set(images, text)
    elif payload is not None:
        images |= _images(read_json(read_text(payload), payload), payload)
    else:
        images |= _images(_edited(draft, write_json(images, indent=True)), "what you wrote")
    after = images if typed else {side: image and typed_item(image) for side, image in images.items()}
    if after == before:
        session.output.say("nothing was changed")
        return
    _store(session, name, letter, after)
    session.output.row(_whole(session, letter | {"Change": letter["Change"] | after}))


@app.command()
def retry(
    ctx: typer.Context,
    name: TriggerName,
    which: Which = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, max=10_000, help="At most so many.")] = None,
) -> None:
    """Deliver letters again, those of a key in their order; what is handled is a letter no more.

    Example: foldb dlq retry receipts o-17
    """
    session: Session = ctx.obj
    request: dict[str, Any] = {"Name": name} | ({} if limit is None else {"Limit": limit})
    if which is not None:
        request["Key"] = _meant(session, name, which)[0]["Key"]
    answer = _asked(session, "RetryDeadLetters", request)
    session.output.row({"delivered": answer["Delivered"], "failed": answer["Failed"], "left": answer["Left"]})
    if answer["Failed"]:
        raise CommandError(
            f"{counted(answer['Failed'], 'key')} failed again: `foldb dlq show {name}` says why",
            ExitCode.PARTLY,
        )


@app.command()
def drop(ctx: typer.Context, name: TriggerName, which: Which = None) -> None:
    """Remove letters undelivered, after asking: the one of a number, all of a key, or all there are.

    Of a number's key other letters stay, also earlier ones, without which it would never have been delivered.

    Example: foldb dlq drop receipts o-17 --yes
    """
    session: Session = ctx.obj
    letters = _meant(session, name, which)
    of_number = [letter for letter in letters if letter["Number"] == which]
    if of_number:
        _drop_alone(session, name, of_number)
        return
    request: dict[str, Any] = {"Name": name}
    if which is not None:
        request["Key"] = letters[0]["Key"]
        letters = [letter for letter in letters if letter["Key"] == letters[0]["Key"]]
    session.confirm(_drop_question(letters))
    answer = session.client.admin("DropDeadLetters", request)
    session.output.say(f"{counted(answer['Dropped'], 'letter')} dropped")


def _drop_alone(session: Session, name: str, letters: list[Letter]) -> None:
    """Drop these letters, and none of those before and behind them."""
    keys, place = {letter["Key"] for letter in letters}, _place(letters[0])
    same_key = [_place(each) for each in _letters(session, name, _MOST)[0] if each["Key"] in keys]
    before, behind = sum(each < place for each in same_key), sum(each > place for each in same_key)
    stays = f" Of its key {before:,} before it and {behind:,} behind it stay." if before or behind else ""
    session.confirm(f"{_drop_question(letters)}{stays}")
    table = _table(session, name)
    for letter in letters:
        session.client.call("DeleteItem", {"TableName": table, "Key": _item_key(letter)})
    session.output.say(f"{counted(len(letters), 'letter')} dropped.{stays}")


def _place(letter: Letter) -> tuple[int, str]:
    """By which the letters of a key are in order: their numbers are texts."""
    return len(letter["Number"]), letter["Number"]


def _drop_question(letters: list[Letter]) -> str:
    keys = {letter["Key"] for letter in letters}
    return (
        f"Drop {counted(len(letters), 'letter')} of {counted(len(keys), 'key')}? "
        "What they hold is delivered to nobody."
    )


def _letters(session: Session, name: str, limit: int) -> tuple[list[Letter], int]:
    answer = _asked(session, "ListDeadLetters", {"Name": name, "Limit": limit})
    return answer["DeadLetters"], answer["Count"]


def _asked(session: Session, operation: str, request: dict[str, Any]) -> dict[str, Any]:
    """What the server answers; of a trigger that is removed, where its letters are."""
    try:
        return session.client.admin(operation, request)
    except RequestFailedError as failure:
        name = request["Name"]
        if failure.code is not ExitCode.NOT_FOUND or not _is_table(session, f"{name}.dlq"):
            raise
        raise CommandError(
            f"there is no trigger {name} any more; its letters are in the table {name}.dlq: `foldb scan {name}.dlq`",
            ExitCode.NOT_FOUND,
        ) from None


def _is_table(session: Session, name: str) -> bool:
    try:
        session.shape(name)
    except RequestFailedError:
        return False
    return True


def _count(session: Session, name: str) -> dict[str, Any]:
    letters, count = _letters(session, name, 1)
    return {"trigger": name, "letters": count, "first": letters[0]["First"] if letters else None}


def _meant(session: Session, name: str, which: str | None) -> list[Letter]:
    """The letters that are meant, at least one."""
    letters, _ = _letters(session, name, _MOST)
    if which is not None:
        letters = [letter for letter in letters if _is_called(letter, which)]
    if not letters and which is None:
        raise CommandError(f"{name} has no letters: nothing was given up", ExitCode.NOT_FOUND)
    if not letters:
        raise CommandError(
            f"{name} has no letter {which}: `foldb dlq list {name}` prints those that it has",
            ExitCode.NOT_FOUND,
        )
    return letters


def _is_called(letter: Letter, which: str) -> bool:
    """Whether a letter may be called so; a number of its key however that is written."""
    keys = plain_item(letter["Change"]["keys"] or {})  # none, if it was edited into something else
    values, words = [*keys.values()], which.split(" ")
    names = (letter["Number"], letter["Key"], write_json(keys), " ".join(map(cell, values)))
    return which in names or (len(words) == len(values) and all(map(_is_value, values, words)))


def _is_value(value: Any, word: str) -> bool:
    if not isinstance(value, Decimal):
        return word == cell(value)
    try:
        return value == Decimal(word)
    except InvalidOperation:
        return False


def _row(session: Session, letter: Letter) -> dict[str, Any]:
    change = shown(letter["Change"], typed=session.settings.typed)
    return {
        "key": change["keys"],
        "number": letter["Number"],
        "op": change["op"],
        "error": letter["Error"],
        "attempts": letter["Attempts"],
        "first": letter["First"],
        "last": letter["Last"],
    }


def _whole(session: Session, letter: Letter) -> dict[str, Any]:
    change = shown(letter["Change"], typed=session.settings.typed)
    names = ("Traceback", "Version", "Partition", "Subscription")
    return _row(session, letter) | {name.lower(): letter[name] for name in names} | {"payload": change}


def _set(images: dict[str, Any], text: str) -> None:
    """Set a part of the images: `new.total=12`."""
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


def _images(found: Any, what: str) -> dict[str, Any]:
    """`old` and `new` out of what was written; a whole letter, as `dlq show` prints it, will do."""
    if isinstance(found, dict) and isinstance(found.get("payload"), dict):
        found = found["payload"]
    sides = {side: found[side] for side in ("old", "new") if side in found} if isinstance(found, dict) else {}
    if not sides or not all(isinstance(image, dict | None) for image in sides.values()):
        raise CommandError(
            f"{what} is no payload: write a JSON object with `new`, `old` or both", ExitCode.USAGE
        )
    return sides


@contextmanager
def _draft() -> Iterator[Path]:
    """A file to write in, which is there no more at the end, unless what was written there came to nothing.

    Raises:
        CommandError: It came to nothing; where it is.
    """
    folder = Path(tempfile.mkdtemp(prefix="foldb-"))
    path = folder / "payload.json"
    try:
        yield path
    except CommandError as error:
        if path.exists():
            kept = f"{error.sentence.rstrip('.')}; what you wrote is in {path}: mend it, and say --payload {path}"
            raise CommandError(kept, error.code) from None
        shutil.rmtree(folder)
        raise
    shutil.rmtree(folder)  # with what the editor left beside it


def _edited(path: Path, text: str) -> Any:
    """What a person makes of it in an editor; the file stays if they have made something of it."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise CommandError("there is no terminal for an editor: say --set or --payload", ExitCode.USAGE)
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
    return read_json(read_text(str(path)), "what you wrote")


def _store(session: Session, name: str, letter: Letter, images: dict[str, Any]) -> None:
    """Write the images into the letter, if it is there and nobody else mended it meanwhile."""
    before = {side: letter["Change"][side] for side in images}
    which = {"Name": name, "Key": letter["Key"], "Number": letter["Number"]}
    session.client.admin("EditDeadLetter", {**which, "Before": before, "After": images})


def _table(session: Session, name: str) -> str:
    """The table that the letters of a trigger are items of."""
    return str(session.client.admin("DescribeSubscription", {"Name": name})["Settings"]["DeadLetterTable"])


def _item_key(letter: Letter) -> dict[str, Any]:
    return {"key": {"S": letter["Key"]}, "number": {"S": letter["Number"]}}
