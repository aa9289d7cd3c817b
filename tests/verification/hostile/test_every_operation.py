"""Every member of every operation's request, replaced: by another type, nothing, too much, too deep a value.

Each member of a successful request is spoiled in each way, and then two members at once. Each answer is a success or a
documented error, short and without details of the process. The memory of the process does not grow, and a refold of its
log gives its tables. FOLDB_SOAK=1 sends a hundred thousand, `make test` a sample of them.
"""

import json
import os
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from foldb.model.limits import MODERN
from foldb.server.api.admin import ADMIN
from foldb.server.api.operations import OPERATIONS
from foldb.server.api.operations.streams import STREAMS
from tests.support.raw import ask
from tests.support.served import served
from tests.verification import reliability
from tests.verification.hostile.judge import Connection, check, check_refold, documented
from tests.verification.hostile.mutation import copied, places, spoil
from tests.verification.hostile.samples import (
    ADMIN_API,
    CREATE,
    MADE,
    ON_TABLE,
    SAMPLES,
    STREAMS_API,
    Told,
    make_buckets,
)

SOAK = bool(os.environ.get("FOLDB_SOAK"))
pytestmark = [pytest.mark.soak] if SOAK else []
REQUESTS = 100_000 if SOAK else 3_000
CONNECTIONS = 4
EACH_FRESH = 40  # requests after which the table is made again, if it is gone
GROWTH_KIB_MAX = 64 * 1024

ABSENT = object()
TWICE = object()  # the member is duplicated, which only bytes can express


def deep(levels: int, inner: Any) -> Any:
    for _ in range(levels):
        inner = {"M": {"a": inner}}
    return inner


INSTEAD: list[Any] = [
    *(ABSENT, TWICE, None, True, False, 0, -1, 1, 1.5, 2**31, 2**63, 2**64, 10**40, 1e308, "", "a", "abc"),
    *(
        [],
        {},
        [None],
        {"": None},
        [[]],
        {"a": {"b": []}},
        "1",
        "NaN",
        "-",
        "1E+126",
        "9" * 39,
        "\uff11\uff12",
    ),
    *(
        "\u0000",
        "\ufeff",
        "é",
        "😀",
        "e\u0301",
        "x" * 256,
        "x" * 1025,
        "x" * 2049,
        "x" * 70_000,
        "x" * 70_000 + "!",
    ),
    *(["a"] * 30, ["a"] * 101, [{}] * 26, {f"n{number}": "a" for number in range(120)}),
    *(
        {"S": "a"},
        {"N": "1"},
        {"B": "AQ=="},
        {"S": 1},
        {"N": 1},
        {"SS": []},
        {"NS": ["1", "1.0"]},
        {"M": None},
    ),
    *(deep(31, {"S": "a"}), deep(32, {"S": "a"}), deep(80, {}), deep(250, []), {"L": [{"L": [{}]}]}),
    *("a = :v", "SET a = :v", "((a = :v))", "a" + "[0]" * 40, "NOT " * 120 + "a = b", "#b", ":v", "a,a.b"),
]


def spoiled() -> Iterator[tuple[str, bytes]]:
    """Every place of every sample, in every way."""
    for operation, body in SAMPLES:
        for nth in range(len(list(places(body)))):
            for instead in INSTEAD:
                yield operation, put(copied(body), nth, instead)
        for instead in INSTEAD:
            if instead not in (ABSENT, TWICE):
                yield operation, json.dumps(instead).encode()


def put(body: Any, nth: int, instead: Any) -> bytes:
    """The bytes of a body whose nth place has something else in it."""
    holder, place = list(places(body))[nth]
    if instead is TWICE:
        there = json.dumps(holder[place])
        holder[place] = "TWICE"
        name = json.dumps(place) + ": " if isinstance(holder, dict) else ""
        return json.dumps(body).replace('"TWICE"', f"{there}, {name}{there}", 1).encode()
    if instead is ABSENT:
        del holder[place]
    else:
        holder[place] = instead
    return json.dumps(body).encode()


def spoiled_twice(dice: random.Random) -> tuple[str, bytes]:
    """Two places at once, by chance; not a body that is refused for its size, which closes the connection."""
    operation, body = dice.choice(SAMPLES)
    for _ in range(2):
        body = spoil(dice, body, [other for _, other in SAMPLES])
    data = json.dumps(body).encode()
    return (operation, data) if len(data) < MODERN.body_bytes else spoiled_twice(dice)


@pytest.mark.guarantee("G48", "SEC15")
@pytest.mark.parametrize("seed", [0])
def test_no_member_of_any_request_breaks_the_server(tmp_path: Path, seed: int) -> None:
    dice, allowed, answered = random.Random(seed), documented(), Counter[str]()
    every = list(spoiled())
    chosen = every if len(every) <= REQUESTS else dice.sample(every, REQUESTS * 3 // 4)
    chosen += [spoiled_twice(dice) for _ in range(REQUESTS - len(chosen))]
    dice.shuffle(chosen)
    buckets = make_buckets(tmp_path / "other")
    with served(tmp_path / "db", "--fsync", "never", "--buckets", str(buckets)) as url:
        connections = [Connection(url) for _ in range(CONNECTIONS)]
        reported = prepare(connections[0], allowed)
        before = None
        for at in range(0, len(chosen), CONNECTIONS):
            sent = list(zip(connections, chosen[at : at + CONNECTIONS], strict=False))
            for connection, (operation, data) in sent:
                connection.send(operation, reported.fill(data))
            for connection, (operation, data) in sent:
                try:
                    status, body = connection.answer()
                    check(operation, status, body, allowed)
                except Exception as error:
                    error.add_note(f"{operation} {data[:4000].decode(errors='replace')}")
                    raise
                answered[f"{operation} {status}"] += 1
            if at % EACH_FRESH == 0:
                reported = prepare(connections[0], allowed)
            if before is None and at > 500:
                before = resident_kib(tmp_path / "db")
        remove_tables(url)
        assert before is not None
        growth = resident_kib(tmp_path / "db") - before
        for connection in connections:
            connection.close()
        live = ask(url, f"{ADMIN_API}Digest", {}).body

    check_refold(tmp_path / "db", live)
    assert growth < GROWTH_KIB_MAX
    reliability.record(test="mutated requests", seeds=str(seed), checked=len(chosen), faults=answered)


def prepare(connection: Connection, allowed: dict[str, set[str]]) -> Told:
    """Create the objects that the samples use, if they are missing."""

    def ask(operation: str, body: dict[str, Any]) -> Any:
        connection.send(operation, json.dumps(body).encode())
        status, answer = connection.answer()
        check(operation, status, answer, allowed)
        return answer

    if "Table" in (known := ask("DescribeTable", ON_TABLE)) and "LatestStreamArn" not in known["Table"]:
        ask("UpdateTable", {**ON_TABLE, "StreamSpecification": CREATE["StreamSpecification"]})
    for operation, body in MADE:
        ask(operation, body)
    return Told(ask)


def remove_tables(url: str) -> None:
    while names := ask(url, "ListTables", {}).body["TableNames"]:
        for name in names:
            ask(url, "UpdateTable", {"TableName": name, "DeletionProtectionEnabled": False})
            assert 200 == ask(url, "DeleteTable", {"TableName": name}).status


def resident_kib(folder: Path) -> int:
    """Return the resident memory of the process that serves a folder."""
    pid = orjson.loads((folder / "server.json").read_bytes())["pid"]
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        pytest.skip("no /proc on this platform: a process's memory is not looked up")
    match = re.search(r"VmRSS:\s+(\d+) kB", status.read_text())
    assert match is not None
    return int(match[1])


def test_every_operation_has_a_sample() -> None:
    every = {*OPERATIONS, *(STREAMS_API + name for name in STREAMS), *(ADMIN_API + name for name in ADMIN)}

    assert every == {name for name, _ in SAMPLES}
