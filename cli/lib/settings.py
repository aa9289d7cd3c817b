"""The global settings of the command line. No other module of cli/ reads the environment."""

import os
from dataclasses import field
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ...model.lazy_dataclass import dataclass
from .errors import CommandError, ExitCode

DEFAULT_URL = "http://127.0.0.1:8000"
"""The default address of `foldb serve`."""


class Format(StrEnum):
    """The format of data. The default is a table on a terminal and JSON Lines in a pipe."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    YAML = "yaml"
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
    why: str | None = None
    is_db_given: bool = True
    is_db_flag: bool = False


@dataclass(frozen=True, slots=True)
class GlobalOptions:
    """The flags of every command."""

    db: Annotated[
        str | None,
        typer.Option(
            metavar="PATH|URL",
            show_default="$FOLDB_DB, else http://127.0.0.1:8000",
            help="Use the database in this folder, or the server at this URL.",
        ),
    ] = None
    output: Annotated[
        Format | None,
        typer.Option(
            "--output",
            "-o",
            show_default="table on a terminal, else jsonl",
            help="Write data in this format.",
        ),
    ] = None
    typed: Annotated[bool, typer.Option("--typed", help="Read and write items as DynamoDB JSON.")] = False
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only data and errors.")] = False
    no_progress: Annotated[bool, typer.Option("--no-progress", help="Show no progress bars.")] = False
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Answer every question with yes.")] = False
    no_input: Annotated[bool, typer.Option("--no-input", help="Fail instead of asking a question.")] = False
    color: Annotated[Color, typer.Option(help="Use colours, always or only on a terminal.")] = Color.AUTO
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            show_default="$FOLDB_ACCESS_KEY_ID, else AWS's",
            help="Sign requests with the key of this AWS profile.",
        ),
    ] = None
    ca: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default="$FOLDB_CA",
            help="Trust the certificates of this certificate authority, in PEM.",
        ),
    ] = None
    why: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="Store this reason in the log with every write of the command: at most 512 bytes.",
        ),
    ] = None

    def settings(self) -> SessionSettings:
        """Return the settings of the session: the flags, and the environment where a flag is not given.

        Raises:
            CommandError: --db is empty, or the AWS credentials file has no key of --profile.
        """
        if self.db == "":
            raise CommandError("--db is empty: give a folder or a server, or remove the flag", ExitCode.USAGE)
        given = default_database() if self.db is None else self.db
        return SessionSettings(
            db=given or DEFAULT_URL,
            is_db_given=given is not None,
            is_db_flag=self.db is not None,
            format=self.output,
            typed=self.typed,
            quiet=self.quiet,
            progress=not self.no_progress,
            yes=self.yes,
            no_input=self.no_input,
            color=self.color,
            credentials=credentials(self.profile),
            ca=self.ca or default_ca(),
            why=self.why,
        )


def editor() -> str:
    """Return the command of the text editor: VISUAL, EDITOR, or vi."""
    return os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"


def terminal_variables() -> dict[str, str]:
    """Return the variables by which a program knows its terminal."""
    return {
        name: os.environ[name] for name in ("TERM", "COLORTERM", "LINES", "COLUMNS") if name in os.environ
    }


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
