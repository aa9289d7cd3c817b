"""A server's passwords, and trigger code that searches every process for them."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.other_user import other_user
from tests.support.raw import ask
from tests.support.served import FOLDB, Process
from tests.support.subscribed import settle
from tests.support.tables import table_request
from tests.unit.streams.workers.working import Folder

VARIABLES = (
    "FOLDB_KAFKA_PASSWORD",
    "FOLDB_KAFKA_KEY_PASSWORD",
    "FOLDB_CLUSTER_SECRET",
    "FOLDB_SECRET_ACCESS_KEY",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "DATABASE_URL",
)
SEARCH = """
import json, os
from pathlib import Path
from foldb import Change, trigger

SECRET = b"-".join([b"hush", b"hush"])

def has(path):
    try:
        return SECRET in path.read_bytes()
    except OSError:
        return False

def opens(path):
    try:
        if path.is_dir():
            return bool([os.readlink(each) for each in path.iterdir()])
        with path.open("rb") as file:
            file.seek(at(path) if path.name == "mem" else 0)
            return bool(file.read(1))
    except OSError:
        return False

def at(path):
    return int(path.with_name("maps").read_text().partition("-")[0], 16)

@trigger("Orders")
def search(change: Change):
    server = Path("/proc", change.keys["id"])
    found = [str(path) for name in ("environ", "cmdline") for path in Path("/proc").glob(f"[0-9]*/{name}") if has(path)]
    opened = [name for name in ("environ", "mem", "maps", "fd") if opens(server / name)]
    Path(os.environ["OUT"]).write_text(json.dumps({"found": found, "opened": opened}))
"""


def searched(folder: Folder, program: Sequence[str | Path]) -> dict[str, list[str]]:
    """Return the secrets that a function finds, called by a server with secrets in its environment."""
    folder.write("app.py", SEARCH)
    secrets = [f"{name}=hush-hush-{name}" for name in VARIABLES]
    options = ("--triggers", str(folder.path))
    with Process(folder.path.parent / "data", *options, program=("env", *secrets, *program)) as server:
        ask(server.url, "CreateTable", table_request("Orders", "id:S"))
        ask(server.url, "PutItem", {"TableName": "Orders", "Item": {"id": {"S": str(server.pid)}}})
        settle(server.url)
        server.terminate()
    found: dict[str, list[str]] = json.loads(folder.out)
    return found


@pytest.mark.parametrize("option", ["--log", "--kafka-sink"])
def test_dropped_kafka_variables_are_still_used(tmp_path: Path, option: str) -> None:
    program = ("env", "FOLDB_KAFKA_SECURITY_PROTOCOL=NONE", FOLDB)
    server = Process(tmp_path, option, "kafka://127.0.0.1:1/shop", program=program, may_end=True)

    assert "security_protocol must be one of PLAINTEXT, SSL" in server.said
    assert server.wait() != 0


@pytest.mark.guarantee("G46", "SEC23")
def test_no_process_shows_a_function_the_servers_secrets(folder: Folder) -> None:
    """If the tests run as root the function does too, and no permission protects a process."""
    assert searched(folder, [FOLDB])["found"] == []


@pytest.mark.guarantee("G46", "SEC23")
def test_a_function_of_the_same_user_cannot_read_the_server() -> None:
    with other_user() as user:
        assert searched(Folder(user.folder), (*user.identity, *user.foldb)) == {"found": [], "opened": []}
