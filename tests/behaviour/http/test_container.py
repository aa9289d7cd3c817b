"""The command of the Dockerfile in namespaces: other machines reach it, pages do not, and it behaves as process 1."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.containers import (
    CONTAINER,
    Client,
    Container,
    client_of,
    entry_point,
    instruction,
    require_namespaces,
)
from tests.support.raw import SIGNED

# An application in another container: an endpoint from its configuration, no key that means anything.
APPLICATION = """
import sys, boto3
table = boto3.resource(
    "dynamodb", endpoint_url=sys.argv[1], region_name="eu-west-1", aws_access_key_id="a", aws_secret_access_key="b"
).create_table(
    TableName=sys.argv[2], BillingMode="PAY_PER_REQUEST",
    KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
    AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
)
table.put_item(Item={"id": "o-1", "state": "new"})
print(table.get_item(Key={"id": "o-1"})["Item"]["state"])
"""

TABLES = """
import sys, boto3
print(boto3.client(
    "dynamodb", endpoint_url=sys.argv[1], region_name="eu-west-1", aws_access_key_id="a", aws_secret_access_key="b"
).list_tables()["TableNames"])
"""

# Requests to the container's address, each with one header field more or changed.
REQUESTS = """
import sys, http.client
for field in sys.argv[3:]:
    connection = http.client.HTTPConnection(sys.argv[1], 8000, timeout=30)
    connection.request("POST", "/", b"{}", {
        "X-Amz-Target": "DynamoDB_20120810.ListTables",
        "Content-Type": "application/x-amz-json-1.0",
        "Authorization": sys.argv[2],
    } | dict([field.split(": ", 1)]))
    print(connection.getresponse().status, field)
"""

SERVES = "foldb serves"


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    require_namespaces()
    with Container(entry_point(tmp_path_factory.mktemp("volume") / "data")) as container:
        container.read_until(SERVES)
        yield container
        assert container.stop() == 0, container.said


@pytest.fixture(scope="module")
def client(container: Container, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with client_of(container, tmp_path_factory.mktemp("client"), "dynamodb", "foldb") as client:
        yield client


@pytest.mark.parametrize("name", ["dynamodb", "foldb", CONTAINER])
def test_an_sdk_in_another_container_reaches_it(client: Client, name: str) -> None:
    """A service of a compose network is called by its name, which has no dot."""
    assert client.run(APPLICATION, f"http://{name}:8000", f"Orders-{name}") == "new\n"


def answers(client: Client, fields: Sequence[str]) -> dict[str, str]:
    """Return the status of the answer to a request with each field."""
    lines = client.run(REQUESTS, CONTAINER, SIGNED, *fields).splitlines()
    return {field: status for status, field in (line.split(" ", 1) for line in lines)}


@pytest.mark.guarantee("SEC11")
def test_names_that_no_page_can_be_rebound_under_are_answered(client: Client) -> None:
    """`docker run -p` is called by localhost or by an address of the host."""
    names = (
        "localhost:8000",
        "127.0.0.1:8000",
        "DynamoDB:8000",
        "my_service",
        "db.",
        "10.0.0.7",
        "[fd00::7]:8000",
    )
    fields = [f"Host: {name}" for name in names]

    assert answers(client, fields) == dict.fromkeys(fields, "200")


@pytest.mark.guarantee("G52", "SEC11")
def test_a_page_in_a_browser_is_refused(client: Client) -> None:
    fields = (
        "Host: evil.example:8000",
        "Host: 198.51.100.2.nip.io:8000",
        "Host: foldb.evil.example",
        "Host: ..",
        "Host: .",
        "Origin: http://evil.example",
        "Origin: http://localhost:3000",
        "Origin: null",
        "Sec-Fetch-Site: cross-site",
    )

    assert answers(client, fields) == dict.fromkeys(fields, "403")


@pytest.mark.guarantee("G52", "SEC1")
def test_it_warns_that_no_key_is_needed(container: Container) -> None:
    warnings = [line for line in container.said.splitlines() if line.startswith("WARNING")]

    assert len(warnings) == 1
    assert "anyone who can reach 0.0.0.0 port 8000 can read and change all data" in warnings[0]


def test_its_health_check_passes(client: Client, container: Container) -> None:
    python, *arguments = instruction("HEALTHCHECK")

    assert python == "python"
    container.run(sys.executable, *arguments)


def test_an_orphan_that_ends_is_reaped(container: Container) -> None:
    """Without that, each process that a killed parent leaves behind keeps a process id until the container stops."""
    read, write = os.pipe()
    try:
        script = "exec 3<&0; cat 0<&3 3<&- >/dev/null 2>&1 & echo $!"
        orphan = int(container.run("sh", "-c", script, stdin=read))
        there = container.process(orphan)
        _until(lambda: "PPid:\t1\n" in (there / "status").read_text())
    finally:
        os.close(write)
        os.close(read)
    _until(lambda: not there.exists())


def test_process_1_hides_the_environment_that_it_was_given(container: Container) -> None:
    """Code of triggers runs as the same user, and the environment of a container can hold passwords."""
    _until(lambda: b"AWS_SECRET_ACCESS_KEY" not in Path(f"/proc/{container.pid}/environ").read_bytes())


def test_sigterm_ends_it_and_the_volume_keeps_its_tables(tmp_path: Path) -> None:
    require_namespaces()
    for program, printed in ((APPLICATION, "new\n"), (TABLES, "['Orders']\n")):
        with Container(entry_point(tmp_path / "data")) as container:
            container.read_until(SERVES)
            with client_of(container, tmp_path, "dynamodb") as client:
                assert client.run(program, "http://dynamodb:8000", "Orders") == printed
            assert container.stop() == 0, container.said


def test_sigterm_ends_a_start_that_is_not_done() -> None:
    """The kernel ignores SIGTERM for a process 1 without a handler, and Docker would wait for ten seconds."""
    require_namespaces()
    program = "import signal, sys, foldb.cli.main as main, foldb.cli as cli\n"
    program += "main.run = lambda: (print('ready', file=sys.stderr), signal.pause())\ncli.run()"
    with Container([sys.executable, "-c", program]) as container:
        container.read_until("ready")

        assert container.stop() == 128 + 15


def _until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end
