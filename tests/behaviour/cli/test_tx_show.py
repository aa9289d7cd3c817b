"""`foldb tx show`: one transaction, from the logs of all its partitions."""

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import foldb
from foldb.cli.lib.client import Client
from foldb.cli.lib.errors import CommandError, ExitCode, RequestFailedError
from foldb.cli.lib.transaction_history import place_of
from foldb.log.commands import Barrier, Command, Entry, Position, Record, Transact, new_context
from tests.behaviour.cli.conftest import Foldb, at, lines

CARS = 6


def puts(*, condition: str | None = None, at_car: int = 3) -> str:
    actions: list[dict[str, Any]] = [
        {"put": {"table": "Cars", "item": {"id": f"car {n}", "n": n}}} for n in range(CARS)
    ]
    if condition is not None:
        actions[at_car]["put"]["if"] = condition
    return json.dumps(actions)


@pytest.fixture(params=[1, 4], ids=["1 partition", "4 partitions"])
def cars(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Foldb]:
    with foldb.serve(tmp_path / "data", fsync="never", partitions=request.param) as server:
        cli = at(server.endpoint_url)
        assert 0 == cli("table", "create", "Cars", "id:S").exit_code
        yield cli


def position_in(stderr: str) -> str:
    found = re.search(r"as of @(\S+)", stderr)
    assert found is not None
    return found[1]


def test_an_applied_transaction_has_images_and_places(cars: Foldb) -> None:
    done = cars("tx", "-", "--token", "first", stdin=puts())

    [shown] = lines(cars("tx", "show", position_in(done.stderr)))
    assert ("applied", "first", "api") == (shown["outcome"], shown["token"], shown["source"])
    assert shown["begun"] <= shown["decided"] <= shown["ended"]
    assert list(range(1, CARS + 1)) == [each["action"] for each in shown["actions"]]
    for n, action in enumerate(shown["actions"]):
        assert ("Put", {"id": f"car {n}"}, "applied", 2) == tuple(
            action[name] for name in ("command", "key", "outcome", "units")
        )
        assert (None, {"id": f"car {n}", "n": n}) == (action["old"], action["new"])
        [newest] = lines(cars("item", "history", "Cars", f"car {n}", "--limit", "1"))
        assert (action["position"], shown["transaction"]) == (
            newest["position"],
            newest["transaction"]["position"],
        )
    others = {each["partition"] for each in shown["actions"]} - {
        int(shown["transaction"].rpartition(":")[0] or 0)
    }
    for step in ("prepare", "commit"):
        assert others == {each["partition"] for each in shown["steps"] if each["step"] == step}
    for step in ("vote", "confirm"):
        assert others == {each["of"] for each in shown["steps"] if each["step"] == step}


def test_every_position_and_the_token_lead_to_the_transaction(cars: Foldb) -> None:
    done = cars("tx", "-", "--token", "first", stdin=puts())
    [shown] = lines(cars("tx", "show", "first"))

    places = {each["position"] for each in (*shown["actions"], *shown["steps"])}
    for place in (*places, shown["transaction"], position_in(done.stderr), f"@{shown['transaction']}"):
        assert [shown] == lines(cars("tx", "show", place)), place


def test_transactions_of_one_coordinator_stay_apart(cars: Foldb) -> None:
    """Of five tokens, two have the same one of four coordinators."""
    tokens = [f"token-{n}" for n in range(5)]
    for n, token in enumerate(tokens):
        cars("tx", "-", "--token", token, stdin=puts().replace('"n": ', f'"m": 1{n}'))

    for token in tokens:
        [shown] = lines(cars("tx", "show", token))
        [last] = [shown["actions"][-1], *shown["steps"]][-1:]
        assert token == shown["token"]
        assert [shown] == lines(cars("tx", "show", last["position"]))


def test_a_repeated_token_names_the_first_use(cars: Foldb) -> None:
    cars("tx", "-", "--token", "first", stdin=puts())
    again = cars("tx", "-", "--token", "first", stdin=puts())

    shown = cars("tx", "show", "first")
    assert "applied" == lines(shown)[0]["outcome"]
    assert f"the same token was used at @{position_in(again.stderr)}" in shown.stderr
    [repeated] = lines(cars("tx", "show", position_in(again.stderr)))
    assert {"replayed"} == {repeated["outcome"], *(each["outcome"] for each in repeated["actions"])}


def test_a_cancelled_transaction_names_the_action_at_fault(cars: Foldb) -> None:
    cars("tx", "-", stdin=puts())
    condition = "attribute_not_exists(id)"
    for at_car in range(0, CARS, 2):
        refused = cars("tx", "-", "--token", f"no-{at_car}", stdin=puts(condition=condition, at_car=at_car))
        assert ExitCode.CANCELLED == refused.exit_code

        [shown] = lines(cars("tx", "show", f"no-{at_car}"))
        assert "cancelled" == shown["outcome"]
        outcomes = [each["outcome"] for each in shown["actions"]]
        assert ["refused" if n == at_car else "cancelled" for n in range(CARS)] == outcomes
        action = shown["actions"][at_car]
        assert "ConditionalCheckFailed: The conditional request failed" == action["error"]
        assert condition == action["condition"].replace("#_1", "id")
        against = {each["of"] for each in shown["steps"] if each["step"] == "vote" and not each["holds"]}
        assert against <= {action["partition"]}


def test_a_snapshot_before_it_changes_nothing(cars: Foldb) -> None:
    cars("tx", "-", "--token", "first", stdin=puts())
    before = lines(cars("tx", "show", "first"))
    assert 0 == cars("snapshot", "make").exit_code
    cars("tx", "-", "--token", "second", stdin=puts(condition="n = 3").replace('"n": ', '"m": '))

    assert before == lines(cars("tx", "show", "first"))
    [second] = lines(cars("tx", "show", "second"))
    assert [{"id": f"car {n}", "n": n} for n in range(CARS)] == [each["old"] for each in second["actions"]]


def test_a_conflict_names_the_transaction_that_held_the_item(tmp_path: Path) -> None:
    with foldb.serve(tmp_path / "data", fsync="never", partitions=4) as server:
        cli = at(server.endpoint_url)
        cli("table", "create", "Cars", "id:S")
        tokens = conflicts(server.endpoint_url)
        assert tokens, "sixteen hundred transactions on the same four items had no conflict"

        for token in tokens[:5]:
            [shown] = lines(cli("tx", "show", token))
            for action in shown["actions"]:
                if "TransactionConflict" not in action.get("error", ""):
                    continue
                [holder] = lines(cli("tx", "show", action["held_by"]))
                assert holder["transaction"] != shown["transaction"]
                assert action["key"] in [each["key"] for each in holder["actions"]]
                assert holder["begun"] <= shown["ended"]
                assert shown["begun"] <= holder["ended"]


def conflicts(url: str) -> list[str]:
    """Run transactions on the same items in eight threads, and return the tokens of those that conflicts cancelled."""
    found: list[str] = []
    ended = threading.Event()

    def write(writer: int) -> None:
        client = Client(url, sleep=lambda _: None)
        for nth in range(200):
            token = f"w-{writer}-{nth}"
            actions = [
                {"Put": {"TableName": "Cars", "Item": {"id": {"S": f"car {n}"}, "w": {"N": str(writer)}}}}
                for n in range(4)
            ]
            try:
                client.call("TransactWriteItems", {"TransactItems": actions, "ClientRequestToken": token})
            except RequestFailedError as failure:
                codes = [each["Code"] for each in failure.body.get("CancellationReasons", ())]
                if "TransactionConflict" in codes:
                    found.append(token)
                    ended.set()
            if ended.is_set():
                break
        client.close()

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@pytest.mark.parametrize(
    ("word", "code", "says"),
    [
        ("99", ExitCode.NOT_FOUND, "the log ends before @99"),
        ("nope", ExitCode.NOT_FOUND, "no transaction has the token `nope`"),
        (
            "1",
            ExitCode.NOT_FOUND,
            "@1 is not part of a transaction: `foldb log cat --from 1` prints its command",
        ),
        ("7:1", ExitCode.USAGE, "`7:1` is not a position of this log"),
    ],
)
def test_a_place_without_a_transaction_is_refused(cli: Foldb, word: str, code: ExitCode, says: str) -> None:
    cli("table", "create", "Cars", "id:S")

    refused = cli("tx", "show", word)

    assert (code, "") == (refused.exit_code, refused.stdout)
    assert says in refused.stderr


class OneEntry:
    """A log with one entry, which has the transactions of two clients."""

    partitions = 1

    def begin(self, _: int) -> int:
        return 0

    def end(self, _: int) -> int:
        return 1

    def read(self, partition: int, offset: int) -> Iterator[Record]:
        commands: list[Command] = [Barrier(), Transact([], new_context("a")), Transact([], new_context("b"))]
        yield Record(partition, offset, 0, Entry(b"", 0, commands))


def test_a_position_of_several_transactions_needs_its_index() -> None:
    log: Any = OneEntry()

    with pytest.raises(CommandError, match=r"0 has several transactions: give one of 0\.1, 0\.2"):
        place_of(log, "0")
    assert Position(0, 0, 2) == place_of(log, "0.2")


def test_the_word_run_may_be_left_out(cli: Foldb) -> None:
    cli("table", "create", "Cars", "id:S")

    for words in (["tx", "-"], ["tx", "run", "-"], ["tx", "--token", "a", "-"]):
        assert 0 == cli(*words, stdin=puts()).exit_code
