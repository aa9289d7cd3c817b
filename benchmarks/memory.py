"""Bytes of memory an item: of a server that has folded its log, less those of one that has nothing."""

from collections.abc import Iterable

from . import logs
from .options import Options
from .peers import FOLDB, running, temporary_folder
from .requests import PER_COLLECTION, orders
from .tables import at_most, show

GOALS = {1: 700, PER_COLLECTION: 450}
_ITEMS_MOST = 200_000


def measure(options: Options) -> None:
    """Print bytes an item, alone under its partition key and in a collection of twenty."""
    items = min(options.items, _ITEMS_MOST)
    empty = _memory(options, ())
    rows = []
    for per_key, goal in GOALS.items():
        used = _memory(options, orders(items // per_key, per_key)) - empty
        rows.append(
            ["alone" if per_key == 1 else f"in a collection of {per_key}", at_most(used / items, goal)]
        )
    show(f"memory, {items:,} items of about 200 bytes", ["", "bytes an item"], rows)


def _memory(options: Options, keys: Iterable[tuple[str, str]]) -> int:
    with temporary_folder() as folder:
        logs.write(folder, logs.puts(keys), options.port)
        with running(FOLDB, options.port, folder) as server:
            return server.memory()
