"""Commands on a terminal."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import foldb
from tests.behaviour.cli.conftest import at
from tests.behaviour.cli.terminals import on_a_terminal, plain, screen

HEAD = ["Artist    Song         Album     Year"]
ROWS = {"Kyuss     Space Cadet", "1000mods  Claws        Vultures", "1000mods  Vidage                 2011"}


@pytest.fixture(scope="module")
def music(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a server with the sample `music`."""
    folder: Path = tmp_path_factory.mktemp("terminal")
    with foldb.serve(folder / "data", fsync="never") as server:
        at(server.endpoint_url)("sample", "load", "music")
        yield server.endpoint_url


@pytest.mark.parametrize("flag", ["--all", "--segments=2"])
def test_a_bar_is_gone_before_a_table_begins(music: str, flag: str) -> None:
    ended = on_a_terminal("scan", "Music", flag, "--db", music, together=True)

    lines = screen(ended.stdout)
    assert "━" in ended.stdout, "there was a bar"
    assert HEAD == lines[:1]
    assert ROWS == {*lines[1:4]}
    assert lines[4].startswith("3 items · ")
    assert "" == lines[5]


@pytest.mark.parametrize("output", ["json", "jsonl", "csv", "raw"])
def test_a_bar_is_gone_before_other_data_begins(music: str, output: str) -> None:
    for command in (["scan", "Music", "--all"], ["log", "cat"], ["verify"]):
        ended = on_a_terminal(*command, "-o", output, "--db", music, together=True)
        alone = at(music)(*command, "-o", output)

        assert "━" in ended.stdout
        shown = [line for line in screen(ended.stdout, 80) if line]
        assert shown[0] == alone.stdout.splitlines()[0][:80].rstrip()
        assert not [line for line in shown if "━" in line]


def test_a_bar_goes_to_stderr_alone(music: str) -> None:
    """Stdout and stderr are two terminals here. The bar is erased at the end."""
    ended = on_a_terminal("log", "cat", "--db", music)

    assert "━" not in ended.stdout
    assert "position" in plain(ended.stdout).splitlines()[0]
    assert "━" in ended.stderr
    assert ["5 commands"] == [line[:10] for line in screen(ended.stderr) if line]
