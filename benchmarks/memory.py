"""Measure bytes of memory per item: the difference between a server with N items and one with half of them.

The difference excludes the memory of the server itself, and the memory that reading the log needs temporarily.
"""

from collections.abc import Iterable

from . import logs
from .options import Options
from .peers import FOLDB, running, temporary_folder
from .requests import PER_COLLECTION, orders
from .tables import at_most, show

GOALS = {1: 700, PER_COLLECTION: 450}
_ITEMS_MOST = 400_000


def measure(options: Options) -> None:
    """Print bytes per item, for items alone under their partition key and in collections of twenty."""
    items = min(options.items, _ITEMS_MOST)
    rows = []
    for per_key, goal in GOALS.items():
        whole, half = (_memory(options, orders(count // per_key, per_key)) for count in (items, items // 2))
        each = (whole - half) / (items - items // 2)
        rows.append(["alone" if per_key == 1 else f"in a collection of {per_key}", at_most(each, goal)])
    show(f"memory, {items:,} items of about 200 bytes", ["", "bytes an item"], rows)


def _memory(options: Options, keys: Iterable[tuple[str, str]]) -> int:
    with temporary_folder() as folder:
        logs.write(folder, logs.puts(keys), options.port)
        with running(FOLDB, options.port, folder) as server:
            return server.memory()
