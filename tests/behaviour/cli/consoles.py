"""The console blocks of a document, and the real output of their commands."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from tests.behaviour.cli.conftest import Foldb

DOCS = Path(__file__).resolve().parents[3] / "docs"

_BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Step:
    """A command line and the output below it."""

    line: str
    output: str


def steps(text: str) -> list[Step]:
    """Return all commands of a document, in order."""
    found = []
    for block in _BLOCK.findall(text):
        for part in block.split("$ foldb ")[1:]:
            line, _, output = part.partition("\n")
            found.append(Step(f"foldb {line}", output))
    return found


def sections(name: str) -> dict[str, str]:
    """Return a document's sections by their headings."""
    parts = re.split(r"^## (.+)\n", (DOCS / name).read_text("utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def run(cli: Foldb, line: str) -> str:
    """Return the output of a command line in a pipe, and its stderr if it fails."""
    data = ""
    for command in line.split(" | "):
        result = cli(*shlex.split(command)[1:], stdin=data)
        data = result.stdout
    return result.stdout if result.exit_code == 0 else result.output
