"""A test is counted as driving a served process only if one answered it while it ran."""

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

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


SPEC = "tests/behaviour/spec"
NONE = DRIVERS["no request"]
# By name: the folder of the test, the arguments of its marker, and its body.
TESTS = {
    **{how: (SPEC, "'S01'", body) for how, body in DRIVERS.items()},
    "not served": (SPEC, "'S01', served=False", NONE),
    "of a unit": ("tests/unit/model", "'S01'", NONE),
    "of another folder": ("tests/specs", "'S01'", NONE),
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Run the tests in a process of their own, because what is looked at there stays looked at."""
    folder = tmp_path_factory.mktemp("driven")
    (folder / "conftest.py").write_text(
        textwrap.dedent(f"""
            import sys
            from pathlib import Path
            sys.path.insert(0, {str(Path(__file__).resolve().parents[3])!r})
            from tests.unit.project.driven import Driven

            def pytest_configure(config):
                config.addinivalue_line("markers", "spec(*rows): rows")
                config.pluginmanager.register(Driven(Path({str(folder)!r})))
        """)
    )
    for name, (where, options, body) in TESTS.items():
        path = folder / where / f"test_{name.replace(' ', '_')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        indented = textwrap.indent(textwrap.dedent(body), "    ")
        path.write_text(f"import pytest\n\n@pytest.mark.spec({options})\ndef test_it():\n{indented}\n")
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "pytest",
        "--import-mode=importlib",
        "-rpf",
        "--rootdir",
        folder,
        folder,
    ]
    ran = subprocess.run(command, capture_output=True, text=True)
    found = re.findall(r"^(PASSED|FAILED) \S+/test_(\w+)\.py::", ran.stdout, re.MULTILINE)
    assert len(TESTS) == len(found), ran.stdout
    return {name.replace("_", " "): outcome for outcome, name in found}


@pytest.mark.parametrize(
    "how",
    ["no request", "another server", "another program", "a server that is not asked", "a command of foldb"],
)
def test_a_test_that_no_foldb_answers_fails(how: str, outcomes: dict[str, str]) -> None:
    assert "FAILED" == outcomes[how]


@pytest.mark.parametrize("how", ["a server", "a command that asks a server"])
def test_a_test_that_foldb_answers_passes(how: str, outcomes: dict[str, str]) -> None:
    assert "PASSED" == outcomes[how]


@pytest.mark.parametrize("which", ["not served", "of a unit", "of another folder"])
def test_a_test_that_is_not_counted_may_ask_none(which: str, outcomes: dict[str, str]) -> None:
    assert "PASSED" == outcomes[which]
