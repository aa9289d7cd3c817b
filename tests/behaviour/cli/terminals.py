"""Commands on a terminal: a real process, a pseudo-terminal of a given width, and its screen."""

import fcntl
import os
import pty
import re
import selectors
import struct
import tempfile
import termios
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.forks import Fork

ROWS = 200  # a screen that nothing scrolls off
_WAIT_S = 60
_SEQUENCE = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|\x1b\]8;[^\x1b\x07]*(?:\x1b\\|\x07)")


@dataclass(frozen=True)
class Ended:
    """A command that has ended: its stdout and stderr, control sequences included.

    Where both are one terminal, `stderr` is empty.
    """

    code: int
    stdout: str
    stderr: str


def on_a_terminal(
    *arguments: str | Path,
    columns: int = 80,
    together: bool = False,
    stdin: str | None = None,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Ended:
    """Run a `foldb` command on a terminal, or on two of them: one for stdout, one for stderr."""
    masters, slaves = zip(*(_terminal(columns) for _ in range(1 if together else 2)), strict=True)
    with tempfile.TemporaryFile() as given:
        given.write((stdin or "").encode())
        given.seek(0)
        process = Fork(
            arguments,
            stdin=given.fileno(),
            stdout=slaves[0],
            stderr=slaves[-1],
            variables={**_environment(), **(environment or {})},
            folder=folder,
        )
    for slave in slaves:
        os.close(slave)
    written = [data.decode() for data in _read(masters)]
    return Ended(process.wait(_WAIT_S), written[0], "" if together else written[1])


def _environment() -> dict[str, str]:
    ignored = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")
    return {name: value for name, value in os.environ.items() if name not in ignored} | {"TERM": "xterm"}


def _terminal(columns: int) -> tuple[int, int]:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    return master, slave


def _read(masters: Sequence[int]) -> list[bytes]:
    written = dict.fromkeys(masters, b"")
    with selectors.DefaultSelector() as selector:
        for master in masters:
            selector.register(master, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(_WAIT_S)
            assert ready, f"the command writes nothing and does not end: {written}"
            for key, _ in ready:
                try:
                    data = os.read(key.fd, 65536)
                except OSError:  # Linux says so when the last writer has gone
                    data = b""
                if data:
                    written[key.fd] += data
                else:
                    selector.unregister(key.fd)
                    os.close(key.fd)
    return [*written.values()]


def screen(text: str, columns: int = 80) -> list[str]:
    """Return the lines of the screen at the end, after all carriage returns, erased lines and moves up."""
    lines: list[list[str]] = [[]]
    row = column = at = 0
    while at < len(text):
        if match := _SEQUENCE.match(text, at):
            count, final = match[1] or "", match[2]
            if final == "A":
                row = max(0, row - int(count or 1))
            elif final == "K" and count == "2":
                lines[row] = []
            at = match.end()
            continue
        letter, at = text[at], at + 1
        if letter == "\r":
            column = 0
        elif letter == "\n":
            row += 1
            lines += [[] for _ in range(row + 1 - len(lines))]
        else:
            if column == columns:  # a terminal wraps at the letter that has no room
                row, column = row + 1, 0
                lines += [[] for _ in range(row + 1 - len(lines))]
            line = lines[row]
            line += " " * (column + 1 - len(line))
            line[column] = letter
            column += 1
    return ["".join(line).rstrip() for line in lines]


def plain(text: str) -> str:
    """Return the text without colours, with the line ends of a file."""
    return _SEQUENCE.sub("", text).replace("\r\n", "\n")
