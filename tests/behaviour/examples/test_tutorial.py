"""Run docs/tutorial.md step by step: save its files, run its consoles against its server, compare every output."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.behaviour.cli.consoles import DOCS

TEXT = (DOCS / "tutorial.md").read_text("utf-8")
ADDRESS = "http://127.0.0.1:8000"
BIN = Path(sys.executable).parent
INSTALLATION = ("python3 -m venv", ".venv-run/bin/pip", "source ")


class Block(NamedTuple):
    """A fenced block, with the text between it and the previous block."""

    before: str
    kind: str
    text: str


def blocks() -> Iterator[Block]:
    for match in re.finditer(r"(.*?)```(\w+)\n(.*?)```", TEXT, re.DOTALL):
        yield Block(*match.groups())


class Reader:
    """A reader who follows the tutorial in an empty folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = ""
        self.environment = os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
        for name in ("FOLDB_DB", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            self.environment.pop(name, None)
        self.log = folder / "server.log"
        self.server: subprocess.Popen[bytes] | None = None

    def follow(self, block: Block) -> None:
        """Do the step of a block, and check the output that it shows."""
        if block.kind == "console":
            for step in block.text.split("$ ")[1:]:
                command, _, output = step.partition("\n")
                self.run(command, output)
        elif block.kind == "python":
            name = re.findall(r"[Ss]ave this (?:program )?as\s+`(\S+)`", block.before)[-1]
            (self.folder / name).write_text(block.text.replace(ADDRESS, self.address))
        else:
            assert block.text.strip() in self.log.read_text()

    def run(self, command: str, output: str) -> None:
        if command.startswith(INSTALLATION):
            return
        if command.startswith("foldb serve"):
            self.start(command)
        elif command.startswith("foldb verify"):
            self.stop()
            subprocess.run(shlex.split(command), cwd=self.folder, env=self.environment, check=True)
        else:
            deadline = time.monotonic() + (10 if command == "foldb trigger list" else 0)
            while (printed := self.printed(command, output)) != output and time.monotonic() < deadline:
                time.sleep(0.1)
            assert output == printed, command

    def printed(self, command: str, output: str) -> str:
        """Return the data that a command prints, or its error if the page shows one."""
        ran = subprocess.run(
            shlex.split(command), cwd=self.folder, env=self.environment, capture_output=True, text=True
        )
        shown = ran.stderr if output.startswith("foldb: ") else ran.stdout
        return re.sub(r'"(time|request_id)":"[^"]*"', r'"\1":"…"', shown)

    def start(self, command: str) -> None:
        """Serve on a free port, and direct all later steps to it."""
        with self.log.open("wb") as log:
            self.server = subprocess.Popen(
                [*shlex.split(command), "--port", "0"],
                cwd=self.folder,
                env=self.environment,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + 30
        while (found := re.search(r"foldb serves (http://[\d.:]+)", self.log.read_text())) is None:
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.05)
        self.address = self.environment["FOLDB_DB"] = found[1]

    def stop(self) -> None:
        if self.server is not None:
            self.server.send_signal(signal.SIGINT)
            self.server.wait(30)
            self.server = None


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path)
    yield reader
    reader.stop()


def test_every_step_of_the_tutorial_prints_its_output(reader: Reader) -> None:
    for block in blocks():
        reader.follow(block)
