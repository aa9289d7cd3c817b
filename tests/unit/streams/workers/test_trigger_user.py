"""`foldb serve --trigger-user`: trigger code runs as a user that cannot read the server's files."""

import json
import os
import pwd
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from foldb.server.settings import SettingError, Settings, check
from tests.support.other_user import OtherUser, other_user
from tests.support.raw import ask
from tests.support.served import Process
from tests.support.subscribed import settle, subscribe
from tests.support.tables import table_request
from tests.unit.streams.workers.test_isolation import _assert_gone
from tests.unit.streams.workers.working import Folder

LOOK = """
import boto3, json, os, signal, subprocess, sys
from pathlib import Path
from foldb import Change, trigger
from helper import WORD

def opens(path):
    try:
        Path(path).open("rb").close()
    except OSError as error:
        return type(error).__name__
    return "opens"

def kills(process):
    try:
        os.kill(process, signal.SIGKILL)
    except OSError as error:
        return type(error).__name__
    return "kills"

@trigger("Orders")
def look(change: Change):
    server = change.keys["id"]
    Path(os.environ["HOME"], "here").write_text("mine")
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.write(writing, str(os.getpid()).encode())
            os.execvp("sleep", ["sleep", "600"])
        os._exit(0)
    os.wait()
    said = {
        "word": WORD,
        "ids": [os.getresuid(), os.getresgid(), os.getgroups()],
        "privileges": [line for line in Path("/proc/self/status").open() if line[:6] in ("NoNewP", "CapEff")],
        "server": [opens(f"/proc/{server}/environ"), opens(f"/proc/{server}/mem"), kills(int(server))],
        "supervisor": kills(os.getppid()),
        "database": opens(DATABASE),
        "above": opens(Path(os.environ["HOME"]).parents[1] / "lock"),
        "daemon": int(os.read(reading, 20)),
        "table": boto3.client("dynamodb").describe_table(TableName="Orders")["Table"]["TableStatus"],
    }
    Path(os.environ["OUT"]).write_text(json.dumps(said))
"""


@pytest.fixture
def user() -> Iterator[OtherUser]:
    with other_user() as user:
        yield user


@pytest.mark.guarantee("G45", "SEC24")
def test_a_function_of_another_user_cannot_read_the_server(user: OtherUser, tmp_path: Path) -> None:
    """Only the server can read the folder of triggers: workers receive the code as text."""
    folder, shared = Folder(tmp_path), Folder(user.folder)
    data = tmp_path / "data"
    folder.path.chmod(0o700)
    folder.write(".env", f"OUT={user.folder / 'out'}")
    folder.write("helper.py", "WORD = 'handed over'\n")
    folder.write("app.py", LOOK.replace("DATABASE", repr(str(data / "server.json"))))
    with Process(
        data, "--triggers", str(folder.path), "--trigger-user", user.name, program=user.foldb
    ) as server:
        ask(server.url, "CreateTable", table_request("Orders", "id:S"))
        ask(server.url, "PutItem", {"TableName": "Orders", "Item": {"id": {"S": str(server.pid)}}})
        settle(server.url)
        said: dict[str, Any] = json.loads(shared.out)
        assert Path(f"/proc/{said['daemon']}").exists()
        server.kill()
    entry = pwd.getpwnam(user.name)

    _assert_gone(said.pop("daemon"))
    assert said == {
        "word": "handed over",
        "ids": [3 * [entry.pw_uid], 3 * [entry.pw_gid], os.getgrouplist(user.name, entry.pw_gid)],
        "privileges": ["CapEff:\t0000000000000000\n", "NoNewPrivs:\t1\n"],
        "server": 3 * ["PermissionError"],
        "supervisor": "PermissionError",
        "database": "PermissionError",
        "above": "PermissionError",
        "table": "ACTIVE",
    }


@pytest.mark.guarantee("SEC24")
def test_a_command_of_another_user_runs_in_a_readable_folder(user: OtherUser) -> None:
    folder = Folder(user.folder)
    folder.write("who.sh", '#!/bin/sh\nid -u > "$OUT"\n')
    options = ("--triggers", str(folder.path), "--trigger-user", user.name)
    with Process(user.folder / "data", *options, program=user.foldb) as server:
        ask(server.url, "CreateTable", table_request("Orders", "id:S"))
        subscribe(server.url, "who", "Orders", {"Kind": "command", "Command": ["./who.sh"]})
        ask(server.url, "PutItem", {"TableName": "Orders", "Item": {"id": {"S": "o-1"}}})
        settle(server.url)

    assert int(folder.out) == pwd.getpwnam(user.name).pw_uid


@pytest.mark.guarantee("SEC24")
@pytest.mark.parametrize(
    ("name", "said"),
    [("no-such-user", "there is no user 'no-such-user' on this machine"), ("root", "root is root")],
)
def test_an_unsuitable_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, said: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    with pytest.raises(SettingError, match=said):
        check(Settings(triggers=tmp_path, trigger_user=name))


def test_a_server_without_root_refuses_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    with pytest.raises(SettingError, match="only root can run workers as nobody; start the server as root"):
        check(Settings(triggers=tmp_path, trigger_user="nobody"))


def test_a_user_without_triggers_is_refused() -> None:
    with pytest.raises(SettingError, match="there is no folder of triggers"):
        check(Settings(trigger_user="nobody"))


def test_a_user_that_cannot_read_python_is_refused(
    user: OtherUser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise each trigger would fail with an import error of another module."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    python = closed / "python"
    python.symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(python))

    with pytest.raises(
        SettingError, match=rf"{user.name} cannot run {python} with foldb \(.*Permission denied"
    ):
        check(Settings(triggers=tmp_path, trigger_user=user.name))
