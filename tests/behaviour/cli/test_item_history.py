"""`foldb item history`, `item blame`, `item diff` and `diff`, as a new user types them."""

import json
import re

import pytest

from tests.behaviour.cli.conftest import Foldb, lines


@pytest.fixture
def orders(cli: Foldb) -> Foldb:
    """An order that was put at position 2, refused at 3, updated at 4 and deleted at 5; another one, put at 6."""
    cli("table", "create", "Orders", "id:S")
    cli("item", "put", "Orders", '{"id": "o-1", "state": "new", "total": 5}')
    cli("item", "put", "Orders", '{"id": "o-1"}', "--if", "attribute_not_exists(id)")
    cli("item", "update", "Orders", "o-1", "--set", "state = 'paid'", "--remove", "total")
    cli("item", "delete", "Orders", "o-1")
    cli("item", "put", "Orders", '{"id": "o-2", "state": "new"}')
    return cli


@pytest.mark.spec("H5")
def test_the_history_of_an_item_has_its_versions_and_refusals(orders: Foldb) -> None:
    result = orders("item", "history", "Orders", "o-1")

    removed, updated, refused, put = lines(result)
    assert ["5.0", "4.0", "3.0", "2.0"] == [each["position"] for each in (removed, updated, refused, put)]
    assert ["remove", "put", "refused", "put"] == [each["kind"] for each in (removed, updated, refused, put)]
    assert {"id": "o-1", "state": "paid"} == updated["item"]
    assert ("put", "ConditionalCheckFailedException", "attribute_not_exists(id)") == (
        refused["operation"],
        refused["error"],
        refused["condition"],
    )
    assert all(
        {"principal", "request_id", "source", "time"} <= each.keys() for each in (removed, updated, put)
    )
    assert re.fullmatch(r"4 versions · up to 2.*Z\n", result.stderr)


def test_the_history_of_an_item_is_limited_by_cuts_and_a_count(orders: Foldb) -> None:
    def positions(*options: str) -> list[str]:
        return [each["position"] for each in lines(orders("item", "history", "Orders", "o-1", *options))]

    assert ["4.0", "3.0"] == positions("--from", "2", "--to", "4")
    assert ["5.0"] == positions("--limit", "1")
    assert ["5.0", "4.0", "3.0", "2.0"] == positions("--from", "-1h", "--to", "-0")
    assert "more: --limit" in orders("item", "history", "Orders", "o-1", "--limit", "1").stderr


def test_a_version_names_the_members_of_its_transaction(orders: Foldb, cli: Foldb) -> None:
    writes = [{"put": {"table": "Orders", "item": {"id": name}}} for name in ("t-1", "t-2")]
    result = cli("tx", "-", stdin=json.dumps(writes))
    assert 0 == result.exit_code, result.output

    [version] = lines(cli("item", "history", "Orders", "t-1"))

    assert {
        "position": version["position"],
        "members": [{"table": "Orders", "key": {"id": "t-2"}, "operation": "put"}],
    } == version["transaction"]


@pytest.mark.spec("H5")
def test_blame_names_the_write_that_set_each_attribute(orders: Foldb) -> None:
    rows = lines(orders("item", "blame", "Orders", "o-1", "--as-of", "4"))

    assert {"id": "2.0", "state": "4.0"} == {row["attribute"]: row["position"] for row in rows}
    assert {"id": "o-1", "state": "paid"} == {row["attribute"]: row["value"] for row in rows}
    gone = orders("item", "blame", "Orders", "o-1")
    assert (3, "foldb: no item with this key in Orders\n") == (gone.exit_code, gone.stderr)


def test_item_diff_prints_each_attribute_that_differs(orders: Foldb) -> None:
    rows = lines(orders("item", "diff", "Orders", "o-1", "2", "4"))

    assert [
        {"kind": "change", "attribute": "state", "old": "new", "new": "paid"},
        {"kind": "remove", "attribute": "total", "old": 5},
    ] == rows
    assert [] == lines(orders("item", "diff", "Orders", "o-2", "6", "-0"))


@pytest.mark.spec("H6")
def test_diff_prints_items_that_were_put_changed_and_removed(orders: Foldb) -> None:
    result = orders("diff", "Orders", "2", "4")
    [change] = lines(result)
    removed, put = lines(orders("diff", "Orders", "2"))

    assert ("change", {"id": "o-1"}, "4.0") == (change["kind"], change["key"], change["position"])
    assert ("new", "paid") == (change["old"]["state"], change["new"]["state"])
    assert ("remove", {"id": "o-1"}) == (removed["kind"], removed["key"])
    assert ("put", {"id": "o-2", "state": "new"}) == (put["kind"], put["new"])
    assert "1 difference · from 2 to 4\n" == result.stderr


def test_diff_on_a_terminal_is_text(orders: Foldb) -> None:
    result = orders("diff", "Orders", "2", "4", "--color", "always")

    assert '~ {"id":"o-1"}\n    ~ state: "new" → "paid"\n    - total: 5\n' == result.stdout


@pytest.mark.spec("H6")
def test_diff_compares_two_tables(orders: Foldb) -> None:
    orders("table", "create", "Copies", "id:S")
    orders("item", "put", "Copies", '{"id": "o-1", "state": "new", "total": 5}')
    orders("item", "put", "Copies", '{"id": "o-3"}')

    rows = lines(orders("diff", "Orders@4", "Copies"))

    assert [("change", {"id": "o-1"}), ("put", {"id": "o-3"})] == [(row["kind"], row["key"]) for row in rows]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["diff", "Orders"], "write `foldb diff TABLE CUT [CUT]`"),
        (["diff", "Orders", "yesterday"], "`yesterday` is not a cut: write a position"),
        (["diff", "Orders", "4", "2"], "From is after To: 4 is later than 2"),
        (["diff", "Orders", "2", "--limt", "5"], "no such option: --limt"),
        (["diff", "Order", "2"], "Order did not exist at 2"),
        (["item", "diff", "Orders", "o-1", "2"], "write the key and two cuts"),
        (["item", "history", "Orders", "o-1", "--to", "99"], "The log ends before position 99"),
        (["item", "history", "Orders"], "missing argument 'KEY...'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_is_answered_with_one_sentence(orders: Foldb, words: list[str], sentence: str) -> None:
    result = orders(*words)

    assert sentence in result.stderr
    assert result.exit_code not in (0, 1)
    assert 1 == result.stderr.count("\n")
