"""The feed under kill -9: the changes that readers see from beginning to end agree with the writers' ledger.

Writers and readers of every habit use a server that is killed repeatedly, with shards of one or two seconds. At the end
the stream is disabled, so its shards close, and all readers read to their ends. Then the server starts again with its
files, and once more without the feed's files and snapshots: sequence numbers and images stay the same, and agree with
the log.
"""

import os
import random
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.failing_servers import Addresses
from tests.support.raw import ask
from tests.support.served import Process
from tests.support.subscribed import until
from tests.verification.audits.judge import Shards, judge, pieces_not_of
from tests.verification.audits.ledger import TABLE, Ledger
from tests.verification.audits.readers import FORGETFUL, SLOW, STEADY, Glimpses, Reader
from tests.verification.audits.refolded import by_partition, refolded
from tests.verification.audits.writers import Writers, create, expired
from tests.verification.reliability import record

SOAK = bool(os.environ.get("FOLDB_SOAK"))
SEEDS = range(2 if SOAK else 1)
CYCLES, WRITES, WRITERS, BATCHES = (25, 1500, 6, 12) if SOAK else (2, 200, 4, 1)
LAYOUTS = [("--partitions", "1"), ("--partitions", "3")] if SOAK else [("--partitions", "2")]
# Short shards and segments, and starts from a snapshot with the rest of the log to fold.
OFTEN = (
    ["--shard-age", "8s", "--snapshot-every", "20000"]
    if SOAK
    else ["--shard-age", "800ms", "--snapshot-every", "1500"]
)
OPTIONS = [*OFTEN, "--segment-bytes", "300000", "--ttl-interval", "50ms"]
# Without the files of the feed, and in a long run with them too: each kill leads to such a start.
STARTS = [["changes", "snapshots"], []] if SOAK else [["changes", "snapshots"]]
PATIENCE_S = 600 if SOAK else 40
pytestmark = [pytest.mark.soak] if SOAK else []


@pytest.mark.guarantee("G35")
@pytest.mark.parametrize("layout", LAYOUTS, ids=" ".join)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.spec("F3")
def test_kills_keep_every_change_once_and_in_order(seed: int, layout: Sequence[str], tmp_path: Path) -> None:
    ledger, failures, count = Ledger(), 1, 0
    try:
        whole, arn = suffer(seed, tmp_path, ledger, [*layout, *OPTIONS])
        count = sum(map(len, whole.values()))
        for gone in STARTS:
            for name in gone:
                shutil.rmtree(tmp_path / name, ignore_errors=True)
            assert whole == again(tmp_path, arn, [*layout, *OPTIONS]), f"after a start without {gone}"
        assert by_partition(whole) == by_partition(refolded(tmp_path)), "what the log folds to"
        failures = 0
    finally:
        record(
            test="feed: kill -9, readers of every habit",
            seeds=f"{seed}, {' '.join(layout)}",
            cycles=CYCLES,
            faults={"kill": CYCLES},
            acknowledged=ledger.changes(),
            checked=count,
            failures=failures,
        )


def suffer(seed: int, folder: Path, ledger: Ledger, options: Sequence[str]) -> tuple[Shards, str]:
    """Kill the server under load, and judge the changes that each reader saw. Return those of one, and the stream."""
    dice, addresses = random.Random(seed), Addresses()
    with ExitStack() as stack:
        server = stack.enter_context(Process(folder, *options))
        arn = create(server.url)
        addresses.urls[:] = [server.url]
        readers = [
            stack.enter_context(Reader(addresses, arn, habits, seed=place))
            for place, habits in enumerate((STEADY, FORGETFUL, SLOW))
        ]
        glimpses = Glimpses(addresses, arn, seed)
        stack.callback(glimpses.close)
        for cycle in range(CYCLES):
            with Writers(
                ledger, addresses, run=cycle, writers=WRITERS, batches=BATCHES, seed=seed
            ) as writers:
                writers.wait_for(dice.randrange(WRITES // 2, WRITES))
                for _ in range(10):
                    glimpses.look(readers[0].shards)
                addresses.urls.clear()
                server.kill()
            server = stack.enter_context(Process(folder, *options))
            addresses.urls[:] = [server.url]
        with Writers(ledger, addresses, run=CYCLES, writers=WRITERS, batches=BATCHES, seed=seed):
            # A fast machine is here before the first shards are old enough.
            until(lambda: has_rolled(readers[0].shards))
        expired(server.url)
        disable(server.url)
        for reader in readers:
            reader.join(PATIENCE_S)
        server.terminate()

    whole = readers[0].shards
    for reader in readers:
        found = judge(reader.shards, ledger)
        assert {} == found.counts, found
        assert whole == {name: reader.shards[name] for name in whole}, "two readers saw different things"
        assert readers[1].restarts, "nobody went on from a number"
    assert [] == glimpses.wrong
    assert [] == list(pieces_not_of(whole, glimpses.pieces))
    assert has_rolled(whole)
    return whole, arn


def has_rolled(shards: Shards) -> bool:
    """Return whether a partition has more than one shard."""
    return len(shards) > len(by_partition(shards))


def disable(url: str) -> None:
    """Disable the stream, which closes its last shards."""
    off = {"StreamEnabled": False}
    answer = ask(url, "UpdateTable", {"TableName": TABLE, "StreamSpecification": off})
    assert answer.status == 200, answer.data


def again(folder: Path, arn: str, options: Sequence[str]) -> Shards:
    """Return the changes of the stream from a new server, from beginning to end."""
    with Process(folder, *options) as server, Reader(Addresses([server.url]), arn) as reader:
        reader.join(PATIENCE_S)
        server.terminate()
    return reader.shards
