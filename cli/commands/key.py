"""`foldb key`: who may do what to which tables."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from ...server.auth.keyfile import Key, changed, new_key, read_keys
from ...server.auth.rights import Right, Rights, is_pattern
from ..lib.errors import CommandError, ExitCode
from ..lib.output import counted
from ..lib.session import Session

app = typer.Typer(no_args_is_help=True, help="Make, list and revoke access keys.")

_DAYS = re.compile(r"(\d{1,5})d")

KeyFile: TypeAlias = Annotated[
    Path, typer.Option("--keys", metavar="FILE", help="The file that `foldb serve --keys` reads.")
]
Tables: TypeAlias = list[str] | None
_FILE = Path("keys.toml")


@app.command()
def create(
    ctx: typer.Context,
    keys: KeyFile = _FILE,
    read: Annotated[
        Tables, typer.Option(metavar="TABLE", help="May read it; * is anything; repeat it.")
    ] = None,
    write: Annotated[Tables, typer.Option(metavar="TABLE", help="May write and read it.")] = None,
    admin: Annotated[
        Tables, typer.Option(metavar="TABLE", help="May also create, change and delete it; '*' may do all.")
    ] = None,
    monitor: Annotated[
        bool,
        typer.Option(
            "--monitor", help="May read GET /metrics and `foldb status`, and use `foldb wait POSITION`."
        ),
    ] = False,
    expires: Annotated[
        str | None, typer.Option(metavar="DAYSd|TIME", help="90d, or 2027-01-01T00:00:00Z.")
    ] = None,
    note: Annotated[str, typer.Option(help="What it is for.")] = "",
) -> None:
    """Make a key and print its secret, once; the file is made if it is not there, and a server takes it up at once.

    Example: foldb key create --write 'Orders*' --read '*' --note 'the order service'
    """
    session: Session = ctx.obj
    for pattern in (*(read or ()), *(write or ()), *(admin or ())):
        if not is_pattern(pattern):
            raise CommandError(f"{pattern}: the name of a table, in which * is anything.", ExitCode.USAGE)
    if not (read or write or admin or monitor):
        raise CommandError(
            "a key without rights opens nothing: say --read, --write or --admin and a table, or '*', or say --monitor.",
            ExitCode.USAGE,
        )
    now = datetime.now(UTC)
    rights = Rights(read or (), write or (), admin or (), monitor=monitor)
    key = new_key(now, rights, None if expires is None else _moment(expires, now), note)
    with changed(keys) as by_id:
        by_id[key.id] = key
    session.output.row({"AccessKeyId": key.id, "SecretAccessKey": key.secret})
    session.output.say(f"in {keys}; the secret is shown this once")


@app.command("list")
def show(ctx: typer.Context, keys: KeyFile = _FILE) -> None:
    """Print the keys there are and what they may do, without their secrets.

    Example: foldb key list
    """
    session: Session = ctx.obj
    now = datetime.now(UTC)
    found = read_keys(keys).by_id.values()
    session.output.rows((_row(key, now) for key in found), first=("id", "created"))
    session.output.say(counted(len(found), "key"))


@app.command()
def revoke(
    ctx: typer.Context,
    key_id: Annotated[str, typer.Argument(metavar="KEY", help="Its id.")],
    keys: KeyFile = _FILE,
) -> None:
    """Take a key out of the file: a running server refuses it within a second.

    Example: foldb key revoke FOLDB7Q2M5K4T3X6J2WA
    """
    session: Session = ctx.obj
    with changed(keys) as by_id:
        if by_id.pop(key_id, None) is None:
            raise CommandError(
                f"there is no key {key_id} in {keys}: `foldb key list` names them", ExitCode.NOT_FOUND
            )
    session.output.say(f"{key_id} is revoked")


def _row(key: Key, now: datetime) -> dict[str, object]:
    row: dict[str, object] = {"id": key.id, "created": _text(key.created)}
    if key.expires is not None:
        row |= {"expires": _text(key.expires), "expired": key.expires <= now}
    if key.note:
        row["note"] = key.note
    patterns = key.rights.patterns
    row |= {right.name.lower(): list(patterns[right]) for right in Right if patterns.get(right)}
    return row | {"monitor": True} if key.rights.monitor else row


def _moment(text: str, now: datetime) -> datetime:
    if days := _DAYS.fullmatch(text):
        return now.replace(microsecond=0) + timedelta(days=int(days[1]))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise CommandError(f"--expires {text}: 90d, or a time such as 2027-01-01T00:00:00Z.", ExitCode.USAGE)
    return moment


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
