"""A test is counted as driving a served process only if one answered it while it ran."""

import textwrap
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

DRIVERS = {
    "no request": "assert 1 + 1 == 2",
    "another server": """
        import http.client, http.server, threading
        with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
            threading.Thread(target=server.handle_request).start()
            connection = http.client.HTTPConnection(*server.server_address)
            connection.request("GET", "/")
            assert 501 == connection.getresponse().status
            connection.close()
    """,
    "another program": "import subprocess, sys; subprocess.run([sys.executable, '-c', ''], check=True)",
    "a server that is not asked": """
        import foldb
        with foldb.serve() as server:
            assert server.endpoint_url
    """,
    "a server": """
        import foldb
        from tests.support.raw import ask
        with foldb.serve() as server:
            assert 200 == ask(server.endpoint_url, "ListTables", {}).status
    """,
    "a command of foldb": "from tests.support.served import foldb; assert 0 == foldb('--version').returncode",
    "a command that asks a server": """
        import foldb
        from foldb.cli.main import app
        from typer.testing import CliRunner
        with foldb.serve() as server:
            assert 0 == CliRunner().invoke(app, ["--db", server.endpoint_url, "status"]).exit_code
    """,
}


def outcome(pytester: pytest.Pytester, folder: str, options: str, body: str) -> dict[str, int]:
    """Run a test in a process of its own, because what is looked at there stays looked at."""
    root = str(Path(__file__).resolve().parents[3])
    pytester.makeconftest(
        f"""
        import sys
        from pathlib import Path
        sys.path.insert(0, {root!r})
        from tests.unit.project.driven import Driven

        def pytest_configure(config):
            config.addinivalue_line("markers", "spec(*rows): rows")
            config.pluginmanager.register(Driven(Path({str(pytester.path)!r})))
        """
    )
    path = pytester.path / folder / "test_it.py"
    path.parent.mkdir(parents=True)
    indented = textwrap.indent(textwrap.dedent(body), "    ")
    path.write_text(f"import pytest\n\n@pytest.mark.spec({options})\ndef test_it():\n{indented}\n")
    return pytester.runpytest_subprocess("--import-mode=importlib", path).parseoutcomes()


@pytest.mark.parametrize(
    "how",
    ["no request", "another server", "another program", "a server that is not asked", "a command of foldb"],
)
def test_a_test_that_no_foldb_answers_fails(how: str, pytester: pytest.Pytester) -> None:
    assert {"failed": 1} == outcome(pytester, "tests/behaviour/spec", "'S01'", DRIVERS[how])


@pytest.mark.parametrize("how", ["a server", "a command that asks a server"])
def test_a_test_that_foldb_answers_passes(how: str, pytester: pytest.Pytester) -> None:
    assert {"passed": 1} == outcome(pytester, "tests/behaviour/spec", "'S01'", DRIVERS[how])


@pytest.mark.parametrize(
    ("folder", "options"),
    [
        ("tests/behaviour/spec", "'S01', served=False"),
        ("tests/unit/model", "'S01'"),
        ("tests/specs", "'S01'"),
    ],
)
def test_a_test_that_is_not_counted_may_ask_none(
    folder: str, options: str, pytester: pytest.Pytester
) -> None:
    assert {"passed": 1} == outcome(pytester, folder, options, DRIVERS["no request"])
