"""The program as a process: terminals, pipes, signals, and the remains of a killed server."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import foldb
from tests.behaviour.cli.conftest import at
from tests.behaviour.cli.terminals import on_a_terminal
from tests.support.served import FOLDB, killed, served
from tests.support.served import foldb as command


def test_a_terminal_gets_a_table_and_a_pipe_gets_json_lines(folder: Path) -> None:
    with foldb.serve(folder, fsync="never") as server:
        url = server.endpoint_url
        at(url)("sample", "load", "customers")
        arguments = ("query", "Customers", "cust1", "--select", "Transaction_Id,Price", "--db", url)

        piped = command(*arguments)
        shown = on_a_terminal(*arguments).stdout

    assert '{"Price":200,"Transaction_Id":"XXX1"}\n{"Price":1000,"Transaction_Id":"XXX4"}\n' == piped.stdout
    assert piped.stderr.startswith("2 items · 0.5 RCU · as of @2 (2")
    text = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert "\x1b[1m" in shown, "the head of a table is bold on a terminal"
    rows = [line.split() for line in text.replace("\r", "").splitlines()]
    assert ["XXX1", "200"] in rows
    assert ["XXX4", "1000"] in rows


def test_a_command_serves_a_folder_that_has_no_server(folder: Path) -> None:
    with foldb.serve(folder, fsync="never") as server:
        at(server.endpoint_url)("sample", "load", "music")

    assert command("scan", "Music", "--select", "count", "--db", folder).stdout == '{"count":3}\n'
    put = command("item", "put", "Music", '{"Artist": "A", "Song": "B"}', "--db", folder)
    assert (put.returncode, put.stdout) == (0, "")
    assert command("scan", "Music", "--select", "count", "--db", folder).stdout == '{"count":4}\n'


def test_a_folder_that_a_server_has_open_is_reached_through_it(folder: Path) -> None:
    with served(folder) as url:
        status = command("status", "--db", folder)
        assert f'"Endpoint":"{url}"' in status.stdout

    assert not (folder / "server.json").exists()


def test_files_of_a_killed_server_do_not_prevent_a_start(folder: Path) -> None:
    with served(folder):
        left_behind = (folder / "server.json").read_bytes()
    (folder / "server.json").write_bytes(left_behind)

    assert command("table", "list", "--db", folder).returncode == 0


def test_a_new_server_at_the_port_of_a_killed_one_is_not_used(folder: Path, tmp_path: Path) -> None:
    with foldb.serve(folder, fsync="never") as server:
        at(server.endpoint_url)("sample", "load", "customers")
    with foldb.serve(tmp_path / "other") as other:
        (folder / "server.json").write_text(json.dumps({"endpoint_url": other.endpoint_url, "pid": 1}))
        listed = command("table", "list", "--db", folder)

    assert "Customers" in listed.stdout
    assert 0 == listed.returncode


def test_a_slip_in_the_path_creates_nothing(tmp_path: Path) -> None:
    result = command("table", "list", "--db", tmp_path / "dta")

    assert (8, "") == (result.returncode, result.stdout)
    assert result.stderr == (
        f"foldb: there is no database in {tmp_path}/dta. `foldb serve --db {tmp_path}/dta` creates one.\n"
    )
    assert [] == list(tmp_path.iterdir())


def test_a_refused_connection_names_the_next_step() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    result = command("table", "list", "--db", f"http://127.0.0.1:{port}")

    assert result.returncode == 8
    assert result.stderr == (
        f"foldb: cannot reach http://127.0.0.1:{port}. Start a server with `foldb serve`, "
        "or open a database folder without one: --db PATH.\n"
    )


def test_limits_that_there_are_not_make_no_folder(tmp_path: Path) -> None:
    result = command("serve", "--db", tmp_path / "data", "--limits", "2013")

    assert (2, "foldb: --limits: there are no limits called '2013': use modern or 2012\n") == (
        result.returncode,
        result.stderr,
    )
    assert [] == list(tmp_path.iterdir())


def test_a_server_that_cannot_begin_says_why(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = command("serve", "--db", tmp_path / "data", "--port", port)
    assert result.returncode == 8
    assert result.stderr.startswith(f"foldb: cannot listen on 127.0.0.1:{port}: ")

    public = command("serve", "--db", tmp_path / "data", "--host", "0.0.0.0", "--port", "0")
    assert public.returncode == 2
    assert public.stderr.startswith("foldb: will not listen on 0.0.0.0")
    assert [] == list(tmp_path.iterdir())

    with served(tmp_path):
        second = command("serve", "--db", tmp_path, "--port", "0")
    assert second.returncode == 8
    assert second.stderr.count("\n") == 1


def test_memory_and_a_folder_contradict_each_other(tmp_path: Path) -> None:
    result = command("serve", "--memory", "--db", tmp_path / "data", "--port", "0")

    assert (
        2,
        f"foldb: --memory and --db {tmp_path}/data: --memory uses no folder. Remove one of the flags.\n",
    ) == (
        result.returncode,
        result.stderr,
    )
    assert [] == list(tmp_path.iterdir())


def test_memory_goes_before_the_database_of_the_environment(tmp_path: Path) -> None:
    """FOLDB_DB is a default for all commands, and no contradiction."""
    environment = {**os.environ, "FOLDB_DB": str(tmp_path / "data")}
    with subprocess.Popen(
        [str(FOLDB), "serve", "--memory", "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        process.stderr.read()

    assert first.endswith("in memory: a stop loses all data\n")
    assert [] == list(tmp_path.iterdir())


def test_serve_says_how_to_connect(tmp_path: Path) -> None:
    with subprocess.Popen(
        [str(FOLDB), "serve", "--db", str(tmp_path), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        assert process.stdout is not None
        process.send_signal(signal.SIGTERM)
        rest, output = process.stderr.read(), process.stdout.read()

    assert re.fullmatch(rf"foldb serves http://127\.0\.0\.1:\d+, in {tmp_path}\n", first)
    assert "boto3.resource(" in rest
    assert ("", 0) == (output, process.returncode)


def test_a_wait_that_ends_reports_the_given_duration(tmp_path: Path) -> None:
    """It ends then too: the server lets one request wait for longer than that, and a stop would wait for it."""
    with killed(tmp_path, "--partitions", "2", "--index-lag", "10s") as url:
        cli = at(url)
        cli("table", "create", "Things", "id:S", "--gsi", "kinds=kind:S", "--no-wait")
        assert 0 == command("table", "wait", "Things", "--db", url).returncode
        for name in ("a", "b"):
            put = cli("item", "put", "Things", f'{{"id": "{name}", "kind": "x"}}')
        match = re.search(r"as of @(\S+)", put.stderr)
        assert match is not None
        waited = command("wait", match[1], "--timeout", "0.3s", "--db", url)

    assert (8, f"foldb: @{match[1]} is not reached after 300ms\n") == (waited.returncode, waited.stderr)


HEED = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"


def heeding_interrupts(*command: str) -> list[str]:
    """Return the command with SIGINT enabled. A shell ignores SIGINT in background jobs, and children inherit that."""
    return [sys.executable, "-c", HEED, *command]


def test_an_interrupted_command_leaves_with_130(folder: Path) -> None:
    with foldb.serve(folder, fsync="never") as server:
        at(server.endpoint_url)("sample", "load", "music")
    with subprocess.Popen(
        heeding_interrupts(str(FOLDB), "log", "tail", "-f", str(folder)),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith('{"position":')
        process.send_signal(signal.SIGINT)
        process.stdout.read()

    assert process.returncode == 130


def test_tail_follows_the_log_of_a_running_server(folder: Path) -> None:
    with served(folder) as url:
        follow = heeding_interrupts(str(FOLDB), "log", "tail", "-n", "1", "-f", "--db", str(folder))
        with subprocess.Popen(
            follow, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            assert process.stdout is not None
            assert '"command":"Genesis"' in process.stdout.readline()
            at(url)("table", "create", "Orders", "id:N")
            assert '"operation":"CreateTable"' in process.stdout.readline()
            process.send_signal(signal.SIGINT)


def test_a_reader_that_has_enough_is_no_error(folder: Path) -> None:
    with foldb.serve(folder, fsync="never") as server:
        at(server.endpoint_url)("sample", "load", "devices", "--events", "2000")
        scan = [str(FOLDB), "scan", "DeviceActivity", "--all", "--db", server.endpoint_url]
        with subprocess.Popen(scan, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.readline()
            process.stdout.close()
            said = process.stderr.read()

    assert (0, "") == (process.returncode, said)


@pytest.mark.parametrize(
    "arguments", [["scan"], ["nonsense"], ["query", "Music", "--limit", "none"], ["table"]]
)
def test_wrong_usage_is_2(arguments: list[str]) -> None:
    assert command(*arguments).returncode == 2


def test_only_one_module_of_the_command_line_reads_the_environment() -> None:
    cli = Path(sys.modules["foldb"].__path__[0]) / "cli"
    readers = [
        path.name
        for path in cli.rglob("*.py")
        if re.search(r"environ\b|getenv|envvar", path.read_text("utf-8"))
    ]

    assert ["settings.py"] == readers


def test_nothing_is_loaded_that_the_command_does_not_need() -> None:
    """Users wait at a prompt: --help imports no command, a client imports neither server nor fold, and a server imports
    neither the client nor the drawing of tables, nor the code of features that an empty database does not use.
    """
    for name, unwanted in (
        (
            "foldb.cli.main",
            ("rich", "foldb.cli.lib.session", "foldb.log", "foldb.server", "foldb.materializer"),
        ),
        # The command signs its requests by a rule of the server, and imports nothing else of it.
        (
            "foldb.cli.commands.item",
            ("rich", "foldb.log", "foldb.server.node", "foldb.server.http", "foldb.materializer"),
        ),
        ("foldb.cli.commands.serve", ("rich", "http.client", "fastavro", "kafka", "prometheus_client")),
        # Loaded with the first request that needs them.
        (
            "foldb.cli.commands.serve",
            (
                "foldb.expressions.partiql",
                "foldb.materializer.history.epochs",
                "foldb.materializer.trim",
                "foldb.model.subscriptions.settings",
                "foldb.server.api.operations.put_item",
                "foldb.server.api.admin.status",
                "foldb.server.buckets.job_files",
                "foldb.server.cluster",
                "foldb.server.history.worker",
                "foldb.server.subscriptions.service",
                "foldb.streams.delivery",
                "foldb.streams.sinks",
                "foldb.streams.workers",
            ),
        ),
    ):
        loaded = subprocess.run(
            [sys.executable, "-c", f"import sys, {name}; print(*sys.modules)"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        assert not set(unwanted) & set(loaded)


@pytest.mark.parametrize("arguments", [["--version"], ["serve", "--db", "http://127.0.0.1:1"]])
def test_a_start_collects_no_garbage_while_it_imports(arguments: list[str]) -> None:
    """A collection in an import traverses all modules that are loaded by then."""
    program = (
        "import gc, sys\n"
        "from foldb.cli import run\n"
        "gc.collect()\n"
        "before = gc.get_stats()[1]['collections']\n"
        f"sys.argv = ['foldb', *{arguments}]\n"
        "try:\n    run()\n"
        "except SystemExit:\n    print(gc.get_stats()[1]['collections'] - before, gc.isenabled())\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert ["0", "True"] == ran.stdout.split()[-2:]
