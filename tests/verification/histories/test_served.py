"""A server that dies under sixteen clients, whose answers are checked; and faulty servers, which are detected.

The requests and their concurrency are random. A rejected history names the key, and the operations in their order.
"""

import os
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.served import Process
from tests.verification import reliability
from tests.verification.crash.power import PowerDisk, lose_power
from tests.verification.crash.programs import without_sync
from tests.verification.histories import Clients, History, ViolationError, check, create
from tests.verification.histories.linearizable import linearizable
from tests.verification.histories.serializable import serializable
from tests.verification.histories.simulated import mutated
from tests.verification.histories.witness import witness

SOAK = bool(os.environ.get("FOLDB_SOAK"))
pytestmark = [pytest.mark.soak] if SOAK else []
SEEDS = range(25 if SOAK else 1)
RUNS, ANSWERS = (10, 4200) if SOAK else (2, 4000)
CUT_SEEDS = range(10 if SOAK else 1)
CUTS, ANSWERS_BEFORE_CUT = (20, 500) if SOAK else (3, 400)


@pytest.mark.guarantee("G21", "G23")
@pytest.mark.parametrize("seed", SEEDS)
def test_answers_are_consistent_under_kill_9(tmp_path: Path, seed: int) -> None:
    """A checker that accepts the history rejects it with one answer changed to a value that was never written."""
    history = History()
    for run in range(RUNS):
        with Process(tmp_path) as server, asked(history, server, run, seed, ANSWERS):
            server.kill()

    judged(history, "kill -9", RUNS, seed)
    assert history.counts()["transactions"] >= RUNS * ANSWERS // 10
    for judge in (witness, linearizable):
        with pytest.raises(ViolationError):
            judge(mutated(history, random.Random(seed)))


@pytest.mark.guarantee("G21")
@pytest.mark.parametrize("seed", CUT_SEEDS)
def test_answers_are_consistent_under_power_cuts(tmp_path: Path, seed: int) -> None:
    history = History()
    with PowerDisk(tmp_path) as disk:
        for run in range(CUTS):
            with Process(disk.folder) as server, asked(history, server, run, seed, ANSWERS_BEFORE_CUT):
                lose_power(server, disk)
            disk.restore()

    judged(history, "power cut", CUTS, seed)


def test_a_server_that_does_not_sync_is_wrong_after_a_power_cut(tmp_path: Path) -> None:
    history = History()
    with PowerDisk(tmp_path) as disk:
        with Process(disk.folder) as server:
            create(server.url)
            server.terminate()
        unsynced = Process(disk.folder, program=without_sync())
        with unsynced as server, Clients(history, server.url, keys=10) as clients:
            clients.wait_for(500)
            lose_power(server, disk)
        disk.restore()
        with Process(disk.folder) as server, Clients(history, server.url, run=1, keys=10) as clients:
            clients.wait_for(500)

    for judge in (witness, linearizable, serializable):
        with pytest.raises(ViolationError):
            judge(history)


Judge = Callable[[History], None]

# The fault at every fifth request of an operation, and the checkers that must find it.
WRONG: dict[str, tuple[str, str, tuple[Judge, ...]]] = {
    "acknowledges what it does not do": (
        "PutItem",
        "import dataclasses; return reply.ok(b'{}', dataclasses.replace(node.position, index=1023))",
        (witness, linearizable),
    ),
    "does not look at a condition": (
        "PutItem",
        "body.pop('ConditionExpression', None), body.pop('ExpressionAttributeValues', None)",
        (witness, linearizable),
    ),
    "appends to the first list of a transaction alone": (
        "TransactWriteItems",
        "halve(body)",
        (witness, linearizable, serializable),
    ),
    "refuses a transaction and does it": (
        "TransactWriteItems",
        "reply.error(ThrottlingError('')); reply = Reply(Nobody(), reply.request_id, b'', None)",
        (witness, linearizable, serializable),
    ),
    "reads an item as it was": (
        "GetItem",
        "reply = Stale(reply, body, lambda old, new: old)",
        (witness, linearizable),
    ),
    "reads one item of a transaction as it was": (
        "TransactGetItems",
        "reply = Stale(reply, body, lambda old, new: {'Responses': old['Responses'][:1] + new['Responses'][1:]})",
        (witness, linearizable, serializable),
    ),
}


@pytest.mark.interpreted
@pytest.mark.parametrize("what", WRONG)
def test_a_server_is_caught_that(tmp_path: Path, what: str) -> None:
    operation, instead, judges = WRONG[what]
    history = History()
    with Process(tmp_path, program=wrong_server(operation, instead)) as server:
        create(server.url)
        with Clients(history, server.url, keys=20, transactions=0.5) as clients:
            clients.wait_for(2000)

    for judge in judges:
        with pytest.raises(ViolationError):
            judge(history)


@contextmanager
def asked(history: History, server: Process, run: int, seed: int, answers: int) -> Iterator[None]:
    """Wait for a number of answers; the block kills the server."""
    if run == 0:
        create(server.url)
    with Clients(history, server.url, run=run, seed=seed) as clients:
        clients.wait_for(answers)
        yield
        clients.join()


def judged(history: History, fault: str, faults: int, seed: int) -> None:
    """Check a history, and record it in the ledger of long runs."""
    counts = history.counts()
    failures = 1
    try:
        check(history)
        failures = 0
    finally:
        for checked in ("operations", "transactions"):
            reliability.record(
                test=f"{checked} under {fault}: linearizable, serializable",
                seeds=str(seed),
                cycles=faults,
                faults={fault: faults},
                acknowledged=counts["acknowledged"],
                checked=counts[checked],
                failures=failures,
            )


def wrong_server(operation: str, instead: str) -> list[str]:
    """Return the command of a foldb that is wrong at every fifth request of an operation."""
    program = f"""
import json
from itertools import count
from foldb.model.errors import ThrottlingError
from foldb.server.api import dispatch
from foldb.server.api.reply import Reply

class Nobody:
    def answer(self, *arguments): pass

class Stale:
    first = {{}}
    def __init__(self, reply, body, mixed):
        self.reply, self.key, self.mixed = reply, str(body), mixed
    def ok(self, data, position=None):
        new = json.loads(data)
        old = self.first.setdefault(self.key, new)
        self.reply.ok(json.dumps(self.mixed(old, new)).encode(), position)
    def __getattr__(self, name):
        return getattr(self.reply, name)

def halve(body):
    for action in body["TransactItems"][1:]:
        values = action.get("Update", {{}}).get("ExpressionAttributeValues", {{}})
        values |= {{name: {{"L": []}} for name in values if name == ":one"}}

turns = count(1)
name, handler, *others = dispatch._first_route(b"DynamoDB_20120810.{operation}")

def wrong(node, body, reply):
    if next(turns) % 5 == 0:
        {instead}
    handler(node, body, reply)

dispatch._ROUTES[b"DynamoDB_20120810.{operation}"] = name, wrong, *others
from foldb.cli.main import run
run()
"""
    return [sys.executable, "-c", program]
