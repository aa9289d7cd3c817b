"""Measure the pages of one collection of a million items."""

import time
from typing import Any

from . import logs
from .options import Options
from .peers import FOLDB, running, temporary_folder
from .requests import Client
from .tables import at_most, show

GOAL = 1.2
_REPEATS = 15


def measure(options: Options) -> None:
    """Print the cost of the first and the last page, which should be equal, and the time to read all."""
    with temporary_folder() as folder:
        keys = (("all", f"{number:08}") for number in range(options.items))
        logs.write(folder, logs.puts(keys), options.port)
        with running(FOLDB, options.port, folder) as server, Client(server.url) as client:
            _page_through(client, options.items)


def _page_through(client: Client, items: int) -> None:
    request: dict[str, Any] = {
        "TableName": "orders",
        "KeyConditionExpression": "pk = :p",
        "ExpressionAttributeValues": {":p": {"S": "all"}},
    }
    seen, pages, start = 0, 0, time.perf_counter()
    starts: list[dict[str, Any]] = [{}]
    while True:
        page = client.call("Query", request | starts[-1])
        seen, pages = seen + page["Count"], pages + 1
        if "LastEvaluatedKey" not in page:
            break
        starts.append({"ExclusiveStartKey": page["LastEvaluatedKey"]})
    seconds = time.perf_counter() - start
    if seen != items:
        raise SystemExit(f"paging: saw {seen} of {items} items")
    # The last page may be short: the one before it is as full as the first.
    full = starts[-2] if len(starts) > 2 else starts[0]
    rows = []
    for name, limit in (("of 1 MB", {}), ("of 100 items", {"Limit": 100})):
        # The shortest of responses that took turns, because other programs slow some of them.
        taken = [
            [client.seconds("Query", request | place | limit) for place in (starts[0], full)]
            for _ in range(_REPEATS)
        ]
        first, last = (1000 * min(times) for times in zip(*taken, strict=True))
        ratio = max(first, last) / min(first, last)
        rows.append([f"a page {name}", f"{first:.2f} ms", f"{last:.2f} ms", at_most(ratio, GOAL)])
    show(f"a collection of {items:,} items", ["", "first", "last", "ratio"], rows)
    print(
        f"\n{pages:,} pages in {seconds:.1f} s, {seen / seconds:,.0f} items/s, the client's reading included"
    )
