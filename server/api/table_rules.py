"""DynamoDB's rules for table requests that only the server applies, before it writes the command.

`model.table_requests` defines the meaning of a table command for the fold of every log. A log may contain requests that
an earlier release accepted, so a later rule that refuses one of them belongs here.
"""

from collections.abc import Sequence
from typing import Any, Final
from unicodedata import category

from ...model.errors import ValidationError
from ...model.index_requests import INVALID, attribute_types
from ...model.table_requests import CHANGES

# Changes that a request has alone, in the order in which DynamoDB names them.
_ALONE: Final = {
    "SSESpecification": "Server-Side Encryption modification",
    "TableClass": "TableClass modification",
    "DeletionProtectionEnabled": "DeletionProtection modification",
    "WarmThroughput": "WarmThroughput",
}
# DynamoDB's text names BillingMode alone. Limits of indexes are changed with those of their table.
_WITH_ON_DEMAND: Final = {"OnDemandThroughput", "BillingMode", "GlobalSecondaryIndexUpdates"}

_TABLE_CLASSES: Final = ("STANDARD", "STANDARD_INFREQUENT_ACCESS")

# Allowed in addition to letters, digits and spaces of any script.
_TAG_CHARACTERS: Final = frozenset("+-=._:/@")
_LETTERS_SPACES_NUMBERS: Final = frozenset("LZN")  # the first letters of Unicode's categories


def admit(operation: str, request: dict[str, Any]) -> dict[str, Any]:
    """Return the request as it is written to the log: an UpdateTable without its unused AttributeDefinitions.

    Raises:
        ValidationError: The request breaks one of these rules.
    """
    _refuse_without_effect(operation, request)
    match operation:
        case "CreateTable":
            _check_tags(request.get("Tags", ()))
            _check_projections(request.get("LocalSecondaryIndexes", ()))
            _check_projections(request.get("GlobalSecondaryIndexes", ()))
        case "TagResource":
            _check_tags(request["Tags"])
        case "UpdateTable":
            _check_combination(request)
            updates = request.get("GlobalSecondaryIndexUpdates", ())
            created = [update["Create"] for update in updates if "Create" in update]
            _check_projections(created)
            return _with_definitions_of(created, request)
    return request


def _refuse_without_effect(operation: str, body: dict[str, Any]) -> None:
    """Refuse members of a CreateTable or UpdateTable that the fold ignores.

    The fold keeps ignoring them, because logs may contain them: the meaning of a command never changes.

    Raises:
        ValidationError: The request has such a member.
    """
    if body.get("GlobalSecondaryIndexUpdates") == []:
        raise ValidationError(f"{INVALID}List of GlobalSecondaryIndexUpdates is empty")
    if body.get("TableClass", "STANDARD") not in _TABLE_CLASSES:
        raise ValidationError(
            "Invalid table-class parameter provided. Please try again with a valid table-class value: "
            f"[{', '.join(_TABLE_CLASSES)}]."
        )
    encryption = body.get("SSESpecification", {})
    for name in ("SSEType", "KMSMasterKeyId"):
        if name in encryption and not encryption.get("Enabled", False):
            raise ValidationError(f"{INVALID}{name} can not be specified if Enabled is false")
    stream = body.get("StreamSpecification", {})
    if operation == "UpdateTable" and "StreamViewType" in stream and not stream["StreamEnabled"]:
        raise ValidationError(
            f"{INVALID}If stream is being disabled, then UpdateViewType must not be specified"
        )


def _check_combination(request: dict[str, Any]) -> None:
    """Check that the changes of an UpdateTable may be in one request: almost each is one of its own.

    Raises:
        ValidationError: The request has changes that exclude each other.
    """
    changes = {name for name in CHANGES if request.get(name) not in (None, [])}
    kinds = {kind for update in request.get("GlobalSecondaryIndexUpdates") or () for kind in update}
    if "WarmThroughput" in changes and "Create" in kinds:
        raise ValidationError(
            f"{INVALID}Create global secondary index cannot be specified when updating WarmThroughput"
        )
    for name, words in _ALONE.items():
        if name in changes and len(changes) > 1:
            raise ValidationError(f"{INVALID}{words} must be the only operation in the request")
    if "OnDemandThroughput" in changes and not changes <= _WITH_ON_DEMAND:
        raise ValidationError(
            f"{INVALID}OnDemandThroughput can only be combined with BillingMode in an UpdateTable request"
        )
    provisions = "ProvisionedThroughput" in changes or request.get("BillingMode") == "PROVISIONED"
    if "StreamSpecification" in changes and provisions:
        raise ValidationError(f"{INVALID}You cannot modify stream status while updating table IOPS")
    for name, words in (
        ("ProvisionedThroughput", "updating table IOPS"),
        ("StreamSpecification", "changing stream status"),
    ):
        if name in changes and kinds & {"Create", "Delete"}:
            raise ValidationError(f"{INVALID}You cannot create or delete index while {words}")


def _check_tags(tags: Sequence[dict[str, str]]) -> None:
    """Check the characters of tags. UntagResource accepts all characters: it also removes tags older than this rule."""
    for tag in tags:
        for member in ("Key", "Value"):
            if not all(map(_is_of_a_tag, tag[member])):
                raise ValidationError(f"The Tag {member} provided is invalid, {member}: {tag[member]}")


def _is_of_a_tag(character: str) -> bool:
    return character in _TAG_CHARACTERS or category(character)[0] in _LETTERS_SPACES_NUMBERS


def _check_projections(indexes: Sequence[dict[str, Any]]) -> None:
    for index in indexes:
        seen: set[str] = set()
        for name in index["Projection"].get("NonKeyAttributes", ()):
            if name in seen:
                raise ValidationError(f"{INVALID}Duplicate element in NonKeyAttributes: {name}")
            seen.add(name)


def _with_definitions_of(indexes: Sequence[dict[str, Any]], request: dict[str, Any]) -> dict[str, Any]:
    """Return the request with only the definitions of these indexes' key attributes.

    Each has to be in the request, even if the table has it already.
    """
    definitions = request.get("AttributeDefinitions")
    if definitions is None:
        if indexes:
            name = indexes[0]["IndexName"]
            raise ValidationError(f"{INVALID}AttributeDefinitions is not specified for index: {name}")
        return request
    types = attribute_types(definitions)
    used: set[str] = set()
    for index in indexes:
        names = [element["AttributeName"] for element in index["KeySchema"]]
        if any(name not in types for name in names):
            raise ValidationError(
                f"{INVALID}Some index key attributes are not defined in AttributeDefinitions. "
                f"Keys: [{', '.join(names)}], AttributeDefinitions: [{', '.join(types)}]"
            )
        used.update(names)
    kept = [definition for definition in definitions if definition["AttributeName"] in used]
    return {**request, "AttributeDefinitions": kept}
