"""The errors of an item whose attributes cannot be keys of its table's indexes.

Every write of an item in a table with indexes checks them, and usually finds none.
"""

from typing import Final

from .errors import ValidationError
from .key_schema import KeyAttribute
from .keys import encode
from .limits import Limits
from .tables import IndexDefinition, TableDefinition
from .values import Item

_KEY_BYTES_OF_A_CHARACTER: Final = 4  # at most, in UTF-8; the digits of a number and base64 take less


def index_key_error(
    definition: TableDefinition, item: Item, limits: Limits, *, updated: bool = False
) -> ValidationError | None:
    """Return the error for an attribute of `item` that is invalid as an index key, or None.

    A missing attribute is not an error: the item has no entry in the index. Of several indexes DynamoDB names the one
    whose name is first. For an item that an update expression computed (`updated`), the text of one error differs.
    """
    first: ValidationError | None = None
    name = ""
    for index in definition.indexes:
        error = key_error_of_index(index, item, limits, updated=updated)
        if error is not None and (first is None or index.name < name):
            first, name = error, index.name
    return first


def key_error_of_index(
    index: IndexDefinition, item: Item, limits: Limits, *, updated: bool = False
) -> ValidationError | None:
    """Return the error of `item` for one index, or None."""
    characters = 0
    for attribute in index.key.attributes:
        value = item.get(attribute.name)
        if value is None:
            continue
        content = value.get(attribute.type)
        if content is None:
            return ValidationError(
                f"One or more parameter values were invalid: Type mismatch for Index Key {attribute.name} "
                f"Expected: {attribute.type} Actual: {next(iter(value))} IndexName: {index.name}"
            )
        if content == "":
            return _empty_index_key_error(index, attribute, updated=updated)
        characters += len(content)
    if characters * _KEY_BYTES_OF_A_CHARACTER <= limits.sort_key_bytes:
        return None
    return _index_key_length_error(index, item, limits)


def empty_key_of_item_error(definition: TableDefinition, item: Item) -> ValidationError | None:
    """Return the error for the first key attribute of `item` without content, of the table or an index, or None."""
    empty = definition.key.emptiness_error(item)
    if empty is not None:
        return empty
    for index in definition.indexes:
        for attribute in index.key.attributes:
            if attribute.is_empty_in(item):
                return _empty_index_key_error(index, attribute, updated=False)
    return None


def _empty_index_key_error(
    index: IndexDefinition, attribute: KeyAttribute, *, updated: bool
) -> ValidationError:
    kind = "string" if attribute.type == "S" else "binary"
    empty = f"The AttributeValue for a key attribute cannot contain an empty {kind} value."
    if updated:
        return ValidationError(
            "One or more parameter values are not valid. The update expression attempted to update a secondary "
            f"index key to a value that is not supported. {empty}"
        )
    return ValidationError(
        "One or more parameter values are not valid. A value specified for a secondary index key is not supported. "
        f"{empty} IndexName: {index.name}, IndexKey: {attribute.name}"
    )


def _index_key_length_error(index: IndexDefinition, item: Item, limits: Limits) -> ValidationError | None:
    prefix = "One or more parameter values were invalid: "
    if _key_bytes(index.key.partition, item) > limits.partition_key_bytes:
        return ValidationError(
            f"{prefix}Size of hashkey has exceeded the maximum size limit of{limits.partition_key_bytes} bytes"
        )
    if _key_bytes(index.key.sort, item) > limits.sort_key_bytes:
        return ValidationError(
            f"{prefix}Aggregated size of all range keys has exceeded "
            f"the size limit of {limits.sort_key_bytes} bytes"
        )
    return None


def _key_bytes(attributes: tuple[KeyAttribute, ...], item: Item) -> int:
    return sum(len(encode(item[attribute.name])) for attribute in attributes if attribute.name in item)
