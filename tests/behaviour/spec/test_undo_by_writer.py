"""The undo of one writer's changes among others, with keys, through the interfaces that a user has."""

import json
import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from typer.testing import CliRunner, Result

import foldb
from foldb.cli.main import app
from foldb.model.durations import time_text
from tests.support.subscribed import until
from tests.support.tables import table_request

WRITERS = 16
ROUNDS = 12
KEYS = 40
WRONG = 10**6

TRIGGER = """\
from pathlib import Path

from foldb import Change, trigger


@trigger("Prices")
def note(change: Change) -> None:
    with (Path(__file__).parent / "seen").open("a") as file:
        new = None if change.new is None else change.new["n"]
        print(change.keys["pk"], new, change.source, change.principal, file=file)
"""


@dataclass(frozen=True)
class Pair:
    id: str
    secret: str


class Market:
    """A server with keys, and a table that all keys may write."""

    def __init__(self, folder: Path, partitions: int) -> None:
        self.keys, self.triggers = folder / "keys.toml", folder / "triggers"
        self.triggers.mkdir()
        (self.triggers / "note.py").write_text(TRIGGER)
        self.admin = self.key("--admin", "*")
        self.writers = [self.key("--write", "Prices") for _ in range(WRITERS)]
        self.server = foldb.serve(
            folder / "data", keys=self.keys, triggers=self.triggers, fsync="never", partitions=partitions
        )
        self.client(self.admin).create_table(**table_request("Prices", "pk:S"))
        recovery = {"PointInTimeRecoveryEnabled": True}
        self.client(self.admin).update_continuous_backups(
            TableName="Prices", PointInTimeRecoverySpecification=recovery
        )

    def key(self, *rights: str) -> Pair:
        made = json.loads(self._run({}, "key", "create", "--keys", str(self.keys), *rights).stdout)
        return Pair(made["AccessKeyId"], made["SecretAccessKey"])

    def client(self, pair: Pair) -> Any:
        return boto3.client(
            "dynamodb",
            **self.server.boto3,
            aws_access_key_id=pair.id,
            aws_secret_access_key=pair.secret,
        )

    def run(self, pair: Pair, *arguments: str) -> Result:
        own = {"FOLDB_ACCESS_KEY_ID": pair.id, "FOLDB_SECRET_ACCESS_KEY": pair.secret}
        return self._run(own | {"FOLDB_DB": self.server.endpoint_url}, *arguments)

    def _run(self, environment: dict[str, str], *arguments: str) -> Result:
        return CliRunner(env=environment).invoke(app, arguments, prog_name="foldb", catch_exceptions=False)

    def seen(self) -> list[list[str]]:
        """Return key, new value, source and principal of the changes that the trigger received."""
        file = self.triggers / "seen"
        return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


@pytest.fixture(params=[1, 3], ids=["one partition", "three"])
def market(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Market]:
    market = Market(tmp_path, request.param)
    with market.server:
        yield market


class Ledger:
    """The writes of each key in the order of their acknowledgements: writer and value."""

    def __init__(self) -> None:
        self.writes: dict[str, list[tuple[str, int]]] = {f"k{n}": [] for n in range(KEYS)}
        self._locks = {key: threading.Lock() for key in self.writes}

    def write(self, client: Any, writer: str, key: str, value: int) -> None:
        """Write and note it. One write of a key at a time, so that their order is known."""
        with self._locks[key]:
            client.put_item(TableName="Prices", Item={"pk": {"S": key}, "n": {"N": str(value)}})
            self.writes[key].append((writer, value))

    def present(self) -> dict[str, int]:
        """Return the items."""
        return {key: writes[-1][1] for key, writes in self.writes.items() if writes}

    def expected(self, wrong: str, begin: dict[str, int]) -> tuple[dict[str, int], set[str], set[str]]:
        """Return the items after the undo, the keys that it reverts, and those that are conflicts.

        `begin` has the number of the writes of each key before the window.
        """
        items: dict[str, int] = {}
        reverts: set[str] = set()
        conflicts: set[str] = set()
        for key, writes in self.writes.items():
            before, window = writes[: begin[key]], writes[begin[key] :]
            mine = [writer == wrong for writer, _ in window]
            kept = list(writes)
            if mine and mine[-1]:
                others = [write for write in window if write[0] != wrong]
                kept = before + others
                reverts.add(key)
            elif any(mine):
                conflicts.add(key)
            if kept:
                items[key] = kept[-1][1]
        return items, reverts, conflicts


def _write_all(market: Market, ledger: Ledger, round_seed: int, wrong: str | None) -> None:
    """Let all writers write at once; the `wrong` one writes wrong values."""

    def work(nth: int, pair: Pair) -> None:
        dice = random.Random(f"{round_seed} {nth}")
        client = market.client(pair)
        for n in range(ROUNDS):
            value = WRONG + n if pair.id == wrong else dice.randrange(1000)
            ledger.write(client, pair.id, f"k{dice.randrange(KEYS)}", value)
        client.close()

    threads = [threading.Thread(target=work, args=each) for each in enumerate(market.writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.spec("F11")
def test_the_writes_of_one_writer_are_undone_and_no_others(market: Market) -> None:
    ledger, wrong = Ledger(), market.writers[7].id
    _write_all(market, ledger, 1, None)
    begin, cut = {key: len(writes) for key, writes in ledger.writes.items()}, _cut(market)
    right = ledger.present()
    _write_all(market, ledger, 2, wrong)
    # The order of the threads decides the rest of the story; these writes give it a revert and a conflict.
    for writer, key in ((7, "k0"), (7, "k1"), (6, "k1")):
        pair = market.writers[writer]
        ledger.write(market.client(pair), pair.id, key, WRONG if pair.id == wrong else 1)
    until_wrong, present = _cut(market), ledger.present()
    items, reverts, conflicts = ledger.expected(wrong, begin)
    assert "k0" in reverts
    assert "k1" in conflicts

    differences = _differences(market, "Prices", cut, until_wrong)
    assert _changed(right, present) == differences
    assert reverts == {key for key, (_, new) in differences.items() if new is not None and new >= WRONG}

    arguments = ("undo", "Prices", "--by", wrong, "--from", cut)
    shown = market.run(market.admin, *arguments, "--no-input")
    rows = [json.loads(line) for line in shown.stdout.splitlines()]
    assert 2 == shown.exit_code, shown.output
    assert reverts == {row["key"]["pk"] for row in rows if row["change"] != "conflict"}
    assert conflicts == {row["key"]["pk"] for row in rows if row["change"] == "conflict"}
    assert all(row["present"]["n"] >= WRONG for row in rows if row["change"] != "conflict")
    assert {wrong} == {row["principal"] for row in rows if row["change"] != "conflict"}

    done = market.run(market.admin, *arguments, "--yes", "--why", "wrong price list")
    assert 0 == done.exit_code, done.output
    assert items == _items(market, "Prices")
    market.server.wait_for_triggers()
    undone = until(lambda: [change for change in market.seen() if change[2] == "undo"])
    assert {key: str(items.get(key)) for key in reverts} == {change[0]: change[1] for change in undone}
    assert {market.admin.id} == {change[3] for change in undone}
    assert _changed(present, items) == _differences(market, "Prices", until_wrong)

    _restore(market, cut, "Restored")
    assert right == _items(market, "Restored")
    assert {} == _differences(market, f"Prices@{cut}", "Restored")


def _items(market: Market, table: str) -> dict[str, int]:
    found = market.client(market.admin).scan(TableName=table, ConsistentRead=True)["Items"]
    return {item["pk"]["S"]: int(item["n"]["N"]) for item in found}


def _changed(old: dict[str, int], new: dict[str, int]) -> dict[str, tuple[int | None, int | None]]:
    """Return the old and the new value of each key that differs."""
    pairs = {key: (old.get(key), new.get(key)) for key in old.keys() | new.keys()}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def _differences(market: Market, *words: str) -> dict[str, tuple[int | None, int | None]]:
    """Return the old and the new value of each key that `foldb diff` prints."""
    shown = market.run(market.admin, "diff", *words)
    assert 0 == shown.exit_code, shown.output
    rows = [json.loads(line) for line in shown.stdout.splitlines()]
    sides = {row["key"]["pk"]: [row.get(side, {}).get("n") for side in ("old", "new")] for row in rows}
    return {key: (old, new) for key, (old, new) in sides.items()}


def _restore(market: Market, cut: str, target: str) -> None:
    client = market.client(market.admin)
    client.restore_table_to_point_in_time(
        SourceTableName="Prices", TargetTableName=target, RestoreDateTime=datetime.fromisoformat(cut)
    )
    client.get_waiter("table_exists").wait(TableName=target, WaiterConfig={"Delay": 0.1})


def _cut(market: Market) -> str:
    """Return a log time after all writes and before the next one: a whole second, as boto3 sends it to a restore."""
    answer = market.client(market.admin).scan(TableName="Prices", ConsistentRead=True)
    time_ms = int(answer["ResponseMetadata"]["HTTPHeaders"]["x-foldb-log-time"])
    time_ms += 1000 - time_ms % 1000
    until(lambda: market.server._serving.node.clock() > time_ms)
    return time_text(time_ms)


@pytest.mark.guarantee("SEC5")
@pytest.mark.parametrize(
    ("rights", "is_allowed"),
    [
        (("--write", "Prices", "--history", "Prices"), True),
        (("--admin", "*"), True),
        (("--write", "Prices"), False),
        (("--read", "Prices", "--history", "Prices"), False),
        (("--write", "Others", "--history", "*"), False),
        (("--write", "*", "--history", "Others"), False),
    ],
)
def test_an_undo_needs_rights_to_write_and_to_the_past(
    tmp_path: Path, rights: tuple[str, ...], is_allowed: bool
) -> None:
    market = Market(tmp_path, 1)
    with market.server:
        put = market.client(market.admin).put_item(TableName="Prices", Item={"pk": {"S": "a"}})
        position = put["ResponseMetadata"]["HTTPHeaders"]["x-foldb-position"]
        pair = market.key(*rights)
        until(lambda: _is_known(market, pair))
        result = market.run(pair, "undo", position, "--yes")
        left = market.client(market.admin).scan(TableName="Prices")["Count"]

    if is_allowed:
        assert (0, 0) == (result.exit_code, left), result.output
    else:
        assert "AccessDeniedException" in result.stderr
        assert ("", 1) == (result.stdout, left)


def _is_known(market: Market, pair: Pair) -> bool:
    """Return whether the server has read the file of keys again."""
    try:
        market.client(pair).list_tables()
    except ClientError as error:
        return bool(error.response["Error"]["Code"] == "AccessDeniedException")
    return True
