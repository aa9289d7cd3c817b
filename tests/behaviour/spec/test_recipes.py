"""The recipes of docs/recipes.md, run as printed; those that write are run by 32 writers at once."""

import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from boto3.dynamodb.conditions import Attr, Key

from tests.support.claims import KIB, pages, sized
from tests.support.tables import MakeTable

WRITERS = 32
RECIPES = Path(__file__).resolve().parents[3] / "docs" / "recipes.md"


def blocks(text: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def recipe(title: str) -> str:
    """Return the longest block of Python of one section: the pattern. The others make its items and print them."""
    section = RECIPES.read_text().split(f"## {title}\n")[1].split("\n## ")[0]
    return max(blocks(section), key=len)


def run(title: str, **names: Any) -> dict[str, Any]:
    """Run the section's code with these names; returns all that it knows then."""
    known = {"Attr": Attr, "Key": Key, "pages": pages, "ThreadPoolExecutor": ThreadPoolExecutor, **names}
    exec(compile(recipe(title), f"{RECIPES.name}: {title}", "exec"), known)
    return known


@pytest.mark.spec("S60", "S79", served=False)  # the blocks serve and ask in one process of their own
@pytest.mark.parametrize("page", ["partiql.md", "past.md", "recipes.md", "restore.md", "throughput.md"])
def test_the_blocks_run_as_pasted_and_print_their_output(page: str) -> None:
    code = "\n".join(blocks(RECIPES.with_name(page).read_text()))
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)

    assert 0 == ran.returncode, ran.stderr
    assert re.findall(r"^print\(.*\)  # (.*)$", code, re.MULTILINE) == ran.stdout.splitlines()


def at_once(work: Callable[[int], Any]) -> list[Any]:
    """Let 32 writers do the same at the same time."""
    with ThreadPoolExecutor(WRITERS) as pool:
        return list(pool.map(work, range(WRITERS)))


@pytest.mark.spec("S79")
def test_optimistic_locking_loses_no_update(make_table: MakeTable) -> None:
    table = make_table("pk:S")
    table.put_item(Item={"pk": "cart", "version": 0, "goods": []})
    at_once(lambda _: run("Optimistic locking", table=table))
    cart = table.get_item(Key={"pk": "cart"}, ConsistentRead=True)["Item"]

    assert (WRITERS, ["tea"] * WRITERS) == (cart["version"], cart["goods"])


@pytest.mark.spec("S79")
def test_an_atomic_counter_loses_no_update(make_table: MakeTable) -> None:
    table = make_table("pk:S")
    at_once(lambda _: [run("An atomic counter", table=table) for _ in range(4)])

    assert 4 * WRITERS == table.get_item(Key={"pk": "visits"}, ConsistentRead=True)["Item"]["n"]


@pytest.mark.spec("S79")
def test_a_lock_has_one_owner_at_a_time(make_table: MakeTable) -> None:
    """Under the lock a counter is read and written back in two steps, which loses updates without it."""
    table = make_table("pk:S")
    lock = run("A lock")
    table.put_item(Item={"pk": "counter", "n": 0})

    def work(writer: int) -> None:
        while not lock["acquire"](table, "lock", f"writer {writer}", now=100, seconds=10):
            pass
        n = table.get_item(Key={"pk": "counter"}, ConsistentRead=True)["Item"]["n"]
        table.put_item(Item={"pk": "counter", "n": n + 1})
        lock["release"](table, "lock", f"writer {writer}")

    at_once(work)

    assert WRITERS == table.get_item(Key={"pk": "counter"}, ConsistentRead=True)["Item"]["n"]


@pytest.mark.spec("S79")
def test_a_lock_that_ran_out_can_be_taken_and_only_by_one(make_table: MakeTable) -> None:
    table = make_table("pk:S")
    lock = run("A lock")
    assert lock["acquire"](table, "lock", "the dead", now=100, seconds=10)
    assert not lock["acquire"](table, "lock", "early", now=110, seconds=10)
    taken = at_once(lambda writer: lock["acquire"](table, "lock", f"writer {writer}", now=111, seconds=10))

    assert 1 == taken.count(True)
    with pytest.raises(table.meta.client.exceptions.ConditionalCheckFailedException):
        lock["release"](table, "lock", "the dead")


@pytest.mark.spec("S77")
def test_both_ends_meet(make_table: MakeTable) -> None:
    table = make_table("pk:S", "sk:N")
    with table.batch_writer() as batch:
        for n in range(90):
            batch.put_item(Item=sized(40 * KIB, pk="a") | {"sk": n})
    both_ends = run("Reading a collection from both ends")["both_ends"]

    assert list(range(90)) == [item["sk"] for item in both_ends(table, Key("pk").eq("a"))]


@pytest.mark.spec("S96")
def test_one_table_holds_all_of_a_customer(make_table: MakeTable) -> None:
    table = make_table("pk:S", "sk:S")
    code = run("One table")
    code["put_customer"](table)

    assert 4 == table.query(KeyConditionExpression=Key("pk").eq("cust1"))["Count"]
    assert [200] == [item["price"] for item in code["orders_since"](table, "cust1", "2013-10-01")["Items"]]
    assert [1000, 200] == [item["price"] for item in code["orders_since"](table, "cust1", "2013")["Items"]]
