"""Dead letters that are delivered again during edits, drops and new changes, beside the running subscription."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.subscribed import until
from tests.unit.server.subscriptions.conftest import Shop


def dead(shop: Shop, function: str, name: str = "one") -> dict[str, Any]:
    """Return the only dead letter of a new subscription."""
    shop.table("Orders")
    shop.be("broken", there=True)
    shop.subscribe(name, "Orders", function)
    shop.resource.Table("Orders").put_item(Item={"pk": "a", "n": 1})
    shop.settle()
    [letter] = shop.letters(name)
    return letter


def change(shop: Shop, letter: dict[str, Any], path: str, value: Any) -> None:
    """Edit a dead letter with UpdateItem."""
    names = path.split(".")
    shop.resource.Table("one.dlq").update_item(
        Key={"key": letter["Key"], "number": letter["Number"]},
        UpdateExpression=f"SET payload.{'.'.join(f'#{at}' for at in range(len(names)))} = :value",
        ExpressionAttributeNames={f"#{at}": name for at, name in enumerate(names)},
        ExpressionAttributeValues={":value": value},
    )


@pytest.mark.parametrize("fails", [False, True])
def test_an_edit_during_a_delivery_applies_to_the_delivery(shop: Shop, fails: bool) -> None:
    letter = dead(shop, "fails_slowly")
    shop.be("gate", there=True)
    with ThreadPoolExecutor(1) as pool:
        retried = pool.submit(shop.do, "RetryDeadLetters", "one")
        while shop.notes() != ["called with 1"] * 2:
            pass
        change(shop, letter, "new.n", 2)
        if not fails:
            shop.be("broken", there=False)
        shop.be("gate", there=False)
        reported = retried.result()

    assert {"Delivered": int(not fails), "Failed": int(fails), "Left": int(fails)} == reported
    assert ["2"] == [each["Change"]["new"]["n"]["N"] for each in shop.letters("one")] or not fails
    assert "called with 2" in shop.notes()


def test_a_drop_during_a_delivery_stays(shop: Shop) -> None:
    dead(shop, "fails_slowly")
    shop.be("gate", there=True)
    with ThreadPoolExecutor(1) as pool:
        retried = pool.submit(shop.do, "RetryDeadLetters", "one")
        while shop.notes() != ["called with 1"] * 2:
            pass
        shop.do("DropDeadLetters", "one")
        shop.be("gate", there=False)
        reported = retried.result()

    assert {"Delivered": 0, "Failed": 0, "Left": 0} == reported
    assert [] == shop.letters("one")


def retried_while_comes(shop: Shop, n: int) -> dict[str, Any]:
    """Return the result of a retry during whose first call another change of the key is written."""
    shop.be("gate", there=True)
    with ThreadPoolExecutor(1) as pool:
        retried = pool.submit(shop.do, "RetryDeadLetters", "one")
        until(lambda: shop.notes() == ["called with 1"] * 2)
        shop.resource.Table("Orders").put_item(Item={"pk": "a", "n": n})
        shop.settle()
        shop.be("gate", there=False)
        reported: dict[str, Any] = retried.result()
    return reported


def test_changes_that_follow_during_a_retry_are_delivered_too(shop: Shop) -> None:
    """Later changes of a key become dead letters while it has one. Without this a busy key would always have some."""
    dead(shop, "fails_slowly")
    shop.be("broken", there=False)
    reported = retried_while_comes(shop, 2)

    assert {"Delivered": 2, "Failed": 0, "Left": 0} == reported
    assert [] == shop.letters("one")
    assert ["a 1", "called with 2", "a 2"] == shop.notes()[2:]


def test_the_answer_counts_dead_letters_left_at_the_end(shop: Shop) -> None:
    """A limit holds, and the dead letters behind one that fails again are not delivered."""
    dead(shop, "fails_slowly")
    for n in (2, 3):
        shop.resource.Table("Orders").put_item(Item={"pk": "a", "n": n})
    shop.settle()
    reported = retried_while_comes(shop, 4)

    assert {"Delivered": 0, "Failed": 1, "Left": 4} == reported
    shop.be("broken", there=False)
    assert {"Delivered": 3, "Failed": 0, "Left": 1} == shop.do("RetryDeadLetters", "one", Limit=3)


def test_dead_letters_have_one_delivery_at_a_time(shop: Shop) -> None:
    dead(shop, "fails_slowly")
    shop.be("broken", there=False)
    shop.be("gate", there=True)
    with ThreadPoolExecutor(1) as pool:
        retried = pool.submit(shop.do, "RetryDeadLetters", "one")
        while shop.notes() != ["called with 1"] * 2:
            pass
        refusal = shop.refused("RetryDeadLetters", Name="one").body
        shop.be("gate", there=False)
        reported = retried.result()

    assert "The dead letters of one are being delivered already" in refusal["message"]
    assert {"Delivered": 1, "Failed": 0, "Left": 0} == reported
    assert 0 == shop.do("RetryDeadLetters", "one")["Left"], "and then again"


def test_a_dead_letter_names_the_transaction_of_its_change(shop: Shop) -> None:
    orders = shop.table("Orders")
    shop.be("broken", there=True)
    shop.subscribe("one", "Orders", "tells_transaction")
    puts = [{"Put": {"TableName": "Orders", "Item": {"pk": pk}}} for pk in ("a", "b")]
    shop.resource.meta.client.transact_write_items(TransactItems=puts)
    orders.put_item(Item={"pk": "c"})
    shop.settle()
    tx = {each["Change"]["tx"]["id"] for each in shop.letters("one") if each["Change"]["tx"]}
    shop.be("broken", there=False)
    assert 3 == shop.do("RetryDeadLetters", "one")["Delivered"]

    assert 1 == len(tx)
    assert [f"a 0 of 2 in {min(tx)}", f"b 1 of 2 in {min(tx)}", "c None"] == shop.notes()


@pytest.mark.parametrize(("depth", "follows", "is_paused"), [(7, 8, False), (40, 16, True)])
def test_writes_of_a_retry_count_depth_from_the_dead_letter(
    shop: Shop, depth: int, follows: int, is_paused: bool
) -> None:
    """The changes that the subscription handles at the same time have no effect. The sixteenth in a row is a loop."""
    letter = dead(shop, "writes")
    change(shop, letter, "depth", depth)
    shop.table("Written")
    shop.subscribe("tells", "Written", "tells")
    if is_paused:
        for name in ("one", "tells"):
            shop.do("PauseSubscription", name)
    shop.be("broken", there=False)
    assert 1 == shop.do("RetryDeadLetters", "one")["Delivered"]
    for name in ("one", "tells"):
        shop.do("ResumeSubscription", name)
    shop.settle()
    reported = [f"a trigger {follows}"] if follows < 16 else []

    assert ["a 1", *reported] == shop.notes()
    assert [16] * (not reported) == [each["Change"]["depth"] for each in shop.letters("tells")]


def test_dead_letters_of_a_closed_window_are_not_delivered(shop: Shop) -> None:
    shop.table("Orders")
    shop.be("broken", there=True)
    shop.subscribe("one", "Orders", "fails", TumblingWindowInSeconds=1)
    shop.resource.Table("Orders").put_item(Item={"pk": "a", "n": 1})
    shop.settle()
    [letter] = shop.letters("one")
    shop.be("broken", there=False)
    refusal = shop.refused("RetryDeadLetters", Name="one").body["message"]

    assert "`foldb trigger replay one` counts the windows again, `foldb dlq drop one` removes" in refusal
    assert [letter] == shop.letters("one")
    assert [] == shop.notes()


def test_a_call_of_unloadable_code_reports_the_error(shop: Shop) -> None:
    dead(shop, "fails")
    (shop.folder / "functions.py").write_text("def fails(:\n")

    assert "SyntaxError" in shop.refused("RetryDeadLetters", Name="one").body["message"]
    assert 1 == len(shop.letters("one"))
