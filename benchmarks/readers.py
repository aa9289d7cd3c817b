"""Count the instructions that readers of a stream, and a trigger, add to a put.

Thirty-two connections send a put each, and wait until all are answered. Each put changes its item. Readers pace
themselves by puts and not by time, because a server takes fifty times as long under valgrind: each reader polls once
in 4,000 puts, one reader after another. That is four polls a second at 16,000 puts a second, as Lambda polls a shard;
the Kinesis Client Library polls once a second. A poll reads pages until one is not full. A reader that polled without
a pause would read more often the less a read costs, so the figure would not fall. The pauses before the reads and
the checkpoints of a trigger are 200 times as long, so its calls have full batches however slow the machine is.
PYTHONPATH selects another build:

    PYTHONPATH=build/compiled python -m benchmarks readers-instructions
"""

import socket
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from foldb.version import build

from .cpu import CONNECTIONS, request
from .feed import FULL, VARIANTS, Reader, Served, Variant, served
from .instructions import answer, count, require_valgrind, under_valgrind
from .options import Options
from .peers import Peer
from .requests import item, orders
from .tables import at_most, show

_PUTS = 4_000
_SERVE = """
import sys
from foldb.streams.delivery import checkpoints
from foldb.streams.feed import long_poll
checkpoints.CHECKPOINT_S *= 200
long_poll.PAUSE_S *= 200
long_poll.LOADED_PAUSE_S *= 200
long_poll.LOADED_RATE /= 200
from foldb.cli import run
sys.argv[0] = "foldb"
run()
"""


def measure(options: Options) -> None:
    """Print the instructions of a put with and without readers."""
    require_valgrind()
    variants = [each for each in VARIANTS if not each.is_burning and each.function != "stuck"]
    costs = {}
    for place, variant in enumerate(variants):
        with served(replace(options, port=options.port + place), filled=False, wrapped=_slowed) as server:
            costs[variant] = _cost(server, variant, min(_PUTS, 2 * options.keys), options.keys)
    alone = costs[variants[0]]
    rows = []
    for variant, cost in costs.items():
        ratio = cost / alone
        shown = "" if variant.goal is None else at_most(ratio, variant.goal)
        rows.append([variant.name, f"{cost:,.0f}", shown])
    show(f"readers, {CONNECTIONS} connections, {build()} build", ["", "instructions a put", "ratio"], rows)


def _slowed(peer: Peer, folder: Path) -> Peer:
    """Return a peer whose instructions are counted, and whose pauses are longer."""

    def command(port: int, data: Path) -> list[str]:
        words = peer.command(port, data)
        return [sys.executable, "-c", _SERVE, *words[words.index("serve") :]]

    return under_valgrind(Peer(peer.name, command), folder)


def _cost(server: Served, variant: Variant, puts: int, keys: int) -> float:
    """Return the instructions of a put, and of what reads its change."""
    if variant.function is not None:
        server.subscribe(variant.function, variant.function)
    with ExitStack() as stack:
        address = "127.0.0.1", int(server.running.url.rpartition(":")[2])
        sockets = [stack.enter_context(socket.create_connection(address)) for _ in range(CONNECTIONS)]
        readers = [Reader(server, "LATEST") for _ in range(variant.readers)]
        _put(sockets, readers, range(puts), keys)
        server.wait_for_triggers()
        count(server.running, server.folder)
        _put(sockets, readers, range(puts, 2 * puts), keys)
        server.wait_for_triggers()
        return count(server.running, server.folder) / puts


def _put(sockets: list[socket.socket], readers: list[Reader], numbers: range, keys: int) -> None:
    """Put items that change, and let each reader poll once, at equal distances."""
    names = list(orders(keys))
    for start in range(0, len(numbers), CONNECTIONS):
        made = [
            item(*names[number * 7919 % len(names)]) | {"count": {"N": str(number)}}
            for number in numbers[start : start + CONNECTIONS]
        ]
        answer(sockets, [request("PutItem", {"TableName": "orders", "Item": each}) for each in made])
        for place, reader in enumerate(readers):
            due = len(numbers) * (place + 1) // len(readers)
            if start < due <= start + len(made):
                while reader.page() == FULL:
                    pass
