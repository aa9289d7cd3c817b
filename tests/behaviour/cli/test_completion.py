"""Completion in a shell: the names come from the server, and a server without an answer is no error."""

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from foldb.cli.main import app
from tests.behaviour.cli.conftest import Foldb
from tests.support.subscribed import until

BIN = Path(sys.executable).parent
BASH = shutil.which("bash")


@pytest.fixture
def shop(cli: Foldb, monkeypatch: pytest.MonkeyPatch) -> None:
    """Create tables, a trigger and a backup. A busy machine gets more time for an answer."""
    monkeypatch.setattr("foldb.cli.lib.completion._TIMEOUT_S", 60.0)
    cli("table", "create", "Orders", "id:S", "--gsi", "Totals=total:N", "--lsi", "none=x:N")
    cli("table", "create", "Music", "Artist:S", "Song:S", "--gsi", "Years=Year:N", "--lsi", "Labels=Label:S")
    cli("table", "create", "Movies", "id:S", "--stream")
    cli("trigger", "add", "mailer", "--table", "Movies", "--sqlite", "shop")
    cli("backup", "create", "Movies", "before-release")


def completed(line: str, db: str, shell: str = "bash") -> list[str]:
    """Return the lines that the program prints for the function of a shell."""
    words = line.split(" ")
    variables = {
        "bash": {"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)},
        "zsh": {"_TYPER_COMPLETE_ARGS": line},
        "fish": {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }[shell]
    env = {"FOLDB_DB": db, "_FOLDB_COMPLETE": f"complete_{shell}", **variables}
    done = CliRunner(env=env).invoke(app, prog_name="foldb", catch_exceptions=False)
    assert not done.stderr
    return done.stdout.split("\n")[:-1]


@pytest.mark.usefixtures("shop")
def test_names_are_completed_from_the_server(url: str) -> None:
    assert ["Movies", "Music"] == completed("foldb scan M", url)
    assert ["Years", "Labels"] == completed("foldb query Music Kyuss --index ", url)
    assert ["Years"] == completed("foldb table update Music --drop-gsi Y", url)
    assert ["mailer"] == completed("foldb trigger show ", url)
    assert ["before-release"] == completed("foldb backup describe b", url)


@pytest.mark.usefixtures("shop")
def test_cuts_are_ages_the_end_of_the_log_and_backups(url: str) -> None:
    ages, (position, backup) = (lines := completed("foldb scan Music --as-of ", url))[:3], lines[3:]

    assert ["-5m", "-1h", "-1d"] == ages
    assert position.isdecimal()
    assert backup.endswith("Z")
    assert "-1h\tan hour ago" in completed("foldb scan Music --as-of ", url, "fish")


@pytest.mark.usefixtures("shop")
def test_zsh_and_fish_get_the_names_in_their_own_form(url: str) -> None:
    assert ['_arguments \'*: :(("Movies"', '"Music"))\''] == completed("foldb scan M", url, "zsh")
    assert ["Movies", "Music"] == completed("foldb scan M", url, "fish")


def test_a_server_without_an_answer_completes_nothing(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        begun = time.monotonic()
        host, port = silent.getsockname()
        assert [""] == completed("foldb scan M", f"http://{host}:{port}")
        assert time.monotonic() - begun < 30
    assert [""] == completed("foldb scan M", str(tmp_path / "no-database"))
    assert [""] == completed("foldb scan Music --db ", "http://127.0.0.1:1")
    assert not any(tmp_path.iterdir())


@pytest.mark.skipif(BASH is None, reason="bash is not installed")
@pytest.mark.usefixtures("shop")
def test_bash_completes_a_table_after_the_installation(url: str, tmp_path: Path) -> None:
    """The installation finds the shell by its process, so each step runs in a real one."""
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "FOLDB_DB": url,
        "PATH": f"{BIN}:{os.environ['PATH']}",
    }

    def bash(script: str) -> str:
        return subprocess.run(
            [str(BASH), "-c", script], env=environment, capture_output=True, text=True, check=True
        ).stdout

    assert "bash completion installed" in bash("foldb --install-completion; true")
    script = """
        . ~/.bashrc
        COMP_WORDS=(foldb item get Mu) COMP_CWORD=3
        complete -p foldb && _foldb_completion foldb && echo "${COMPREPLY[@]}"
    """
    expected = ["complete -o default -F _foldb_completion foldb", "Music"]
    until(lambda: expected == bash(script).splitlines())  # a busy machine may need more than a second
