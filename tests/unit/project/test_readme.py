"""README and docs are correct: their commands and examples run."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import foldb
from foldb.server.api.admin import ADMIN
from tests.unit.project.source import ROOT

README = (ROOT / "README.md").read_text()
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "log" / "FORMAT.md",
]

DEFAULT = "http://127.0.0.1:8000"


def _blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", README, re.DOTALL)


def _python(code: str, endpoint: str) -> str:
    code = code.replace(DEFAULT, endpoint)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def _commands(console: str) -> Iterator[tuple[str, str]]:
    """Yield each command and its output."""
    for part in console.split("$ ")[1:]:
        command, _, output = part.partition("\n")
        yield command, output


def test_the_first_example_prints_its_output_and_keeps_its_table(tmp_path: Path) -> None:
    example, expected = _blocks("python")[0], _blocks("text")[0]
    session = next(block for block in _blocks("console") if "restore" in block)
    with foldb.serve(tmp_path) as server:
        assert expected == _python(example, server.endpoint_url)
        for command, output in _commands(session):
            program = command.replace(".venv-run/bin/", f"{Path(sys.executable).parent}/")
            environment = os.environ | {"FOLDB_DB": server.endpoint_url}
            ran = subprocess.run(program.split(), capture_output=True, text=True, env=environment)
            assert output == ran.stdout, ran.stderr


def test_the_second_example_prints_its_output() -> None:
    assert _blocks("text")[1] == _python(_blocks("python")[1], DEFAULT)


def test_the_trigger_sends_one_receipt_for_an_order(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A later change of a paid order sends none, and the feed shows every change from the beginning."""
    example, trigger = _blocks("python")[0], next(code for code in _blocks("python") if "@trigger" in code)
    (tmp_path / "receipts.py").write_text(trigger)
    later = example.replace(
        "orders.delete()", 'orders.put_item(Item={"id": "o-1", "state": "paid", "price": 50})'
    )
    with caplog.at_level("INFO"), foldb.serve(triggers=tmp_path) as server:
        _python(later, server.endpoint_url)
        server.wait_for_triggers(60)
        tail = subprocess.run(
            [Path(sys.executable).with_name("foldb"), "stream", "tail", "--from", "start", "-o", "jsonl"],
            env=os.environ | {"FOLDB_DB": server.endpoint_url},
            capture_output=True,
            text=True,
            check=True,
        )

    assert ["o-1, 45 euros"] == re.findall(r"receipt: (o-.*)", caplog.text)
    assert 3 == len(tail.stdout.splitlines())


def test_every_make_target_that_is_named_is_there() -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))

    assert set(re.findall(r"(?:`|\$ )make (\w+)", README)) <= targets


def test_every_option_of_serve_that_is_named_is_there() -> None:
    program = [str(Path(sys.executable).with_name("foldb")), "serve", "--help"]
    wide = {**os.environ, "COLUMNS": "200"}
    said = subprocess.run(program, capture_output=True, text=True, check=True, env=wide).stdout
    for option in re.findall(r"`(--[\w-]+)`", README):
        assert option in said


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_file_that_a_document_names_is_there(document: Path) -> None:
    text = document.read_text()
    links = {document.parent / link for link in re.findall(r"\]\((?!http)([^)#]+)\)", text)}
    layers = "cli|server|streams|materializer|log|expressions|model|tests|docs|benchmarks"
    named = {ROOT / path for path in re.findall(rf"`((?:{layers})/[\w./]*)`", text)}

    assert [] == sorted(str(path) for path in links | named if not path.exists())


def test_the_page_of_operations_lists_each_with_its_own_row() -> None:
    page = (ROOT / "docs" / "foldb-operations.md").read_text()
    listed = re.findall(r"^\| `(\w+)` \| (?:monitor|read|write|administer|history)", page, re.MULTILINE)

    assert sorted(ADMIN) == sorted(listed)


def test_the_site_has_every_page() -> None:
    index = (ROOT / "docs" / "index.md").read_text().splitlines()

    assert [] == [page.name for page in (ROOT / "docs").glob("*.md") if page.stem not in [*index, "index"]]
