"""The global settings of the command line. No other module of cli/ reads the environment."""

import os
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from .errors import CommandError, ExitCode

DEFAULT_URL = "http://127.0.0.1:8000"
"""The default address of `foldb serve`."""


class Format(StrEnum):
    """The format of data. The default is a table on a terminal and JSON Lines in a pipe."""

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
    """An access key. The default is for a server without keys, which checks no signature."""

    key_id: str = "foldb"
    secret: str = field(default="foldb", repr=False)


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """The global flags.

    Attributes:
        is_db_given: Whether --db or FOLDB_DB is given.
        is_db_flag: Whether --db is given.
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
    """Return the command of the text editor: VISUAL, EDITOR, or vi."""
    return os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"


def default_database() -> str | None:
    """Return FOLDB_DB. None if it is unset or empty."""
    return os.environ.get("FOLDB_DB") or None


def default_ca() -> Path | None:
    """Return the file of trusted certificates. None: those of the system."""
    name = os.environ.get("FOLDB_CA") or os.environ.get("AWS_CA_BUNDLE")
    return Path(name) if name else None


def cluster_secret() -> bytes | None:
    """Return the secret that the nodes of a cluster share, if it is in the environment."""
    secret = os.environ.get("FOLDB_CLUSTER_SECRET")
    return secret.encode() if secret else None


def kafka_variables() -> dict[str, str]:
    """Return the variables FOLDB_KAFKA_<NAME>, the settings of connections to Kafka."""
    return {name: value for name, value in os.environ.items() if name.startswith("FOLDB_KAFKA_")}


def credentials(profile: str | None) -> Credentials:
    """Return the key of --profile, of FOLDB_ACCESS_KEY_ID, of the AWS tools, or the default key.

    Raises:
        CommandError: The AWS credentials file has no key of `profile`.
    """
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
        raise CommandError(f"there is no key of the profile {profile} in {file}", ExitCode.USAGE)
    return found or Credentials()


def _of_profile(file: Path, name: str) -> Credentials | None:
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError):
        return None
    from configparser import ConfigParser, Error  # most users have no such file

    parser = ConfigParser(interpolation=None)
    try:
        parser.read_string(text)
        return Credentials(parser[name]["aws_access_key_id"], parser[name]["aws_secret_access_key"])
    except (Error, KeyError):
        return None
