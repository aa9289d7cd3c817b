"""Letters: changes that a subscription gave up, in the table of its dead letters.

ListDeadLetters     {"Name", "Key"?, "Limit"?}    {"DeadLetters": [{"Key", "Number", "Change", "Error",
"Attempts", ...}]}
RetryDeadLetters    {"Name", "Key"?, "Limit"?}    {"Delivered", "Failed", "Left"}: in their order, one retry at a time
DropDeadLetters     {"Name", "Key"?}              {"Dropped"}
EditDeadLetter      {"Name", "Key", "Number", "Before": {"old", "new"}, "After": {"old", "new"}}    {}

A Key is what a letter has as its own; `Change` is what is delivered again, and mended by an update of `payload`. No
UpdateItem mends a letter that is larger than an item may be: EditDeadLetter does, if its images are as Before says.
"""

from typing import TYPE_CHECKING, Any, Final

import orjson

from ....model.errors import ConditionalCheckFailedError, RequestError, ValidationError
from ....model.values import Item, check_item
from ...subscriptions.async_partition import answer
from ...subscriptions.dead_letters import DeadLetterTable
from ..reply import Reply
from .start_positions import whole

if TYPE_CHECKING:
    from ...node import Node

_LIMIT: Final = 100
_LIMIT_MOST: Final = 10_000
_IMAGES: Final = frozenset(("keys", "old", "new"))
_ABOUT: Final = (
    "error", "traceback", "first", "last", "version", "subscription", "attempts", "partition",
)  # fmt: skip
_NOTHING: Final = {"op": None, "keys": None, "old": None, "new": None}


def list_letters(node: "Node", body: dict[str, Any], reply: Reply) -> None:
    """Tell the letters of one key or of all, those of a key in their order."""
    name, key = _read(body)
    limit = whole(body, "Limit", _LIMIT, 1, _LIMIT_MOST)
    settings = node.subscription(name).settings
    table = DeadLetterTable(node, settings["DeadLetterTable"], name)

    async def letters() -> dict[str, Any]:
        shown, count = list[dict[str, Any]](), 0
        async for letter in table.read(key):
            count += 1
            if count <= limit:
                shown.append(told(letter))
        return {"DeadLetters": shown, "Count": count}

    answer(node.loop, letters(), lambda result: _answer(reply, result))


def retry_letters(node: "Node", body: dict[str, Any], reply: Reply) -> None:
    """Deliver letters again."""
    name, key = _read(body)
    limit = None if body.get("Limit") is None else whole(body, "Limit", _LIMIT, 1, _LIMIT_MOST)
    answer(node.loop, node.triggers.retry(name, key, limit), lambda result: _answer(reply, result))


def drop_letters(node: "Node", body: dict[str, Any], reply: Reply) -> None:
    """Remove letters undelivered."""
    name, key = _read(body)
    answer(node.loop, node.triggers.drop(name, key), lambda result: _answer(reply, result))


def edit_letter(node: "Node", body: dict[str, Any], reply: Reply) -> None:
    """Have a letter deliver other images, unless somebody was sooner."""
    name, key = _read(body)
    number = body.get("Number")
    if key is None or not isinstance(number, str):
        raise ValidationError("A letter is edited by the Key and the Number that it has")
    before, after = _images(body, "Before"), _images(body, "After")
    for image in filter(None, after.values()):
        check_item(image, node.limits)
    table = DeadLetterTable(node, node.subscription(name).settings["DeadLetterTable"], name)

    async def edited() -> dict[str, Any]:
        if not await table.edit((key, number), _stored(before), _stored(after)):
            raise ConditionalCheckFailedError
        return {}

    answer(node.loop, edited(), lambda result: _answer(reply, result))


def told(letter: Item) -> dict[str, Any]:
    """A letter as it is answered; what was edited into something else is told as it is, and no image as None."""
    change = letter.get("payload", {}).get("M", {})
    return {
        "Key": letter["key"]["S"],
        "Number": letter["number"]["S"],
        **{name.capitalize(): _plain(name, letter[name]) if name in letter else None for name in _ABOUT},
        "Change": _NOTHING | {name: _plain(name, value) for name, value in change.items()},
    }


def _plain(name: str, value: dict[str, Any]) -> Any:
    """A member of a change as formats/plain.py tells it: items in DynamoDB JSON, all else in plain JSON."""
    ((kind, content),) = value.items()
    match kind:
        case "NULL":
            return None
        case _ if name in _IMAGES:
            return content if kind == "M" else None
        case "M":
            return {each: _plain(each, inner) for each, inner in content.items()}
        case "N":
            return int(content) if content.lstrip("-").isdecimal() else content
    return content


def _read(body: dict[str, Any]) -> tuple[str, str | None]:
    name, key = body.get("Name"), body.get("Key")
    if not isinstance(name, str) or not isinstance(key, str | None):
        raise ValidationError("Letters are asked for with a Name, and perhaps with the Key that one has")
    return name, key


def _images(body: dict[str, Any], member: str) -> dict[str, Item | None]:
    images = body.get(member)
    if (
        not isinstance(images, dict)
        or images.keys() != {"old", "new"}
        or not all(isinstance(image, dict | None) for image in images.values())
    ):
        raise ValidationError(f"{member} must have the images old and new, each an item or null")
    return images


def _stored(images: dict[str, Item | None]) -> Item:
    """Images as members of a payload."""
    return {side: {"NULL": True} if image is None else {"M": image} for side, image in images.items()}


def _answer(reply: Reply, result: dict[str, Any] | RequestError) -> None:
    if isinstance(result, RequestError):
        reply.error(result)
    else:
        reply.ok(orjson.dumps(result))
