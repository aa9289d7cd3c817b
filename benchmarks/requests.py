"""The table of all benchmarks, its items, and a client with one request in flight."""

import http.client
import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

TABLE = {
    "TableName": "orders",
    "BillingMode": "PAY_PER_REQUEST",
    "AttributeDefinitions": [
        {"AttributeName": "pk", "AttributeType": "S"},
        {"AttributeName": "sk", "AttributeType": "S"},
    ],
    "KeySchema": [
        {"AttributeName": "pk", "KeyType": "HASH"},
        {"AttributeName": "sk", "KeyType": "RANGE"},
    ],
}
PER_COLLECTION = 20
NOTE_BYTES = 100
"""The bytes of the attribute that fills an item."""

HEADERS = {
    "X-Amz-Date": "20261121T080000Z",
    "Content-Type": "application/x-amz-json-1.0",
    "Authorization": "AWS4-HMAC-SHA256 Credential=fake/20261121/us-east-1/dynamodb/aws4_request, "
    "SignedHeaders=host;x-amz-date, Signature=0",
}


def item(pk: str, sk: str, note: int = NOTE_BYTES) -> dict[str, Any]:
    """Return an item of about 100 bytes more than its note: 200 by default."""
    return {
        "pk": {"S": pk},
        "sk": {"S": sk},
        "total": {"N": "123.45"},
        "status": {"S": "SHIPPED"},
        "qty": {"N": "3"},
        "note": {"S": "x" * note},
    }


def orders(keys: int, per_key: int = PER_COLLECTION) -> Iterator[tuple[str, str]]:
    """Return the keys that load.lua uses."""
    for user in range(1, keys + 1):
        for order in range(1, per_key + 1):
            yield f"user#{user}", f"order#{order}"


class Client:
    """One connection."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.address = url.removeprefix("http://")
        self._connection = http.client.HTTPConnection(self.address)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def call(self, operation: str, body: object) -> Any:
        """Send a request, and return the response. A foldb operation is given with its API, `Foldb_20261121.Status`."""
        return json.loads(self.text(operation, body))

    def text(self, operation: str, body: object) -> bytes:
        """Send a request, and return the response body."""
        target = operation if "." in operation else f"DynamoDB_20120810.{operation}"
        headers = {**HEADERS, "X-Amz-Target": target}
        self._connection.request("POST", "/", json.dumps(body, separators=(",", ":")), headers)
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise SystemExit(f"{operation}: {text.decode(errors='replace')}")
        return text

    def seconds(self, operation: str, body: object) -> float:
        """Return the time of a response."""
        start = time.perf_counter()
        self.call(operation, body)
        return time.perf_counter() - start

    def fill(self, keys: int, table: Mapping[str, object] = TABLE) -> None:
        """Create the table, and put every item that the load uses."""
        self.call("CreateTable", table)
        self.wait_until_active("orders")
        self.put_all(keys)

    def wait_until_active(self, table: str) -> None:
        """Poll until a table is ACTIVE."""
        while self.call("DescribeTable", {"TableName": table})["Table"]["TableStatus"] != "ACTIVE":
            time.sleep(0.01)

    def put_all(self, keys: int, note: int = NOTE_BYTES) -> None:
        """Put every item that the load uses."""
        puts = [{"PutRequest": {"Item": item(*key, note)}} for key in orders(keys)]
        for start in range(0, len(puts), 25):
            self.call("BatchWriteItem", {"RequestItems": {"orders": puts[start : start + 25]}})
