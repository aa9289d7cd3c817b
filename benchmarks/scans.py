"""Measure the latency of gets beside scanning clients.

The items are small, so a page of 1 MB has tens of thousands. The scanners read pages without a pause and decode
nothing, so that the server has the processor.
"""

import statistics
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from foldb.log.commands import Put
from foldb.model.limits import MODERN
from foldb.model.values import check_item, dump

from . import load, logs
from .options import Options
from .peers import FOLDB, Running, running, temporary_folder
from .requests import PER_COLLECTION, orders
from .tables import at_most, show

SCANNERS = 4
GOAL = 5
_CONNECTIONS = (1, 8)


def measure(options: Options) -> None:
    """Print the median latency of gets, alone and beside scanners."""
    keys = options.items // PER_COLLECTION
    with temporary_folder() as folder:
        logs.write(folder, _small_items(keys), options.port)
        with running(FOLDB, options.port, folder) as server:
            rows = [
                _row(server, scan, connections, keys, options)
                for connections in _CONNECTIONS
                for scan in ("scan", "filter")
            ]
    columns = ["p50 of gets in ms", "connections", "alone", f"beside {SCANNERS} scanners", "ratio", "pages/s"]
    show(f"gets beside scans of {options.items:,} small items", columns, rows)


def _small_items(keys: int) -> Iterator[Put]:
    for pk, sk in orders(keys):
        value = {"pk": {"S": pk}, "sk": {"S": sk}}
        yield Put(
            logs.FIRST_TABLE, pk.encode(), sk.encode(), dump(value), check_item(value, MODERN), logs.CONTEXT
        )


def _row(server: Running, scan: str, connections: int, keys: int, options: Options) -> list[str]:
    alone, beside, pages = [], [], []
    for _ in range(options.rounds):
        alone.append(_gets(server, connections, keys, options.seconds).p50)
        with ThreadPoolExecutor(1) as pool:
            scanning = pool.submit(
                load.rate, server.url, scan, keys=keys, seconds=options.seconds + 1, connections=SCANNERS
            )
            beside.append(_gets(server, connections, keys, options.seconds).p50)
            pages.append(scanning.result().requests)
    before, after = statistics.median(alone), statistics.median(beside)
    name = {"scan": "Scan", "filter": "Scan with a filter"}[scan]
    ratio = at_most(after / before, GOAL)
    return [name, str(connections), f"{before:.2f}", f"{after:.2f}", ratio, f"{statistics.median(pages):.1f}"]


def _gets(server: Running, connections: int, keys: int, seconds: int) -> load.Rate:
    return load.rate(server.url, "get", keys=keys, seconds=seconds, connections=connections)
