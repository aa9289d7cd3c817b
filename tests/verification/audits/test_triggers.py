"""Triggers under kill -9: no change is lost, none below a checkpoint is repeated, keys keep their order."""

import os
import random
from pathlib import Path
from typing import Any

import pytest

from foldb.log.local import LocalLog
from tests.support.failing_servers import Addresses
from tests.support.raw import ask
from tests.support.served import Process
from tests.support.subscribed import operate, settle, subscribe
from tests.verification.audits.deliveries import Checkpoints, Recorder, checkpoint_in_log, judge_calls
from tests.verification.audits.judge import Seen, Shards
from tests.verification.audits.ledger import TABLE, Ledger, item_of
from tests.verification.audits.refolded import all_changes, by_partition, refolded
from tests.verification.audits.writers import Writers, create, expired
from tests.verification.reliability import record

SOAK = bool(os.environ.get("FOLDB_SOAK"))
SEEDS = range(4 if SOAK else 1)
KILLS, CALLS, WRITERS = (50, 400, 2) if SOAK else (2, 120, 2)
LAYOUT = ("--partitions", "2", "--ttl-interval", "50ms")
NAME = "recorder"
LIVES = 3 if SOAK else 2
WORKERS = 8 if SOAK else 4  # each is a process that every start starts again
FIRST_TABLE = 1  # the other table has the dead letters
QUICK = {"First": "0.01", "Most": "0.05"}
pytestmark = [pytest.mark.soak] if SOAK else []


@pytest.mark.guarantee("G39")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.spec("T6", "T7")
def test_a_trigger_repeats_only_changes_beyond_a_checkpoint(seed: int, tmp_path: Path) -> None:
    """Some calls fail at random and are retried; the server is killed after every few calls."""
    dice, ledger, checkpoints = random.Random(seed), Ledger(), list[tuple[int, Checkpoints]]()
    recorder, folder, failures = Recorder(tmp_path, fails=0.03), tmp_path / "data", 1
    try:
        for kill in range(KILLS + 1):
            checkpoints += checkpoint(recorder, folder) if kill else []
            with Process(folder, *LAYOUT, *recorder.options) as server:
                if kill == 0:
                    begin(server.url, recorder)
                with Writers(
                    ledger, Addresses([server.url]), run=kill, writers=WRITERS, seed=seed
                ) as writers:
                    writers.wait_for(20)
                    enough = recorder.count() + dice.randrange(1, CALLS)
                    recorder.wait_for(enough)
                    if kill < KILLS:
                        server.kill()
                if kill == KILLS:
                    expired(server.url)
                    settle(server.url, 300)
                    server.terminate()
        found = judge_calls(recorder.calls(), by_partition(refolded(folder, only=FIRST_TABLE)), checkpoints)
        assert {} == found.counts, found
        failures = 0
    finally:
        record(
            test="triggers: kill -9 during delivery, 8 workers",
            seeds=str(seed),
            cycles=KILLS,
            faults={"kill": KILLS},
            acknowledged=ledger.changes(),
            checked=recorder.count(),
            failures=failures,
        )


@pytest.mark.guarantee("G42")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.spec("F20")
def test_poison_is_isolated_with_later_changes_of_its_key(seed: int, tmp_path: Path) -> None:
    """
    The server is killed during the calls. At the end the dead letters are exactly the failing changes and the later
    changes of their keys; every other change was handled, in the order of its key.
    """
    dice, recorder, folder = random.Random(seed), Recorder(tmp_path), tmp_path / "data"
    checkpoints: list[tuple[int, Checkpoints]] = []
    keys = [f"key {n}" for n in range(40)]
    poisoned = set(dice.sample(keys, 6))
    for kill in range(LIVES):
        checkpoints += checkpoint(recorder, folder) if kill else []
        with Process(folder, *LAYOUT, *recorder.options) as server:
            if kill == 0:
                begin(server.url, recorder, MaximumRetryAttempts=2)
                for version in range(1, 6):
                    for key in keys:
                        poison = {"poison": {"BOOL": True}} if key in poisoned and version == 3 else {}
                        put(server.url, item_of(key, version) | poison)
            enough = min(recorder.count() + dice.randrange(1, 40), 100)
            if kill < LIVES - 1:
                recorder.wait_for(enough)
                server.kill()
            else:
                settle(server.url)
                dead_letters = {
                    (reported["keys"]["pk"]["S"], int(reported["number"]))
                    for reported in dead_letters_of(server.url)
                }
                server.terminate()
    truth = in_log(folder)
    keyed = {
        key: [change.number for changes in truth.values() for change in changes if change.key == key]
        for key in keys
    }
    dead = {(key, number) for key in poisoned for number in keyed[key][2:]}
    found = judge_calls(recorder.calls(), truth, checkpoints, dead_letters)

    assert dead_letters == dead
    assert {} == found.counts, found
    failed = {(call.key, call.number) for call in recorder.calls() if not call.done}
    assert failed == {(key, keyed[key][2]) for key in poisoned}


@pytest.mark.guarantee("G47")
@pytest.mark.spec("T15")
def test_a_stuck_trigger_does_not_slow_writes(tmp_path: Path) -> None:
    """All writes are acknowledged while the trigger hangs; later it handles all of them."""
    recorder, ledger = Recorder(tmp_path), Ledger()
    recorder.gate.touch()
    with Process(tmp_path / "data", *LAYOUT, *recorder.options) as server:
        begin(server.url, recorder)
        with Writers(ledger, Addresses([server.url]), writers=4) as writers:
            writers.wait_for(600)
        assert 0 == recorder.count()
        recorder.gate.unlink()
        expired(server.url)
        settle(server.url)
        server.terminate()
    found = judge_calls(recorder.calls(), by_partition(refolded(tmp_path / "data", only=FIRST_TABLE)))

    assert {} == found.counts, found


def begin(url: str, recorder: Recorder, **settings: Any) -> None:
    """Create the table and the subscription."""
    create(url, stream=False)
    subscribe(
        url,
        NAME,
        TABLE,
        recorder.sink,
        ParallelizationFactor=WORKERS,
        BatchSize=10,
        Backoff=QUICK,
        **settings,
    )


def checkpoint(recorder: Recorder, folder: Path) -> list[tuple[int, Checkpoints]]:
    """Return the number of calls, and the checkpoint in the log while no server runs."""
    return [(recorder.count(), checkpoint_in_log(folder, NAME))]


def put(url: str, item: dict[str, Any]) -> None:
    """Put an item into the audited table."""
    answer = ask(url, "PutItem", {"TableName": TABLE, "Item": item})
    assert answer.status == 200, answer.data


def dead_letters_of(url: str) -> list[dict[str, Any]]:
    """Return the changes of all dead letters."""
    reported = operate(url, "ListDeadLetters", Name=NAME, Limit=1000)
    return [letter["Change"] for letter in reported["DeadLetters"]]


def in_log(folder: Path) -> Shards:
    """Return the changes of each partition; only their sequence numbers matter, the items are not in the ledger."""
    log = LocalLog.open_reader(folder)
    return {
        f"{partition:04x}": [
            Seen(change.sequence_number, change.pk.decode(), 0, 0)
            for change in all_changes(log.read(partition))
            if change.table == FIRST_TABLE
        ]
        for partition in range(log.partitions)
    }
