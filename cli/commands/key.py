"""`foldb key`: access keys and their rights to tables."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from ...model.lazy_dataclass import dataclass
from ...server.auth.keyfile import Key, changed, new_key, read_keys, time_text
from ...server.auth.policy_document import POLICY_BYTES, PolicyError
from ...server.auth.policy_text import user_arn
from ...server.auth.rights import Right, Rights, is_pattern
from ..lib.command_group import CommandGroup
from ..lib.errors import CommandError, ExitCode
from ..lib.options import DryRun
from ..lib.output import counted
from ..lib.session import Session

app = CommandGroup()

_DAYS = re.compile(r"(\d{1,5})d")

KeyFile: TypeAlias = Annotated[
    Path, typer.Option("--keys", metavar="FILE", help="The file that `foldb serve --keys` reads.")
]
Tables: TypeAlias = list[str] | None
_FILE = Path("keys.toml")


@dataclass(frozen=True, slots=True)
class RightsOptions:
    """The rights of a new key."""

    read: Annotated[
        Tables,
        typer.Option(
            metavar="TABLE",
            help="Allow reads of tables with this name, in which * matches any text. Repeat the flag for more.",
        ),
    ] = None
    write: Annotated[Tables, typer.Option(metavar="TABLE", help="Allow writes and reads.")] = None
    admin: Annotated[
        Tables,
        typer.Option(
            metavar="TABLE",
            help="Allow also to create, change and delete the tables. '*' allows every operation.",
        ),
    ] = None
    history: Annotated[
        Tables,
        typer.Option(
            metavar="TABLE",
            help="Allow reads of the past of the tables, which has deleted items. No other right includes it, "
            "except --admin '*'.",
        ),
    ] = None
    monitor: Annotated[
        bool,
        typer.Option("--monitor", help="Allow GET /metrics, `foldb status` and `foldb wait POSITION`."),
    ] = False
    policy: Annotated[
        Path | None,
        typer.Option(
            metavar="POLICY",
            help="Allow and deny actions by the policy in this file, a JSON document in AWS's policy language.",
        ),
    ] = None

    def rights(self) -> Rights:
        """Return the rights.

        Raises:
            CommandError: A pattern is not one of table names, the policy is invalid, or no right is given.
        """
        read, write, admin, history = (
            each or () for each in (self.read, self.write, self.admin, self.history)
        )
        for pattern in (*read, *write, *admin, *history):
            if not is_pattern(pattern):
                raise CommandError(
                    f"{pattern} is not the name of a table, in which * matches any text.", ExitCode.USAGE
                )
        if not (read or write or admin or history or self.monitor or self.policy):
            raise CommandError(
                "a key needs a right: give --read, --write, --admin or --history with a table or '*', --monitor, or "
                "--policy with a file.",
                ExitCode.USAGE,
            )
        policy = None if self.policy is None else _policy_text(self.policy)
        try:
            return Rights(read, write, admin, history=history, monitor=self.monitor, policy=policy)
        except PolicyError as error:
            raise CommandError(
                f"{self.policy}: {error}: docs/policies.md has the elements.", ExitCode.USAGE
            ) from None


@app.command()
def create(
    session: Session,
    options: RightsOptions,
    keys: KeyFile = _FILE,
    expires: Annotated[
        str | None,
        typer.Option(
            metavar="DAYSd|TIME",
            show_default="never",
            help="Expire the key after days or at a time: 90d, or 2027-01-01T00:00:00Z.",
        ),
    ] = None,
    note: Annotated[str, typer.Option(help="A text for `foldb key list`, such as the key's user.")] = "",
) -> None:
    """Create a key and print its secret, which cannot be shown again. A running server accepts the key at once.

    A missing file is created.

    Example: foldb key create --write 'Orders*' --read '*' --note 'the order service'
    """
    now = datetime.now(UTC)
    rights = options.rights()
    key = new_key(now, rights, None if expires is None else _moment(expires, now), note)
    with changed(keys) as by_id:
        by_id[key.id] = key
    session.output.row({"AccessKeyId": key.id, "SecretAccessKey": key.secret, "Arn": user_arn(key.id)})
    session.output.say(f"written to {keys}; the secret cannot be shown again")


@app.command("list")
def show(session: Session, keys: KeyFile = _FILE) -> None:
    """Print the keys and their rights, without secrets.

    Example: foldb key list
    """
    now = datetime.now(UTC)
    found = read_keys(keys).by_id.values()
    session.output.rows((_row(key, now) for key in found), first=("id", "created"))
    session.output.say(counted(len(found), "key"))


@app.command()
def revoke(
    session: Session,
    key_id: Annotated[str, typer.Argument(metavar="KEY", help="The id of the key.")],
    keys: KeyFile = _FILE,
    dry_run: DryRun = False,
) -> None:
    """Remove a key from the file. A running server refuses it within a second.

    Example: foldb key revoke FOLDB7Q2M5K4T3X6J2WA
    """
    if dry_run:
        by_id = read_keys(keys).by_id
        row = _row(_known(keys, by_id, key_id), datetime.now(UTC))
        session.output.plan({"change": "revoke the key"} | row | {"left": len(by_id) - 1})
        return
    with changed(keys) as by_id:
        _known(keys, by_id, key_id)
        del by_id[key_id]
    session.output.say(f"{key_id} is revoked")


def _known(keys: Path, by_id: Mapping[str, Key], key_id: str) -> Key:
    """Return the key with an id.

    Raises:
        CommandError: The file has no such key.
    """
    if key_id not in by_id:
        raise CommandError(
            f"there is no key {key_id} in {keys}: `foldb key list` prints the keys", ExitCode.NOT_FOUND
        )
    return by_id[key_id]


def _row(key: Key, now: datetime) -> dict[str, object]:
    row: dict[str, object] = {"id": key.id, "created": time_text(key.created)}
    if key.expires is not None:
        row |= {"expires": time_text(key.expires), "expired": key.expires <= now}
    if key.note:
        row["note"] = key.note
    patterns = key.rights.patterns
    row |= {right.name.lower(): list(patterns[right]) for right in Right if patterns.get(right)}
    if key.rights.history:
        row["history"] = list(key.rights.history)
    if key.rights.monitor:
        row["monitor"] = True
    if key.rights.policy is not None:
        row["policy"] = key.rights.policy.text
    return row


def _policy_text(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise CommandError(f"cannot read the policy in {path}: {error.strerror}", ExitCode.USAGE) from error
    except UnicodeDecodeError:
        raise CommandError(f"{path} is not UTF-8", ExitCode.USAGE) from None
    if len(text.encode()) > POLICY_BYTES:
        raise CommandError(f"{path}: a policy has at most {POLICY_BYTES} bytes", ExitCode.USAGE)
    return text


def _moment(text: str, now: datetime) -> datetime:
    if days := _DAYS.fullmatch(text):
        return now.replace(microsecond=0) + timedelta(days=int(days[1]))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise CommandError(
            f"--expires {text}: write 90d, or a time such as 2027-01-01T00:00:00Z.", ExitCode.USAGE
        )
    return moment
