"""Served databases: one with a stream, which tests only read, and one with a folder of triggers for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import foldb
from tests.behaviour.cli.conftest import Foldb, at


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Foldb]:
    """Yield the command on a database with seven changes of `Orders`, which has a stream, and one of `Notes`."""
    with foldb.serve(tmp_path_factory.mktemp("orders") / "data", fsync="never") as server:
        cli = at(server.endpoint_url)
        assert cli("table", "create", "Orders", "id:S", "--stream").exit_code == 0
        assert cli("table", "create", "Notes", "id:S").exit_code == 0
        items = "".join(f'{{"id": "o{number}", "price": {number * 50}}}\n' for number in range(5))
        assert cli("item", "put", "Orders", "-", stdin=items).exit_code == 0
        assert cli("item", "update", "Orders", "o1", "--set", "price = 70").exit_code == 0
        assert cli("item", "delete", "Orders", "o2").exit_code == 0
        assert cli("item", "put", "Notes", '{"id": "n"}').exit_code == 0
        yield cli


NOTIFY = """\
#!/bin/sh
cat >> "$(dirname "$0")/notes"
"""

RECEIPTS = """\
from pathlib import Path

NOTES = Path(__file__).with_name("receipts.notes")


def send(change):
    if change.new is not None and change.new.get("bad"):
        raise ValueError("no such customer")
    with NOTES.open("a") as notes:
        notes.write(f"{change.op} {change.keys['id']} {change.replay}\\n")


def lambda_handler(event, context):
    with NOTES.open("a") as notes:
        notes.write(f"{len(event['Records'])} records\\n")
"""


@pytest.fixture(scope="session")
def triggers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of triggers with a command and a module."""
    folder = tmp_path_factory.mktemp("triggers")
    (folder / "notify.sh").write_text(NOTIFY)
    (folder / "notify.sh").chmod(0o700)
    (folder / "receipts.py").write_text(RECEIPTS)
    return folder


class Shop:
    """A served database with a table `Orders`, and the notes of its triggers."""

    def __init__(self, url: str, triggers: Path) -> None:
        self.run = at(url)
        self.folder = triggers

    def put(self, *items: str) -> None:
        """Put items, and wait until triggers have handled that."""
        for item in items:
            assert self.run("item", "put", "Orders", item).exit_code == 0
        self.settle()

    def settle(self) -> None:
        """Wait until triggers have handled all changes."""
        result = self.run("wait", "--triggers", "--timeout", "30s")
        assert result.exit_code == 0, result.output

    def notes(self) -> list[str]:
        """Return the notes of the functions since the last call."""
        path = self.folder / "receipts.notes"
        noted = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return noted


@pytest.fixture
def shop(folder: Path, triggers: Path) -> Iterator[Shop]:
    with foldb.serve(folder, fsync="never", triggers=triggers) as server:
        shop = Shop(server.endpoint_url, triggers)
        assert shop.run("table", "create", "Orders", "id:S", "--stream").exit_code == 0
        shop.notes()
        yield shop
