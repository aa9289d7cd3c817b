"""What a user set once for all commands. The only module here that reads the environment."""

import os
from dataclasses import dataclass
from enum import StrEnum

DEFAULT_URL = "http://127.0.0.1:8000"


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
class Settings:
    """The global flags as given."""

    db: str
    format: Format | None = None
    typed: bool = False
    quiet: bool = False
    progress: bool = True
    yes: bool = False
    no_input: bool = False
    color: Color = Color.AUTO


def default_database() -> str:
    """FOLDB_DB, or the address at which `foldb serve` listens when told nothing else."""
    return os.environ.get("FOLDB_DB") or DEFAULT_URL
