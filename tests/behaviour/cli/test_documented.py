"""Every documented command, on a terminal and in every format: a real process, a pseudo-terminal, a served database.

Documented are the examples of `--help` and the console blocks of docs/. The examples are run in the order of SCENE,
those that only read in all formats and on two widths. A new command needs no entry: it is run at the end, and may end
with any exit code.
"""

import csv
import json
import os
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml

import foldb
from foldb.cli.lib.errors import ExitCode
from tests.behaviour.cli.conftest import at, lines
from tests.behaviour.cli.consoles import DOCS, steps
from tests.behaviour.cli.terminals import Ended, on_a_terminal, plain, screen
from tests.behaviour.cli.test_docs import COMMANDS, program
from tests.unit.project.source import ROOT

FORMATS = ("json", "csv")
MORE_FORMATS = ("jsonl", "raw")  # for some examples: most commands write rows by one function
SOME = {"scan", "item get", "log cat", "trigger list", "dlq show"}
WIDTHS = (80, 40)
SOAK = bool(os.environ.get("FOLDB_SOAK"))
pytestmark = [pytest.mark.soak] if SOAK else []

T = TypeVar("T")
WIDE = 400  # no line of a page wraps
GLOBAL = {"--db", "-o", "--output", "--typed", "-q", "--quiet", "--no-progress", "--yes", "-y", "--no-input",
          "--color", "--profile", "--ca", "--why", "--version", "--help"}  # fmt: skip

RECEIPTS = """\
from foldb import Change, trigger


@trigger("Orders", name="declared", retries=0)
def send_receipt(change: Change) -> None:
    pass


def send(change: Change) -> None:
    if change.new is not None and change.new.get("total") == 1:
        raise ValueError("no such customer")
"""


@dataclass(frozen=True)
class Example:
    """The command line of an example, the exit code that it ends with, and whether it may be run again.

    An exit code of None is any of those that are documented.
    """

    line: str
    code: int | None = 0
    reads: bool = False


# The order in which examples are run. A plus marks those that are run in all formats: they only read.
SCENE = """
    +sample list, +capacity plan, aws-config, key create, +key list, key revoke, sample load, sample show,
    +table list, +table describe, table wait, +partition of, +partition list, +status, cluster status, cluster nodes,
    +item get, item update, +query, +scan, +explain get, explain query, explain scan, +explain put, explain update,
    explain delete, tx run, +tx show, item delete, item put, table update, +wait,
    +stream list, +stream describe, stream tail, +stream stats,
    trigger add, +trigger list, +trigger show, +trigger lag, trigger pause, trigger resume, +trigger replay,
    +trigger test, +trigger explain, +dlq list, +dlq show, dlq edit, dlq retry, dlq drop, trigger reset, trigger remove,
    +log cat, +log tail, +log stats, +verify, snapshot make, +snapshot list, rebuild, restore, fork,
    export, import, backup create, +backup list, +backup describe, backup restore, backup delete, log copy,
    table delete, table create, log skip, upgrade
"""

# Other exit codes than 0, with the reason.
CODES = {
    "cluster status": 7,  # one process serves
    "cluster nodes": 7,
    "dlq drop": 3,  # its letter was retried
    "log skip": 2,  # the fold does not stop there
}
NEVER_ENDS = {"serve"}

# Data that is no table: text in every format, and on a terminal one change a line.
TEXT = {"aws-config"}
LINES = TEXT | {"stream tail", "trigger debug"}


class Stage:
    """A served database, and the words that stand for its addresses, folders and positions in examples."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.words = {
            "./data": str(folder / "data"),
            "http://127.0.0.1:8000": url,
            "kafka://localhost:9092/shop": str(folder / "copy"),
            "triggers/receipts.py": str(folder / "triggers" / "receipts.py"),
            "map-item001-to-cx1.json": str(folder / "ship.json"),
            " -f ": " ",
        }

    def run(self, line: str, *options: str, columns: int = 80) -> Ended:
        """Run an example on a terminal. Of a pipe this is the last command; its stdin is the output of the others."""
        arguments, data = self._last_command(line)
        return on_a_terminal(
            *arguments,
            "--yes",
            *options,
            columns=columns,
            stdin=data,
            environment={"FOLDB_DB": self.url, "HOME": str(self.folder)},
            folder=self.folder,
        )

    def run_in_process(self, line: str, *options: str) -> Ended:
        """Run an example in this process, with a pipe as stdout. This takes a tenth of the time."""
        arguments, data = self._last_command(line)
        with chdir(self.folder):
            ended = at(self.url)(*arguments, "--yes", *options, stdin=data or "")
        return Ended(ended.exit_code, ended.stdout, ended.stderr)

    def _last_command(self, line: str) -> tuple[list[str], str | None]:
        """Return the last command of a line, and its stdin if the line is a pipe."""
        for word, meant in self.words.items():
            line = f"{line} ".replace(word, meant).strip()
        *before, last = line.split(" | ")
        data = None
        for command in before:
            data = at(self.url)(*shlex.split(command)[1:], stdin=data or "").stdout
        return shlex.split(last)[1:], data


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("documented")
    (folder / "triggers").mkdir()
    (folder / "triggers" / "receipts.py").write_text(RECEIPTS)
    with foldb.serve(folder / "data", fsync="never", triggers=folder / "triggers") as server:
        cli = at(server.endpoint_url)
        for sample in ("music", "catalog", "forum", "goods"):
            assert 0 == cli("sample", "load", sample).exit_code
        assert 0 == cli("sample", "load", "goods", "--prefix", "my-").exit_code
        (folder / "ship.json").write_text(
            cli("sample", "show", "goods", "--transaction", "item001-to-cx1", "--prefix", "my-").stdout
        )
        cli("table", "create", "Counters", "id:S")
        cli("item", "put", "Counters", '{"id": "home", "visits": 1}')
        cli("table", "create", "Orders", "id:S", "--stream")
        for number, total in enumerate(("99.5", "120", "1e-9")):
            cli("item", "put", "Orders", f'{{"id": "o-{number}", "Total": {total}, "Status": "PAID"}}')
        yield Stage(server.endpoint_url, folder)


def example_of(path: tuple[str, ...]) -> str:
    """The example of a command, on one line."""
    found = re.search(r"^Example: (foldb .*?)(?:\n\n|\Z)", COMMANDS[path].help, re.MULTILINE | re.DOTALL)
    assert found is not None
    return " ".join(found[1].split())


def examples() -> Iterator[tuple[str, Example]]:
    """All examples by the name of their command, in the order of SCENE."""
    scene = [name.strip() for name in SCENE.split(",")]
    for name in scene:
        bare = name.removeprefix("+")
        yield bare, Example(example_of(tuple(bare.split())), CODES.get(bare, 0), name.startswith("+"))
    for path in COMMANDS:
        if (name := " ".join(path)) not in {each.removeprefix("+") for each in scene} | NEVER_ENDS:
            yield name, Example(example_of(path), None)


def check(
    name: str, ended: Ended, code: int | None, *, columns: int = 80, output: str | None = None
) -> list[str]:
    """Return the problems of a command's output on a terminal; without `output` it is a table."""
    data = ended.stdout.replace("\r\n", "\n")
    text = plain(data)
    codes = [*map(int, ExitCode)] if code is None else [code]
    wrong = {
        "a traceback": "Traceback (most recent call last)" in ended.stderr,
        f"exit code {ended.code}": ended.code not in codes,
        "a bar in the data": "━" in data,
    }
    if output is None:
        # Colours, and no move of the cursor: a bar is drawn on stderr.
        wrong["a control code"] = bool(re.search(r"\x1b(?!\[[0-9;]*m)", data))
        wrong["too wide"] = name not in LINES and any(len(line) > columns for line in text.splitlines())
    else:
        wrong["a control code"] = bool(re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", data))
        wrong[f"not {output}"] = name not in TEXT and not VALID[output](data)
    return [
        f"--- {name} as {output or f'a table of {columns} columns'}: {problem}\n{text}{plain(ended.stderr)}"
        for problem, is_there in wrong.items()
        if is_there
    ]


def _is_json(data: str) -> bool:
    """One document; a command that shows one thing after the other writes a document each."""
    rest = data.strip()
    try:
        while rest:
            _, end = json.JSONDecoder().raw_decode(rest)
            rest = rest[end:].strip()
    except ValueError:
        return False
    return True


def _is_jsonl(data: str) -> bool:
    return all(_is_json(line) and line.strip() for line in data.splitlines())


def _is_csv(data: str) -> bool:
    rows = [*csv.reader(data.splitlines(keepends=True), strict=True)]
    return [] not in rows and len({len(row) for row in rows}) <= 1


def _is_yaml(data: str) -> bool:
    try:
        return bool([*yaml.safe_load_all(data)]) or not data
    except yaml.YAMLError:
        return False


VALID: dict[str, Callable[[str], bool]] = {
    "json": _is_json,
    "jsonl": _is_jsonl,
    "csv": _is_csv,
    "raw": lambda _: True,
    "yaml": _is_yaml,
}


def test_every_example_runs_on_a_terminal_and_in_a_pipe(stage: Stage) -> None:
    """A long run has every width and format on a terminal; a short run has one of each, in rotation.

    A short run has most formats in a pipe. An example that changes the database is run once.
    """
    problems: list[str] = []
    with ThreadPoolExecutor(3) as pool:
        for nth, (name, example) in enumerate(examples()):
            prepare(stage, name)
            line = re.sub(r" -o \w+", "", example.line)  # each format has its turn
            if not example.reads:
                ended = stage.run(line)
                problems += check(name, ended, example.code)
                remember(stage, name, ended)
                continue
            widths = some_of(WIDTHS, nth)
            shown = [pool.submit(stage.run, line, columns=width) for width in widths]
            formats = FORMATS + MORE_FORMATS if name in SOME else some_of(FORMATS, nth // 2)
            if SOAK or name in SOME:
                written = [*pool.map(lambda output, line=line: stage.run(line, "-o", output), formats)]
            else:
                written = [stage.run_in_process(line, "-o", output) for output in formats]
            for width, table in zip(widths, shown, strict=True):
                problems += check(name, table.result(), example.code, columns=width)
            for output, data in zip(formats, written, strict=True):
                problems += check(name, data, example.code, output=output)
    assert not problems, "\n".join(problems)


def some_of(values: Sequence[T], nth: int) -> Sequence[T]:
    """Return all values in a long run, and in a short one the value whose turn it is."""
    return values if SOAK else [values[nth % len(values)]]


def prepare(stage: Stage, name: str) -> None:
    """Make the objects that an example refers to."""
    cli = at(stage.url)
    if name == "dlq list":
        cli("trigger", "add", "receipts", "--replace", "--retries", "0")
        cli("item", "put", "Orders", '{"id": "o-17", "Status": "PAID", "total": 1}')
        assert 0 == cli("wait", "--triggers", "--timeout", "30s").exit_code
    if name in ("restore", "fork"):
        stage.words["--as-of -1h"] = "--as-of -0"
    if name in ("wait", "trigger explain"):
        [status] = lines(cli("status"))
        stage.words["10482.3"] = stage.words["@10482.3"] = str(status["Position"])
        if name == "trigger explain":
            [change] = lines(cli("stream", "tail", "--table", "Orders"))[:1]
            stage.words["10482.3"] = change["position"]


def remember(stage: Stage, name: str, ended: Ended) -> None:
    """Keep the names that later examples need."""
    if name == "tx run":
        [stage.words["10482.3"]] = re.findall(r"as of @(\S+)", plain(ended.stderr))
    if name == "key create":
        [key] = {*re.findall(r"FOLDB[A-Z0-9]+", plain(ended.stdout))}  # also in the ARN of its principal
        stage.words["FOLDB7Q2M5K4T3X6J2WA"] = key


def format_of(line: str) -> str:
    """Return the format of a step's output: lines of --format and transactions are text."""
    if " --format " in line or " --transaction " in line:
        return "raw"
    own = re.search(r" -o (\w+)", line)
    return "jsonl" if own is None else own[1]


def reads(line: str) -> bool:
    return line.split()[1] in ("scan", "query", "explain", "capacity") or line.split()[1:3] == ["item", "get"]


@pytest.mark.parametrize("page", ["cli.md", pytest.param("samples.md", marks=pytest.mark.soak)])
def test_the_consoles_of_a_page_show_real_output(tmp_path: Path, page: str) -> None:
    """The output of the page is that of a pipe: JSON Lines. A command that only reads is shown as a table, too.

    test_docs.py compares both pages with the output in a pipe.
    """
    problems: list[str] = []
    with foldb.serve(tmp_path / "data", fsync="never") as server, ThreadPoolExecutor(2) as pool:
        stage = Stage(server.endpoint_url, tmp_path)
        stage.words.clear()
        for step in steps((DOCS / page).read_text("utf-8")):
            failed = re.search("^foldb: ", step.output, re.MULTILINE) is not None
            code = None if failed else 0
            as_table = page == "cli.md" and reads(step.line) and " -o " not in step.line
            table = pool.submit(stage.run, step.line, columns=40) if as_table else None
            ended = stage.run(step.line, *(() if " -o " in step.line else ("-o", "jsonl")), columns=WIDE)
            said = plain(ended.stdout) + "\n".join(filter(None, screen(ended.stderr, WIDE)) if failed else ())
            problems += check(step.line, ended, code, output=format_of(step.line))
            if step.output.rstrip("\n") != said.rstrip("\n"):
                problems.append(f"--- {step.line}\n{said}")
            if table is not None:
                problems += check(step.line, table.result(), code, columns=40)
    assert not problems, "\n".join(problems)


def mentions() -> Iterator[tuple[str, str]]:
    """Every `foldb ...` of the documents, in consoles and in sentences, with the name of its page."""
    pages = [
        ROOT / "README.md",
        ROOT / "SECURITY.md",
        ROOT / "compose" / "README.md",
        *sorted({*DOCS.rglob("*.md")} - {DOCS / "coverage.md"}),  # which has names of tests
    ]
    for page in pages:
        text = page.read_text("utf-8").replace("\\\n", " ")
        for block in re.findall(r"^ *```console\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL):
            for line in re.findall(r"^ *\$ (?:.*\| )?(?:\S*/)?foldb (.+)", block, re.MULTILINE):
                yield page.name, line
        prose = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
        for line in re.findall(r"`(?:\S*/)?foldb ([^`]+)`", prose):
            yield page.name, line


def test_mentioned_commands_have_their_mentioned_options() -> None:
    top = program()

    wrong = [f"{page}: foldb {' '.join(line.split())}" for page, line in mentions() if not exists(top, line)]

    assert not wrong, "\n".join(wrong)


def exists(top: Any, line: str) -> bool:
    """Whether a command line names a command, or a group of them, and only options that it has."""
    words = re.sub(r"\s# .*", "", line).replace("'", " ").replace('"', " ").split()
    command = top
    if words[0] in ("--version", "--install-completion", "COMMAND"):
        return True
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    known = GLOBAL | {each for option in command.params for each in (*option.opts, *option.secondary_opts)}
    options = [
        word.partition("=")[0] for word in takewhile(lambda word: word != "|", words) if word.startswith("-")
    ]
    is_command = command.name is not None and (not hasattr(command, "commands") or not words)
    return (is_command or not words) and all(
        option in known for option in options if re.fullmatch(r"--?[a-z][a-z-]*", option)
    )
