"""Dead letters: changes that a subscription could not deliver, in its dead-letter table.

ListDeadLetters     {"Name", "Key"?, "Limit"?}    {"DeadLetters": [{"Key", "Number", "Change", "Error", ...}], "Count"}
RetryDeadLetters    {"Name", "Key"?, "Limit"?}    {"Delivered", "Failed", "Left"}: in order, one retry at a time
DropDeadLetters     {"Name", "Key"?}              {"Dropped"}
EditDeadLetter      {"Name", "Key", "Number", "Before": {"old", "new"}, "After": {"old", "new"}}    {}

Key is the dead letter's own key. A retry delivers `Change`. An UpdateItem of `payload` edits it, unless the dead letter
is larger than an item may be: EditDeadLetter edits those, too, if the images are as in Before.
"""

from typing import Any, Final

from ....model.errors import ConditionalCheckFailedError, ValidationError
from ....model.values import Item, check_item
from ...auth.rights import Right
from ...node import Node
from ...subscriptions.dead_letters import DeadLetterTable
from ..operation import admin_operation
from ..reply import Caller
from .start_positions import read_integer

_LIMIT: Final = 100
_HIGHEST_LIMIT: Final = 10_000
_IMAGES: Final = frozenset(("keys", "old", "new"))
_ABOUT: Final = (
    "error", "traceback", "first", "last", "version", "subscription", "attempts", "partition",
)  # fmt: skip
_NO_CHANGE: Final = {"op": None, "keys": None, "old": None, "new": None}


@admin_operation("ListDeadLetters", Right.READ)
async def list_dead_letters(node: Node, body: dict[str, Any], _: Caller) -> dict[str, Any]:
    """Return the dead letters of one key or of all keys, those of a key in order."""
    name, key = _read(body)
    limit = read_integer(body, "Limit", _LIMIT, 1, _HIGHEST_LIMIT)
    table = DeadLetterTable(node, node.subscription(name).settings["DeadLetterTable"], name)
    shown, count = list[dict[str, Any]](), 0
    async for dead_letter in table.read(key):
        count += 1
        if count <= limit:
            shown.append(described(dead_letter))
    return {"DeadLetters": shown, "Count": count}


@admin_operation("RetryDeadLetters", Right.ADMIN)
async def retry_dead_letters(node: Node, body: dict[str, Any], _: Caller) -> dict[str, Any]:
    """Deliver dead letters again."""
    name, key = _read(body)
    limit = None if body.get("Limit") is None else read_integer(body, "Limit", _LIMIT, 1, _HIGHEST_LIMIT)
    return await node.triggers.retry(name, key, limit)


@admin_operation("DropDeadLetters", Right.ADMIN)
async def drop_dead_letters(node: Node, body: dict[str, Any], _: Caller) -> dict[str, Any]:
    """Remove dead letters without delivering them."""
    name, key = _read(body)
    return await node.triggers.drop(name, key)


@admin_operation("EditDeadLetter", Right.ADMIN)
async def edit_dead_letter(node: Node, body: dict[str, Any], _: Caller) -> dict[str, Any]:
    """Replace the images of a dead letter, unless another edit was faster."""
    name, key = _read(body)
    sequence_number = body.get("Number")
    if key is None or not isinstance(sequence_number, str):
        raise ValidationError("EditDeadLetter takes the Key and the Number of the dead letter")
    before, after = _images(body, "Before"), _images(body, "After")
    for image in filter(None, after.values()):
        check_item(image, node.state.limits)
    table = DeadLetterTable(node, node.subscription(name).settings["DeadLetterTable"], name)
    if not await table.edit((key, sequence_number), _stored(before), _stored(after)):
        raise ConditionalCheckFailedError
    return {}


def described(dead_letter: Item) -> dict[str, Any]:
    """Return a dead letter in the form of the API. An absent image is None; edited members stay as they are."""
    change = dead_letter.get("payload", {}).get("M", {})
    return {
        "Key": dead_letter["key"]["S"],
        "Number": dead_letter["number"]["S"],
        **{
            name.capitalize(): _plain(name, dead_letter[name]) if name in dead_letter else None
            for name in _ABOUT
        },
        "Change": _NO_CHANGE | {name: _plain(name, value) for name, value in change.items()},
    }


def _plain(name: str, value: dict[str, Any]) -> Any:
    """Return a member of a change as formats/plain.py has it: items in DynamoDB JSON, other members in plain JSON."""
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
        raise ValidationError("Name must be the name of a subscription, and Key the key of a dead letter")
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
    """Return images as members of a payload."""
    return {side: {"NULL": True} if image is None else {"M": image} for side, image in images.items()}
