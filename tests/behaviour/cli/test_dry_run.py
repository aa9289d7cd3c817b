"""`--dry-run` of destructive commands: it prints the change and its size, and the log gets no entry."""

from pathlib import Path
from typing import Any

import pytest

from tests.behaviour.cli.conftest import Foldb, lines


@pytest.fixture
def shop(cli: Foldb) -> Foldb:
    cli("table", "create", "Orders", "id:S", "--gsi", "Totals=total:N", "--stream")
    cli("item", "put", "Orders", '{"id": "o1", "total": 5}')
    cli("backup", "create", "Orders", "before")
    cli(
        "trigger",
        "add",
        "mirror",
        "--table",
        "Orders",
        "--sqlite",
        "shop",
        "--pattern",
        '{"eventName": ["NONE"]}',
    )
    cli("trigger", "pause", "mirror")  # it writes no checkpoints from now on
    return cli


def written(shop: Foldb) -> list[Any]:
    """Return the commands of the log, without barriers: a comparison of two states may append one."""
    return [each for each in lines(shop("log", "cat")) if each["command"] != "Barrier"]


def planned(shop: Foldb, *command: str) -> dict[str, Any]:
    """Return the plan of a command, which writes nothing."""
    before = written(shop)
    result = shop(*command, "--dry-run")

    [plan] = lines(result)
    assert "dry run: nothing was changed" in result.stderr
    assert before == written(shop)
    assert isinstance(plan, dict)
    return plan


def test_a_dry_run_deletes_no_table_item_backup_or_trigger(shop: Foldb) -> None:
    table = planned(shop, "table", "delete", "Orders")
    item = planned(shop, "item", "delete", "Orders", "o1", "--if", "total > 1")
    none = planned(shop, "item", "delete", "Orders", "o2")
    backup = planned(shop, "backup", "delete", "before")
    trigger = planned(shop, "trigger", "remove", "mirror")

    assert ("delete the table", 1, ["Totals"]) == (table["change"], table["items"], table["indexes"])
    assert (1, {"id": "o1", "total": 5}, "total > 1") == (item["items"], item["item"], item["condition"])
    assert 0 == none["items"]
    assert ("before", "Orders", 1) == (backup["backup"], backup["table"], backup["items"])
    assert ("mirror", ["Orders"], 0) == (trigger["trigger"], trigger["tables"], trigger["dead_letters"])


def test_a_dry_run_of_an_update_counts_the_entries_it_drops(shop: Foldb) -> None:
    plan = planned(shop, "table", "update", "Orders", "--drop-gsi", "Totals", "--no-stream")

    assert [{"index": "Totals", "entries": 1}] == plan["dropped"]
    assert 2 == len(plan["requests"])
    assert 3 == shop("table", "update", "Orders", "--drop-gsi", "None", "--dry-run").exit_code


def test_a_dry_run_restores_no_item(shop: Foldb) -> None:
    shop("item", "update", "Orders", "o1", "--set", "total = 6")
    plan = planned(shop, "restore", "Orders", "--as-of", "2", "--in-place")

    assert ("put", {"id": "o1", "total": 5}) == (plan["change"], plan["restored"])
    assert 2 == shop("restore", "Orders", "--as-of", "2", "--into", "New", "--dry-run").exit_code


def test_a_dry_run_of_a_missing_thing_fails_as_the_command(shop: Foldb) -> None:
    for command in (
        ("table", "delete", "Nowhere"),
        ("backup", "delete", "nowhere"),
        ("trigger", "remove", "nowhere"),
        ("dlq", "drop", "mirror"),
    ):
        assert 3 == shop(*command, "--dry-run").exit_code, command


def test_a_dry_run_revokes_no_key(cli: Foldb, tmp_path: Path) -> None:
    file = str(tmp_path / "keys.toml")
    [created] = lines(cli("key", "create", "--read", "*", "--keys", file))
    [plan] = lines(cli("key", "revoke", created["AccessKeyId"], "--keys", file, "--dry-run"))

    assert (created["AccessKeyId"], ["*"], 0) == (plan["id"], plan["read"], plan["left"])
    assert 1 == len(lines(cli("key", "list", "--keys", file)))
    assert 3 == cli("key", "revoke", "FOLDBNOKEY", "--keys", file, "--dry-run").exit_code
