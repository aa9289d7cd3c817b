"""docs/examples/load.sql, run unchanged by PostgreSQL."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import boto3
import pytest

import foldb
from tests.behaviour.examples.running import EXAMPLES, Running


@pytest.fixture
def postgresql() -> Iterator[Path]:
    """Return the folder of a server's socket. PostgreSQL runs neither as root nor in a folder of root."""
    found = [*sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")), shutil.which("initdb")]
    programs = next((Path(each).parent for each in found if each), None)
    if programs is None or shutil.which("psql") is None:
        pytest.skip("PostgreSQL is not installed")
    root = os.geteuid() == 0
    if root and "postgres" not in {user.pw_name for user in pwd.getpwall()}:
        pytest.skip("there is no user postgres, and PostgreSQL does not run as root")
    folder = Path(tempfile.mkdtemp(prefix="foldb-postgresql-"))
    if root:
        shutil.chown(folder, "postgres")
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C"}

    def run(program: str, *arguments: str) -> None:
        command = [str(programs / program), "--pgdata", str(folder / "data"), *arguments]
        user = "postgres" if root else None
        subprocess.run(command, cwd=folder, env=environment, user=user, check=True, stdout=subprocess.DEVNULL)

    try:
        run("initdb", "--username", "shop", "--auth", "trust", "--encoding", "UTF8", "--no-sync")
        run("pg_ctl", "start", "--wait", "--log", str(folder / "log"), "--options", f"-k {folder} -h ''")
        try:
            yield folder
        finally:
            run("pg_ctl", "stop", "--mode", "immediate")
    finally:
        shutil.rmtree(folder)


def psql(server: Path, *arguments: str, stdin: str = "") -> str:
    """Return the output of psql, one row per line."""
    command = ["psql", "--no-psqlrc", "--host", str(server), "--username", "shop", "--dbname", "postgres"]
    ran = subprocess.run(
        [*command, "--tuples-only", "--no-align", *arguments], input=stdin, capture_output=True, text=True
    )
    assert (0, "") == (ran.returncode, ran.stderr), ran.stderr
    return ran.stdout


@pytest.mark.spec("S92")
def test_a_folder_of_changes_becomes_tables_of_postgresql(postgresql: Path, tmp_path: Path) -> None:
    with foldb.serve(tmp_path / "data") as server:
        resource = boto3.resource("dynamodb", **server.boto3)
        running = Running(server, resource, tmp_path)
        orders = running.table("Orders", "id:S")
        large = Decimal("12345678901234567890123456789012345678")
        orders.put_item(Item={"id": "o-1", "said": 'a "quoted" \\ word,\nanother', "price": 42})
        orders.put_item(Item={"id": "o-2", "price": 7})
        running.foldb("trigger", "add", "lake", "--table", "Orders", "--file", "lake", "--from", "snapshot")
        running.settle()
        first = load(postgresql, tmp_path)
        orders.put_item(Item={"id": "o-1", "said": "nothing", "price": large})
        orders.delete_item(Key={"id": "o-2"})
        running.settle()
        second = load(postgresql, tmp_path)
        again = load(postgresql, tmp_path)
        resource.meta.client.close()

    assert ["o-1|42", "o-2|7"] == first
    assert [f"o-1|{large}"] == second == again
    count = "SELECT op, count(*) FROM changes GROUP BY op ORDER BY op"
    assert ["MODIFY|1", "READ|2", "REMOVE|1"] == psql(postgresql, "--command", count).split()
    said = (
        "SELECT old -> 'said' ->> 'S' = E'a \"quoted\" \\\\ word,\\nanother' FROM changes WHERE op = 'MODIFY'"
    )
    assert ["t"] == psql(postgresql, "--command", said).split()


def load(server: Path, folder: Path) -> list[str]:
    """Load all files and return the resulting items."""
    files = sorted((folder / "data" / "files" / "lake" / "table=Orders").glob("date=*/*.jsonl"))
    psql(
        server,
        "--quiet",
        "--file",
        str(EXAMPLES / "load.sql"),
        stdin="".join(file.read_text() for file in files),
    )
    items = "SELECT keys -> 'id' ->> 'S', (item -> 'price' ->> 'N')::numeric FROM items ORDER BY 1"
    return psql(server, "--command", items).split()
