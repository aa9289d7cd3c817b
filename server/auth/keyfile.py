"""The file that access keys are in: TOML, its owner's alone, written whole or not at all.

    [cluster]
    secret = "..."                       # what nodes prove to each other that they are of one database

    [keys.FOLDB7Q2M5K4T3X6J2WA]
    secret = "..."
    created = 2026-11-21T20:00:00Z
    expires = 2027-11-21T20:00:00Z       # if it does
    note = "the order service"
    read = ["Log*"]                      # tables, where * is anything;
    write = ["Orders", "Orders-*"]       # who may write may read,
    admin = []                           # and who may administer may do both
    monitor = true                       # may read GET /metrics and the status; admin = ["*"] may too

A signature is checked with the secret itself, so that is what is kept here, and who can read the file can be anybody.
"""

import fcntl
import os
import re
import tomllib
from base64 import b32encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from ...model.errors import FoldbError
from .rights import Rights, is_pattern

_SECRET_BYTES = 30
_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
_SHORTEST_SECRET = 16
_OTHERS = 0o077
_MEMBERS = {"secret", "created", "expires", "note", "read", "write", "admin", "monitor"}
_HEAD = "# The access keys of foldb, written by `foldb key`, which keeps no other comments than this.\n"


class KeyFileError(FoldbError):
    """The file is not there, is not only ours, or is no key file."""


@dataclass(frozen=True, slots=True)
class Key:
    """An access key, as AWS calls the pair of id and secret, and what may be done with it."""

    id: str
    secret: str = field(repr=False)
    created: datetime
    expires: datetime | None = None
    note: str = ""
    rights: Rights = field(default_factory=Rights)
    # Compared with every request, so it is worked out once.
    expires_ms: int | None = None

    def __post_init__(self) -> None:
        if self.expires is not None:
            object.__setattr__(self, "expires_ms", int(self.expires.timestamp() * 1000))


@dataclass(frozen=True, slots=True)
class Keys:
    """What a key file says.

    Attributes:
        by_id: The keys.
        cluster_secret: What nodes prove to each other; None where the file has none.
        decoy: The secret of all keys that are not there.
    """

    by_id: Mapping[str, Key]
    cluster_secret: bytes | None = field(default=None, repr=False)
    decoy: str = field(default_factory=lambda: _secret(), repr=False)


def read_keys(path: Path) -> Keys:
    """Read a key file.

    Raises:
        KeyFileError: There is none, somebody else could read it, or it is none.
    """
    try:
        with path.open("rb") as file:
            _check_owner(path, os.fstat(file.fileno()))
            data = tomllib.load(file)
    except OSError as error:
        raise KeyFileError(f"cannot read the keys in {path}: {os.strerror(error.errno or 0)}") from error
    except ValueError as error:
        raise KeyFileError(f"{path} is no TOML: {error}") from None
    return _keys(path, data)


def new_key(now: datetime, rights: Rights, expires: datetime | None = None, note: str = "") -> Key:
    """A key that nobody has; its id is as long as AWS's are."""
    key_id = "FOLDB" + b32encode(os.urandom(10)).decode()[:15]
    return Key(key_id, _secret(), now.replace(microsecond=0), expires, note, rights)


@contextmanager
def changed(path: Path) -> Iterator[dict[str, Key]]:
    """The keys of a file, to be changed and written when the block ends; a file that is not there is made.

    Raises:
        KeyFileError: It cannot be read or written.
    """
    path = path.resolve()
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise KeyFileError(f"cannot write {path}: {os.strerror(error.errno or 0)}") from error
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)  # two that change it at a time would lose what one of them did
        keys = read_keys(path) if path.exists() else Keys({}, _secret().encode())
        by_id = dict(keys.by_id)
        yield by_id
        _write(path, _toml(keys.cluster_secret, by_id.values()))
        os.fsync(folder)
    except OSError as error:
        raise KeyFileError(f"cannot write {path}: {os.strerror(error.errno or 0)}") from error
    finally:
        os.close(folder)


def _secret() -> str:
    return urlsafe_b64encode(os.urandom(_SECRET_BYTES)).decode()


def _check_owner(path: Path, status: os.stat_result) -> None:
    if status.st_mode & _OTHERS:
        raise KeyFileError(
            f"others could read the secrets in {path}: `chmod 600 {path}`, and make new keys if they did"
        )
    if status.st_uid not in (0, os.geteuid()):
        raise KeyFileError(f"{path} is another user's, who could put keys in it: make it your own")


def _keys(path: Path, data: dict[str, Any]) -> Keys:
    try:
        _check_members(data, {"cluster", "keys"})
        cluster = _of_type(data.get("cluster", {}), dict)
        _check_members(cluster, {"secret"})
        secret = _long_enough(cluster["secret"]).encode() if "secret" in cluster else None
        table = _of_type(data.get("keys", {}), dict)
        return Keys(
            {key_id: _key(key_id, _of_type(members, dict)) for key_id, members in table.items()}, secret
        )
    except ValueError as error:
        raise KeyFileError(f"{path}: {error}") from None


def _key(key_id: str, members: dict[str, Any]) -> Key:
    try:
        if not _ID.fullmatch(key_id):
            raise ValueError("an id has letters, digits, - and _ alone")
        _check_members(members, _MEMBERS)
        expires = members.get("expires")
        return Key(
            key_id,
            _long_enough(members.get("secret")),
            _moment(members.get("created")),
            None if expires is None else _moment(expires),
            _of_type(members.get("note", ""), str),
            Rights(
                *(_patterns(members.get(right, [])) for right in ("read", "write", "admin")),
                monitor=_of_type(members.get("monitor", False), bool),
            ),
        )
    except ValueError as error:
        raise ValueError(f"the key {key_id}: {error}") from None


def _check_members(table: dict[str, Any], known: set[str]) -> None:
    if unknown := sorted(table.keys() - known):
        raise ValueError(f"what is {unknown[0]}? There are: {', '.join(sorted(known))}")


def _of_type(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise ValueError(f"{str(value)[:40]!r} where a {kind.__name__} is due")
    return value


def _long_enough(secret: Any) -> str:
    if type(secret) is not str or len(secret) < _SHORTEST_SECRET:
        raise ValueError(f"a secret has at least {_SHORTEST_SECRET} characters")
    return secret


def _moment(value: Any) -> datetime:
    if type(value) is not datetime or value.tzinfo is None:
        raise ValueError("a time is written 2026-11-21T20:00:00Z")
    return value


def _patterns(values: Any) -> list[str]:
    patterns = [_of_type(value, str) for value in _of_type(values, list)]
    for pattern in patterns:
        if not is_pattern(pattern):
            raise ValueError(f"{pattern!r} cannot be the name of a table, where * is anything")
    return patterns


def _toml(cluster_secret: bytes | None, keys: Iterable[Key]) -> str:
    lines = [_HEAD]
    if cluster_secret is not None:
        lines.append(f"[cluster]\nsecret = {_quoted(cluster_secret.decode())}\n")
    for key in keys:
        lines.append(f"[keys.{key.id}]\nsecret = {_quoted(key.secret)}\ncreated = {_written(key.created)}")
        if key.expires is not None:
            lines.append(f"expires = {_written(key.expires)}")
        if key.note:
            lines.append(f"note = {_quoted(key.note)}")
        lines += [
            f"{right.name.lower()} = [{', '.join(map(_quoted, patterns))}]"
            for right, patterns in key.rights.patterns.items()
            if patterns
        ]
        if key.rights.monitor:
            lines.append("monitor = true")
        lines.append("")
    return "\n".join(lines)


def _quoted(text: str) -> str:
    """A TOML string: JSON's are a part of them, but for DEL."""
    return orjson.dumps(text).decode().replace("\x7f", "\\u007f")


def _written(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _write(path: Path, text: str) -> None:
    """In the place of what was there, at once; at no moment could others read it."""
    beside = path.with_name(f"{path.name}.new")
    beside.unlink(missing_ok=True)
    with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
