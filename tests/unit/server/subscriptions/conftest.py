"""A server with a folder of functions that record their calls, and gate files that block them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest

import foldb
from foldb.embedded import Server
from tests.support.raw import Answer, ask
from tests.support.subscribed import described, operate, settle, until
from tests.support.tables import table_request

FUNCTIONS = """
import json, os, time
from pathlib import Path
from urllib.request import Request, urlopen

HERE = Path(__file__).parent

def note(*what):
    with (HERE / "notes").open("a") as notes:
        print(*what, file=notes)

def fails(change):
    if (HERE / "broken").exists():
        raise ValueError("not now")
    note(change.keys["pk"], (change.new or {}).get("n"))

def fails_slowly(change):
    note("called with", (change.new or {}).get("n"))
    while (HERE / "gate").exists():
        time.sleep(0.005)
    fails(change)

def writes(change):
    fails(change)
    while (HERE / "gate").exists():
        time.sleep(0.005)
    put({"TableName": "Written", "Item": {"pk": {"S": change.keys["pk"]}}})

def put(request):  # as an SDK does it, and sooner
    headers = {
        "X-Amz-Target": "DynamoDB_20120810.PutItem",
        "Content-Type": "application/x-amz-json-1.0",
        "Authorization": "AWS4-HMAC-SHA256 Credential=key/20261121/us-east-1/dynamodb/aws4_request, "
                         "SignedHeaders=host, Signature=0",
        "User-Agent": "test app/" + os.environ["AWS_SDK_UA_APP_ID"],
    }
    urlopen(Request(os.environ["AWS_ENDPOINT_URL_DYNAMODB"], json.dumps(request).encode(), headers)).close()

def tells_transaction(change):
    if (HERE / "broken").exists():
        raise ValueError("not now")
    note(change.keys["pk"], change.tx and f"{change.tx.n} of {change.tx.of} in {change.tx.id}")

def tells(change):
    note(change.keys["pk"], change.source, change.depth)
"""


@dataclass
class Shop:
    """A served database in this process, and the folder of its functions."""

    server: Server
    folder: Path
    resource: Any

    @property
    def url(self) -> str:
        return self.server.endpoint_url

    def table(self, name: str) -> Any:
        """Create a table with the key `pk`."""
        return self.resource.create_table(**table_request(name, "pk:S"))

    def subscribe(self, name: str, table: str, function: str, **settings: Any) -> None:
        """Subscribe a function to a table, without retries by default."""
        sink = {"Kind": "python", "Function": f"functions:{function}"}
        given = {"Sink": sink, "MaximumRetryAttempts": 0, "Backoff": {"First": 0, "Most": 0}} | settings
        operate(self.url, "CreateSubscription", Name=name, TableNames=[table], **given)

    def do(self, operation: str, name: str, **request: Any) -> Any:
        """Call one of foldb's own operations on a subscription."""
        return operate(self.url, operation, Name=name, **request)

    def refused(self, operation: str, **request: Any) -> Answer:
        """Call an operation that is refused, and return the answer."""
        answer = ask(self.url, f"Foldb_20261121.{operation}", request)
        assert 400 == answer.status, answer.data
        return answer

    def letters(self, name: str) -> list[dict[str, Any]]:
        """Return the dead letters of a subscription."""
        reported: list[dict[str, Any]] = self.do("ListDeadLetters", name)["DeadLetters"]
        return reported

    def described(self, name: str) -> dict[str, Any]:
        return described(self.url, name)

    def settle(self) -> None:
        settle(self.url)

    def be(self, name: str, *, there: bool) -> None:
        """Create or remove a file beside the functions, which look for `broken` and `gate`."""
        (self.folder / name).touch() if there else (self.folder / name).unlink()

    def notes(self) -> list[str]:
        """Return the recorded calls."""
        path = self.folder / "notes"
        return path.read_text().splitlines() if path.exists() else []

    def noted(self, note: str) -> None:
        """Wait until a call is recorded."""
        until(lambda: note in self.notes())


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    folder = tmp_path / "triggers"
    folder.mkdir()
    (folder / "functions.py").write_text(FUNCTIONS)
    with foldb.serve(triggers=folder) as server:
        shop = Shop(server, folder, boto3.resource("dynamodb", **server.boto3))
        yield shop
        shop.resource.meta.client.close()
