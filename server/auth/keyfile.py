"""The file of access keys: TOML, readable only by its owner, replaced atomically.

    [cluster]
    secret = "..."                       # with it nodes authenticate each other

    [keys.FOLDB7Q2M5K4T3X6J2WA]
    secret = "..."
    created = 2026-11-21T20:00:00Z
    expires = 2027-11-21T20:00:00Z       # optional
    note = "the order service"
    read = ["Log*"]                      # table names; * matches any text
    write = ["Orders", "Orders-*"]       # write includes read,
    admin = []                           # admin includes write
    history = ["Orders"]                 # may read the past: deleted items too; so may admin = ["*"]
    monitor = true                       # may read GET /metrics and the status; so may admin = ["*"]
    policy = '''{"Version": ...}'''        # a policy: finer rights, and denials; docs/policies.md

Verifying a signature takes the secret itself, so the file contains it. A reader of the file can use every key.
"""

import fcntl
import os
import re
import tomllib
from base64 import b32encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from ...model.errors import FoldbError
from ...model.lazy_dataclass import dataclass
from .policy_document import PolicyError
from .rights import Rights, is_pattern

_SECRET_BYTES = 30
_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
_SHORTEST_SECRET = 16
_OTHERS = 0o077
_MEMBERS = {"secret", "created", "expires", "note", "read", "write", "admin", "history", "monitor", "policy"}
_HEAD = "# The access keys of foldb, written by `foldb key`, which removes other comments.\n"


class KeyFileError(FoldbError):
    """The file does not exist, other users can read or write it, or it is malformed."""


@dataclass(frozen=True, slots=True)
class Key:
    """An access key: an id, a secret and the rights of the key."""

    id: str
    secret: str = field(repr=False)
    created: datetime
    expires: datetime | None = None
    note: str = ""
    rights: Rights = field(default_factory=Rights)
    # Compared with every request, so computed once.
    expires_ms: int | None = None

    def __post_init__(self) -> None:
        if self.expires is not None:
            object.__setattr__(self, "expires_ms", int(self.expires.timestamp() * 1000))


@dataclass(frozen=True, slots=True)
class Keys:
    """The contents of a key file.

    Attributes:
        cluster_secret: The secret with which nodes authenticate each other; None if the file has none.
        decoy: The secret with which unknown keys are checked, so that a refusal takes as long as for a known key.
    """

    by_id: Mapping[str, Key]
    cluster_secret: bytes | None = field(default=None, repr=False)
    decoy: str = field(default_factory=lambda: _secret(), repr=False)


def read_keys(path: Path) -> Keys:
    """Read a key file.

    Raises:
        KeyFileError: The file does not exist, other users can read it, or it is malformed.
    """
    try:
        with path.open("rb") as file:
            _check_owner(path, os.fstat(file.fileno()))
            data = tomllib.load(file)
    except OSError as error:
        step = ". `foldb key create` makes the file" if isinstance(error, FileNotFoundError) else ""
        raise KeyFileError(
            f"cannot read the keys in {path}: {os.strerror(error.errno or 0)}{step}"
        ) from error
    except ValueError as error:
        raise KeyFileError(f"{path} is not TOML: {error}") from None
    return _keys(path, data)


def new_key(now: datetime, rights: Rights, expires: datetime | None = None, note: str = "") -> Key:
    """Create a key. Its id is as long as those of AWS."""
    key_id = "FOLDB" + b32encode(os.urandom(10)).decode()[:15]
    return Key(key_id, _secret(), now.replace(microsecond=0), expires, note, rights)


@contextmanager
def changed(path: Path) -> Iterator[dict[str, Key]]:
    """Yield the keys of a file, and write them when the block ends. A missing file is created.

    Raises:
        KeyFileError: The file cannot be read or written.
    """
    path = path.resolve()
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise KeyFileError(f"cannot write {path}: {os.strerror(error.errno or 0)}") from error
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)  # two concurrent changes would lose one of them
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
            f"other users can read the secrets in {path}: run `chmod 600 {path}`, and create new keys if they were read"
        )
    if status.st_uid not in (0, os.geteuid()):
        raise KeyFileError(f"{path} belongs to another user, who could add keys: change its owner to yours")


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
            raise ValueError("an id consists of letters, digits, - and _")
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
                history=_patterns(members.get("history", [])),
                monitor=_of_type(members.get("monitor", False), bool),
                policy=_of_type(members["policy"], str) if "policy" in members else None,
            ),
        )
    except (ValueError, PolicyError) as error:
        raise ValueError(f"the key {key_id}: {error}") from None


def _check_members(table: dict[str, Any], known: set[str]) -> None:
    if unknown := sorted(table.keys() - known):
        raise ValueError(f"unknown member {unknown[0]}; known are: {', '.join(sorted(known))}")


def _of_type(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise ValueError(f"{str(value)[:40]!r} is not a {kind.__name__}")
    return value


def _long_enough(secret: Any) -> str:
    if type(secret) is not str or len(secret) < _SHORTEST_SECRET:
        raise ValueError(f"a secret has at least {_SHORTEST_SECRET} characters")
    return secret


def _moment(value: Any) -> datetime:
    if type(value) is not datetime or value.tzinfo is None:
        raise ValueError("a time has the form 2026-11-21T20:00:00Z")
    return value


def _patterns(values: Any) -> list[str]:
    patterns = [_of_type(value, str) for value in _of_type(values, list)]
    for pattern in patterns:
        if not is_pattern(pattern):
            raise ValueError(f"{pattern!r} cannot match the name of a table; * matches any text")
    return patterns


def _toml(cluster_secret: bytes | None, keys: Iterable[Key]) -> str:
    lines = [_HEAD]
    if cluster_secret is not None:
        lines.append(f"[cluster]\nsecret = {_quoted(cluster_secret.decode())}\n")
    for key in keys:
        lines.append(f"[keys.{key.id}]\nsecret = {_quoted(key.secret)}\ncreated = {time_text(key.created)}")
        if key.expires is not None:
            lines.append(f"expires = {time_text(key.expires)}")
        if key.note:
            lines.append(f"note = {_quoted(key.note)}")
        lines += [
            f"{right.name.lower()} = [{', '.join(map(_quoted, patterns))}]"
            for right, patterns in key.rights.patterns.items()
            if patterns
        ]
        if key.rights.history:
            lines.append(f"history = [{', '.join(map(_quoted, key.rights.history))}]")
        if key.rights.monitor:
            lines.append("monitor = true")
        if key.rights.policy is not None:
            lines.append(f"policy = {_quoted(key.rights.policy.text)}")
        lines.append("")
    return "\n".join(lines)


def _quoted(text: str) -> str:
    """Return a TOML string. Every JSON string is one, except that DEL is escaped."""
    return orjson.dumps(text).decode().replace("\x7f", "\\u007f")


def time_text(moment: datetime) -> str:
    """Return a time as it is in the file."""
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _write(path: Path, text: str) -> None:
    """Replace the file atomically. Other users can read it at no time."""
    beside = path.with_name(f"{path.name}.new")
    beside.unlink(missing_ok=True)
    with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
