"""Every request is answered, and a refold of the log gives the tables.

Each seed sends thousands of requests over a few connections at a time: unusual ones, and spoiled ones. A request may be
refused. It must not get a 5xx or an undocumented answer, remain without an answer, or break the fold: an exception in
the fold stops the database. In the end the log is refolded, and must give the digest of the live state; every index
must match its table.

A failing seed is in the test's name. FOLDB_SOAK=1 sends more, and with more seeds.
"""

import os
import random
import time
from pathlib import Path
from typing import Any

import pytest

import foldb
from foldb.model.limits import MODERN
from foldb.server.api.operations import OPERATIONS
from foldb.server.api.operations.streams import STREAMS
from tests.support.raw import ask
from tests.verification.hostile.any_request import Requests
from tests.verification.hostile.judge import (
    SECONDS_MAX,
    Connection,
    check,
    check_refold,
    documented,
)
from tests.verification.hostile.mutation import spoil, spoil_bytes, written
from tests.verification.hostile.samples import STREAMS_API, make_buckets

SOAK = bool(os.environ.get("FOLDB_SOAK"))
pytestmark = [pytest.mark.soak] if SOAK else []
SEEDS = range(24 if SOAK else 2)
BURSTS = 2500 if SOAK else 120
CONNECTIONS = 6


def drawn(dice: random.Random, requests: Requests, earlier: list[Any]) -> tuple[str, bytes]:
    """Return a request, perhaps mutated; not one that is refused for its size, which closes the connection."""
    operation, body = requests.one()
    earlier[dice.randrange(len(earlier))] = body
    if dice.random() < 0.4:
        for _ in range(dice.choice([1, 1, 2, 3])):
            body = spoil(dice, body, earlier)
    data = written(dice, body)
    if dice.random() < 0.05:
        data = spoil_bytes(dice, data)
    return (operation, data) if len(data) <= MODERN.body_bytes else drawn(dice, requests, earlier)


@pytest.mark.guarantee("G48")
@pytest.mark.spec("H2", "X11")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("delay_ms", [0, 3])
@pytest.mark.parametrize("limits", ["modern", "2012"])
def test_no_request_breaks_the_server_or_the_log(
    tmp_path: Path, seed: int, delay_ms: int, limits: str
) -> None:
    dice = random.Random(f"{seed} {delay_ms} {limits}")
    requests, allowed = Requests(dice), documented()
    earlier: list[Any] = [{}] * 50
    settings: dict[str, Any] = {
        "limits": limits,
        "table_delay_ms": delay_ms,
        "fsync": "never",
        "ttl_interval_ms": 50,
        "buckets": make_buckets(tmp_path / "other"),
    }
    with foldb.serve(tmp_path / "db", **settings) as server:
        connections = [Connection(server.endpoint_url) for _ in range(CONNECTIONS)]
        for _ in range(BURSTS):
            sent = [(connection, *drawn(dice, requests, earlier)) for connection in connections]
            start = time.monotonic()
            for connection, operation, data in sent:
                connection.send(operation, data)
            for connection, operation, data in sent:
                try:
                    status, answer = connection.answer()
                    check(operation, status, answer, allowed)
                    requests.learn(answer)
                except Exception as error:
                    error.add_note(f"{operation} {data[:4000].decode(errors='replace')}")
                    raise
            assert time.monotonic() - start < SECONDS_MAX
        for connection in connections:
            connection.close()
        live = ask(server.endpoint_url, "Foldb_20261121.Digest", {}).body

    check_refold(tmp_path / "db", live)


def test_every_operation_is_drawn() -> None:
    every = {*OPERATIONS, *(STREAMS_API + name for name in STREAMS)}

    assert every == Requests(random.Random(0)).operations.keys()
