"""What a user set once for all commands. The only module here that reads the environment."""

import os
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import CommandError, ExitCode

if TYPE_CHECKING:
    from ...log.kafka.settings import Security

DEFAULT_URL = "http://127.0.0.1:8000"
"""Where `foldb serve` listens when told nothing else."""


class Format(StrEnum):
    """How data is written. Without a choice: a table on a terminal, JSON Lines in a pipe."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    RAW = "raw"


class Color(StrEnum):
    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Credentials:
    """An access key. The default is nobody's: it is good where no signature is checked."""

    key_id: str = "foldb"
    secret: str = field(default="foldb", repr=False)


@dataclass(frozen=True, slots=True)
class Settings:
    """The global flags as given.

    Attributes:
        is_db_given: Whether --db or FOLDB_DB names the database.
        is_db_flag: Whether --db names it.
    """

    db: str
    format: Format | None = None
    typed: bool = False
    quiet: bool = False
    progress: bool = True
    yes: bool = False
    no_input: bool = False
    color: Color = Color.AUTO
    credentials: Credentials = Credentials()
    ca: Path | None = None
    is_db_given: bool = True
    is_db_flag: bool = False


def editor() -> str:
    """What opens a file for a person: VISUAL, EDITOR, or vi."""
    return os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"


def default_database() -> str | None:
    """FOLDB_DB, if it says anything."""
    return os.environ.get("FOLDB_DB") or None


def default_ca() -> Path | None:
    """The certificates that servers are believed by, if not those of the system."""
    name = os.environ.get("FOLDB_CA") or os.environ.get("AWS_CA_BUNDLE")
    return Path(name) if name else None


def cluster_secret() -> bytes | None:
    """What the nodes of a cluster know each other by, where no key file holds it."""
    secret = os.environ.get("FOLDB_CLUSTER_SECRET")
    return secret.encode() if secret else None


def kafka_security() -> "Security":
    """How brokers are spoken to, as far as variables say.

    Raises:
        LogError: What they say cannot be used.
    """
    from ...log.kafka.settings import Security

    return Security.read(None, os.environ)


def credentials(profile: str | None) -> Credentials:
    """The key of --profile, of FOLDB_ACCESS_KEY_ID, or of where AWS's tools find theirs; else nobody's."""
    if profile is None:
        for prefix in ("FOLDB", "AWS"):
            key_id = os.environ.get(f"{prefix}_ACCESS_KEY_ID")
            secret = os.environ.get(f"{prefix}_SECRET_ACCESS_KEY")
            if key_id and secret:
                return Credentials(key_id, secret)
    name = profile or os.environ.get("AWS_PROFILE") or "default"
    file = Path(os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or Path.home() / ".aws" / "credentials")
    found = _of_profile(file, name)
    if found is None and profile is not None:
        raise CommandError(f"there is no key of a profile {profile} in {file}", ExitCode.USAGE)
    return found or Credentials()


def _of_profile(file: Path, name: str) -> Credentials | None:
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError):
        return None
    from configparser import ConfigParser, Error  # few have such a file

    parser = ConfigParser(interpolation=None)
    try:
        parser.read_string(text)
        return Credentials(parser[name]["aws_access_key_id"], parser[name]["aws_secret_access_key"])
    except (Error, KeyError):
        return None
