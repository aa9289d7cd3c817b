"""Dead letters in their table: shared tables, invalid edits, and many large dead letters."""

import pytest

from tests.unit.server.subscriptions.conftest import Shop


def dead(shop: Shop, *names: str, **settings: object) -> None:
    """Create subscriptions that each have a dead letter of one change, in one table."""
    shop.table("Orders")
    shop.be("broken", there=True)
    for name in names:
        shop.subscribe(name, "Orders", "fails", DeadLetterTable="failed", **settings)
    shop.resource.Table("Orders").put_item(Item={"pk": "a", "n": 1})
    shop.settle()


def test_subscriptions_of_one_table_keep_their_dead_letters_apart(shop: Shop) -> None:
    dead(shop, "one", "two")
    [mine], [theirs] = shop.letters("one"), shop.letters("two")

    assert ("one", "two") == (mine["Subscription"], theirs["Subscription"])
    assert 0 == shop.do("DropDeadLetters", "one", Key=theirs["Key"])["Dropped"]
    assert 0 == shop.do("RetryDeadLetters", "one", Key=theirs["Key"])["Failed"]
    assert 1 == shop.do("DropDeadLetters", "one")["Dropped"]
    assert [theirs] == shop.letters("two")
    shop.be("broken", there=False)
    assert 0 == shop.do("RetryDeadLetters", "one")["Delivered"]
    assert 1 == shop.do("RetryDeadLetters", "two")["Delivered"]
    assert ["a 1"] == shop.notes()


@pytest.mark.parametrize("update", ["SET payload.#keys = :x", "REMOVE payload"])
def test_an_ill_edited_dead_letter_does_not_prevent_a_start(shop: Shop, update: str) -> None:
    """Later changes of its key still follow it: its key is the item's, and cannot be edited."""
    dead(shop, "one")
    [letter] = shop.letters("one")
    named = {"ExpressionAttributeNames": {"#keys": "keys"}} if "#keys" in update else {}
    valued = {"ExpressionAttributeValues": {":x": {"oops": 1}}} if ":x" in update else {}
    shop.resource.Table("failed").update_item(
        Key={"key": letter["Key"], "number": letter["Number"]}, UpdateExpression=update, **named, **valued
    )
    shop.do("PauseSubscription", "one")
    shop.do("ResumeSubscription", "one")
    shop.be("broken", there=False)
    for pk in ("b", "a"):
        shop.resource.Table("Orders").put_item(Item={"pk": pk, "n": 2})
    shop.settle()

    assert ["b 2"] == shop.notes()
    assert [letter["Number"], f"waits for sequence number {letter['Number']}"] == [
        shop.letters("one")[0]["Number"],
        shop.letters("one")[1]["Error"],
    ]
    assert 1 == shop.do("RetryDeadLetters", "one")["Failed"]
    assert "cannot be read" in shop.letters("one")[0]["Error"]
    assert 2 == shop.do("DropDeadLetters", "one")["Dropped"]


def test_a_table_of_something_else_is_not_read(shop: Shop) -> None:
    """A subscription without dead letters may name any table."""
    shop.table("failed").put_item(Item={"pk": "a"})
    shop.table("Orders")
    shop.subscribe("one", "Orders", "fails", DeadLetterTable="failed", OnFailure="block")
    shop.resource.Table("Orders").put_item(Item={"pk": "a", "n": 1})
    shop.settle()

    assert ["a 1"] == shop.notes()
    assert [] == shop.letters("one")


def test_a_table_of_another_use_cannot_hold_dead_letters(shop: Shop) -> None:
    shop.table("Orders")
    shop.table("failed")
    shop.subscribe("one", "Orders", "fails")
    answer = shop.refused("UpdateSubscription", Name="one", DeadLetterTable="failed")

    assert "DeadLetterTable failed is a table of something else" in answer.body["message"]
    assert "one.dlq" == shop.described("one")["Settings"]["DeadLetterTable"]


def test_dead_letters_of_any_size_are_delivered_and_dropped(shop: Shop) -> None:
    """They are larger than one page of a read."""
    table = shop.table("Orders")
    shop.be("broken", there=True)
    for name in ("one", "two"):
        shop.subscribe(name, "Orders", "fails", BatchSize=1)
    for n in range(4):
        table.put_item(Item={"pk": "a", "n": n, "large": "x" * 390_000})
    shop.settle()
    [*_, last] = letters = shop.letters("one")
    assert 4 == len(letters) == len(shop.do("ListDeadLetters", "one", Key=last["Key"])["DeadLetters"])

    assert 4 == shop.do("DropDeadLetters", "two", Key=shop.letters("two")[0]["Key"])["Dropped"]
    shop.be("broken", there=False)
    assert 4 == shop.do("RetryDeadLetters", "one", Key=last["Key"])["Delivered"]
    assert ["a 0", "a 1", "a 2", "a 3"] == shop.notes()


IMAGES = {"old": None, "new": {"pk": {"S": "a"}, "n": {"N": "1"}}}


@pytest.mark.parametrize(
    ("member", "value", "says"),
    [
        ("Number", 1, "takes the Key and the Number"),
        ("Before", {"new": None}, "Before must have the images old and new"),
        ("After", {"old": None, "new": 1}, "After must have the images old and new"),
        ("After", {"old": None, "new": {"pk": {"N": "x"}}}, "cannot be converted to a numeric value"),
        ("Before", {"old": {}, "new": None}, "The conditional request failed"),
        ("Number", "1", "The conditional request failed"),
    ],
)
def test_an_edit_of_no_dead_letter_or_image_is_refused(
    shop: Shop, member: str, value: object, says: str
) -> None:
    """An edit of a dead letter that another client has edited is refused, too."""
    dead(shop, "one")
    [letter] = shop.letters("one")
    asked = {
        "Name": "one",
        "Key": letter["Key"],
        "Number": letter["Number"],
        "Before": IMAGES,
        "After": IMAGES,
    }

    assert says in str(shop.refused("EditDeadLetter", **asked | {member: value}).body)
    assert [letter] == shop.letters("one")
