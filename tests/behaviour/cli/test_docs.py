"""The documents of the command line match its behaviour."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from foldb.cli import samples
from foldb.cli.commands import COMMANDS as SUMMARIES
from foldb.cli.lib.errors import ExitCode
from foldb.cli.main import app
from foldb.server.settings import Group
from tests.behaviour.cli.conftest import Foldb, at, lines
from tests.behaviour.cli.consoles import DOCS, run, sections, steps


def commands(group: Any, *above: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, *above, name)
        else:
            yield (*above, name), command


def program() -> Any:
    """Return the program with every command loaded."""
    group: Any = typer.main.get_command(app)
    for name in [*group.commands]:
        group.load(name)
    return group


COMMANDS = dict(commands(program()))


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_has_an_example_and_a_place_on_the_map(path: tuple[str, ...]) -> None:
    assert f"Example: foldb {' '.join(path)}" in COMMANDS[path].help
    assert f"`foldb {' '.join(path)}`" in (DOCS / "cli.md").read_text("utf-8")


@pytest.mark.parametrize("name", program().commands)
def test_the_help_of_a_command_begins_with_its_summary(name: str) -> None:
    placeholder = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]

    assert placeholder.help == program().commands[name].help.partition("\n\n")[0]


@pytest.mark.parametrize(
    "path", [(), *dict.fromkeys(path[:1] for path in COMMANDS if len(path) > 1), *COMMANDS], ids=" ".join
)
def test_help_is_there_for_every_command_and_group(path: tuple[str, ...]) -> None:
    result = at("nowhere")(*path, "--help")

    assert 0 == result.exit_code
    assert "Usage: foldb" in result.stdout


@pytest.mark.parametrize("words", [["--help"], ["serve", "--help"], ["table"]], ids=" ".join)
def test_help_is_printed_without_rich(words: list[str]) -> None:
    """The import of rich takes more than half of the time of `foldb --help`."""
    program = f"""
import sys
from foldb.cli import run
sys.argv = ["foldb", *{words}]
try:
    run()
finally:
    print("rich" in sys.modules)
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert result.stdout.startswith("Usage: foldb")
    assert result.stdout.endswith("False\n")
    assert "" == result.stderr


def test_the_options_of_serve_are_listed_by_group() -> None:
    said = at("nowhere")("serve", "--help").stdout

    titles = re.findall(r"^(\S.*):$", said, re.MULTILINE)
    assert [*Group] == titles[:-1]
    assert titles[-1] == "Options"


def test_a_group_lists_its_commands_with_whole_summaries() -> None:
    said = " ".join(at("nowhere")("--help").stdout.split())

    assert all(f" {name} {each.summary}" in said for name, each in SUMMARIES.items())


def test_every_exit_code_is_documented() -> None:
    text = sections("cli.md")["Exit codes"]

    assert [int(code) for code in ExitCode] == [
        int(line.split("|")[1]) for line in text.splitlines() if line[2:3].isdigit()
    ]


@pytest.mark.parametrize("page", ["cli.md", "whatif.md"])
def test_pages_on_commands_show_real_output(
    page: str, cli: Foldb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # for the files of an export, and the prices
    text = (DOCS / page).read_text("utf-8")
    (tmp_path / "prices.toml").write_text(text.partition("```toml\n")[2].partition("```")[0])
    for step in steps(text):
        assert step.output == run(cli, step.line), step.line


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("music", marks=pytest.mark.spec("S08")),
        pytest.param("music-genres", marks=pytest.mark.spec("S26", "S27", "S29")),
        pytest.param("music-years", marks=pytest.mark.spec("S30")),
        pytest.param("catalog", marks=pytest.mark.spec("S01", "S02")),
        pytest.param("forum", marks=pytest.mark.spec("S06", "S19")),
        pytest.param("customers", marks=pytest.mark.spec("S09", "S95", "S96")),
        pytest.param("annotations", marks=pytest.mark.spec("S94")),
        pytest.param("goods", marks=pytest.mark.spec("S80", "S83")),
        pytest.param("devices", marks=pytest.mark.spec("S100")),
        pytest.param("months", marks=pytest.mark.spec("S99")),
    ],
)
def test_a_sample_answers_the_queries_it_promises(cli: Foldb, name: str) -> None:
    shown = steps(sections("samples.md")[name])

    for question in samples.sample(name)["queries"]:
        words = [word.replace("{", "").replace("}", "") for word in question["arguments"]]
        assert any(words[0] in step.line and words[-1] in step.line for step in shown), question["says"]
    for step in shown:
        assert step.output == run(cli, step.line), step.line


def test_every_sample_is_documented() -> None:
    assert sorted(sections("samples.md")) == samples.names()


@pytest.mark.spec("S02")
def test_the_catalog_has_the_sizes_of_the_guide(cli: Foldb) -> None:
    cli("sample", "load", "catalog")

    sizes = [lines(cli("explain", "get", "ProductCatalog", key))[0]["bytes"] for key in ("101", "201", "202")]

    assert [150, 137, 139] == sizes


@pytest.mark.spec("S06")
def test_the_id_of_a_reply_leads_back_to_its_thread_and_its_forum(cli: Foldb) -> None:
    cli("sample", "load", "forum")

    for reply in lines(cli("scan", "Reply")):
        forum, subject = reply["Id"].split("#")
        assert 1 == len(lines(cli("item", "get", "Thread", forum, subject)))
        assert 1 == len(lines(cli("item", "get", "Forum", forum)))


@pytest.mark.spec("S61", "S100")
def test_device_tables_differ_in_billing_and_load_chosen_counts(cli: Foldb) -> None:
    loaded = lines(cli("sample", "load", "devices", "--events", "60", "--prefix", "home-"))

    assert [
        {"table": "home-DeviceStatus", "items": 3},
        {"table": "home-DeviceActivity", "items": 64},
    ] == loaded
    [status] = lines(cli("table", "describe", "home-DeviceStatus"))
    [activity] = lines(cli("table", "describe", "home-DeviceActivity"))
    assert 10 == status["ProvisionedThroughput"]["WriteCapacityUnits"]
    assert "PAY_PER_REQUEST" == activity["BillingModeSummary"]["BillingMode"]


@pytest.mark.spec("S99")
def test_past_months_are_lowered_and_the_current_one_is_not(cli: Foldb) -> None:
    cli("sample", "load", "months")

    def units(table: str) -> tuple[int, int]:
        throughput = lines(cli("table", "describe", table))[0]["ProvisionedThroughput"]
        return throughput["ReadCapacityUnits"], throughput["WriteCapacityUnits"]

    assert [(1, 1), (25, 1), (50, 100)] == [units(f"Readings_2026_{month}") for month in ("09", "10", "11")]


def test_a_prefix_applies_to_every_table_of_a_sample(cli: Foldb) -> None:
    cli("sample", "load", "goods", "--prefix", "my-")

    assert [{"table": "my-Containers"}, {"table": "my-Goods"}] == lines(cli("table", "list"))
    ship = ["sample", "show", "goods", "--transaction", "item001-to-cx1", "--prefix", "my-"]
    assert 0 == cli("tx", "-", stdin=cli(*ship).stdout).exit_code
    assert 7 == cli("sample", "load", "goods", "--prefix", "my-").exit_code
    assert 3 == cli("sample", "load", "nothing").exit_code
