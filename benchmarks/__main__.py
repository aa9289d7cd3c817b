"""foldb beside dynoxide, in one run: `python -m benchmarks`.

    DYNOXIDE=path/to/dynoxide python -m benchmarks [--seconds 3] [--rounds 3] [--connections 32]

For each kind of request the servers take turns, round after round, each on data of its own, and the medians
are compared: on a machine that others use too, ratios of one run hold where rates of two do not. foldb
acknowledges a write when it is on the disk; dynoxide in memory never writes one.

Needs wrk on the PATH, and dynoxide (npm package @dynoxide/linux-x64) for the comparison.
"""

import argparse
import http.client
import json
import os
import platform
import shutil
import statistics
import subprocess
from contextlib import ExitStack
from pathlib import Path

from .peers import Peer, dynoxide_peers, foldb_peer, running

OPERATIONS = ("put", "get", "update", "query")
SCRIPT = Path(__file__).with_name("load.lua")
FIRST_PORT = 18_300
HEADERS = {
    "X-Amz-Date": "20261121T080000Z",
    "Content-Type": "application/x-amz-json-1.0",
    "Authorization": "AWS4-HMAC-SHA256 Credential=fake/20261121/us-east-1/dynamodb/aws4_request, "
    "SignedHeaders=host;x-amz-date, Signature=0",
}
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


def main() -> None:
    options = _options()
    if shutil.which("wrk") is None:
        raise SystemExit("benchmarks: wrk is not on the PATH (Debian: apt-get install wrk)")
    peers = [foldb_peer(), *dynoxide_peers()]
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, ", end="")
    print(f"{options.connections} connections, medians of {options.rounds} rounds of {options.seconds} s\n")
    with ExitStack() as stack:
        urls = {
            peer.name: stack.enter_context(running(peer, FIRST_PORT + place))
            for place, peer in enumerate(peers)
        }
        for url in urls.values():
            _prepare(url, options.keys)
        for operation in OPERATIONS:
            _report(operation, peers, _measure(operation, urls, options))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--keys", type=int, default=2000, help="partition keys, 20 items each")
    return parser.parse_args()


def _prepare(url: str, keys: int) -> None:
    """Create the table and fill it: every request of the load then meets an item."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"))
    _call(connection, "CreateTable", TABLE)
    items = [
        {
            "pk": {"S": f"user#{user}"},
            "sk": {"S": f"order#{order}"},
            "total": {"N": "123.45"},
            "status": {"S": "SHIPPED"},
            "qty": {"N": "3"},
            "note": {"S": "x" * 100},
        }
        for user in range(1, keys + 1)
        for order in range(1, 21)
    ]
    for start in range(0, len(items), 25):
        batch = [{"PutRequest": {"Item": item}} for item in items[start : start + 25]]
        _call(connection, "BatchWriteItem", {"RequestItems": {"orders": batch}})
    connection.close()


def _call(connection: http.client.HTTPConnection, operation: str, body: object) -> None:
    headers = {**HEADERS, "X-Amz-Target": f"DynamoDB_20120810.{operation}"}
    connection.request("POST", "/", json.dumps(body), headers)
    answer = connection.getresponse()
    text = answer.read()
    if answer.status != 200:
        raise SystemExit(f"{operation}: {text.decode(errors='replace')}")


def _measure(
    operation: str, urls: dict[str, str], options: argparse.Namespace
) -> dict[str, list[tuple[float, float]]]:
    figures: dict[str, list[tuple[float, float]]] = {name: [] for name in urls}
    for _ in range(options.rounds):
        for name, url in urls.items():
            figures[name].append(_wrk(operation, url, options))
    return figures


def _wrk(operation: str, url: str, options: argparse.Namespace) -> tuple[float, float]:
    """Requests a second, and the 99th percentile of the latency in milliseconds."""
    run = subprocess.run(  # noqa: S603 -- our own arguments
        [
            *("wrk", "-t1", f"-c{options.connections}", f"-d{options.seconds}s", "-s", str(SCRIPT), url),
            *("--", operation, str(options.keys)),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    rate, p99, refused = next(
        line.split()[1:] for line in run.stdout.splitlines() if line.startswith("RESULT")
    )
    if int(refused):
        raise SystemExit(f"{operation} at {url}: {refused} answers were not 200")
    return float(rate), float(p99) / 1000


def _report(operation: str, peers: list[Peer], figures: dict[str, list[tuple[float, float]]]) -> None:
    ours = statistics.median(rate for rate, _ in figures["foldb"])
    for peer in peers:
        rate = statistics.median(rate for rate, _ in figures[peer.name])
        p99 = statistics.median(p99 for _, p99 in figures[peer.name])
        ratio = "" if peer.name == "foldb" else f"   foldb is at {ours / rate:5.2f}"
        print(f"{operation:7} {peer.name:20} {rate:9,.0f}/s   p99 {p99:6.2f} ms{ratio}")
    print()


if __name__ == "__main__":
    main()
