"""`foldb trigger debug`: pdb stops in the function of a trigger, one change at a time, and nothing is committed."""

from pathlib import Path

import pytest

import foldb
from tests.behaviour.cli.conftest import Foldb, at, lines
from tests.behaviour.cli.terminals import Ended, on_a_terminal

CODE = """\
import asyncio
from pathlib import Path


def helper(price):
    return price + 1


def send(change):
    price = helper(change.new["price"])
    assert not change.new.get("bad"), "a bad change"
    return price


async def send_async(change):
    await asyncio.sleep(0)
    price = helper(change.new["price"])
    return price


def batch(changes: list):
    count = len(changes)
    return count


def lambda_handler(event, context):
    count = len(event["Records"])
    return {}
"""


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of the functions."""
    path = tmp_path_factory.mktemp("code") / "prices.py"
    path.write_text(CODE)
    return path


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory, code: Path) -> Path:
    """Return the folder of a database at rest, with three changes and a trigger that has handled them."""
    folder = tmp_path_factory.mktemp("stopped") / "data"
    with foldb.serve(folder, fsync="never", triggers=code.parent) as server:
        cli: Foldb = at(server.endpoint_url)
        cli("table", "create", "Orders", "id:S", "--stream")
        items = "".join(f'{{"id": "o{n}", "price": {n * 10}}}\n' for n in range(1, 4))
        cli("item", "put", "Orders", "-", stdin=items)
        cli("trigger", "add", "prices", "--table", "Orders", "--python", "prices.py:send")
        assert 0 == cli("wait", "--triggers").exit_code
    return folder


def debug(db: Path, *arguments: str, typed: str) -> Ended:
    """Run the command with lines that a user types."""
    return on_a_terminal("--db", db, "trigger", "debug", *arguments, stdin=typed, columns=200)


def test_pdb_stops_at_the_first_line_for_each_change(stopped: Path, code: Path) -> None:
    before = lines(at(stopped)("log", "head"))
    files = {path: path.stat().st_mtime_ns for path in stopped.iterdir()}
    function = ("prices", "--triggers", str(code.parent), "--last", "2")
    ended = debug(stopped, *function, typed="n\np price, change.op\nc\np change.keys\nc\n")

    assert 0 == ended.code, ended
    assert 'change 1 of 2: INSERT {"id":"o2"}' in ended.stdout
    assert "prices.py(10)send()" in ended.stdout
    assert "(Decimal('21'), 'INSERT')" in ended.stdout
    assert "{'id': 'o3'}" in ended.stdout
    assert 2 == ended.stdout.count("success")
    assert "2 calls · nothing was committed" in ended.stderr
    assert before == lines(at(stopped)("log", "head"))
    assert files == {path: path.stat().st_mtime_ns for path in stopped.iterdir()}


@pytest.mark.parametrize(
    ("function", "expression", "value"),
    [
        (("prices.py:send_async",), "n\nn\np price", "Decimal('31')"),
        (("prices.py:batch",), "n\np count", "1"),
        (
            ("prices.py:lambda_handler", "--lambda"),
            "n\np count, context.function_name",
            "(1, 'lambda_handler')",
        ),
        (("prices.py:send",), "s\ns\np price", "Decimal('30')"),
    ],
    ids=["async", "batch", "lambda", "step"],
)
def test_each_kind_of_function_is_stepped_through(
    stopped: Path, code: Path, function: tuple[str, ...], expression: str, value: str
) -> None:
    path = (str(code.parent / function[0]), *function[1:])
    ended = debug(stopped, *path, "--table", "Orders", "--last", "1", typed=f"{expression}\nc\n")

    assert 0 == ended.code, ended
    assert value in ended.stdout


def test_an_exception_is_shown_where_it_was_raised(stopped: Path, code: Path, tmp_path: Path) -> None:
    event = tmp_path / "event.json"
    event.write_text('{"op": "INSERT", "new": {"id": "x", "price": 1, "bad": true}, "keys": {"id": "x"}}')
    command = (str(code.with_name("prices.py:send")), "--table", "Orders", "--event", str(event))
    ended = debug(stopped, *command, typed="c\np price\nc\n")

    assert 10 == ended.code, ended
    assert "the function raised an exception: look at it, and continue with c" in ended.stdout
    assert "prices.py(11)send()" in ended.stdout
    assert "AssertionError: a bad change" in ended.stdout
    assert "foldb: a call failed; nothing was committed" in ended.stderr


def test_quitting_ends_the_command(stopped: Path, code: Path) -> None:
    ended = debug(stopped, "prices", "--triggers", str(code.parent), typed="q\n")

    assert 130 == ended.code
    assert 1 == ended.stdout.count("change ")
    assert "the debugger was quit; nothing was committed" in ended.stderr


def test_a_target_without_lines_cannot_be_debugged(folder: Path) -> None:
    with foldb.serve(folder, fsync="never") as server:
        cli = at(server.endpoint_url)
        cli("table", "create", "Orders", "id:S", "--stream")
        cli("trigger", "add", "mirror", "--table", "Orders", "--sqlite", "shop")
        result = cli("trigger", "debug", "mirror")

    assert 2 == result.exit_code
    assert "mirror calls a sqlite: only functions and Lambda handlers have lines to debug" in result.stderr
