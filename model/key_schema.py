"""Key schemas: encode the key attributes of an item as key bytes.

A key schema names the attributes of a primary key and reads them from items. Because every request needs that, a
schema creates its readers once: one closure for a key of one attribute, another for index keys of several attributes.

    one attribute         the value's own bytes               b"car"
    several attributes    one part after another, escaped     b"car\\0\\0" b"red\\0\\0"

Bytes compare as the values do, in both forms.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import orjson

from . import keys
from .errors import ValidationError
from .lazy_dataclass import dataclass
from .limits import Limits
from .values import Item, dump, names_size

KeyReader: TypeAlias = Callable[[Item], bytes | None]
KeyWriter: TypeAlias = Callable[[bytes, bytes], bytes]

_INVALID: Final = "One or more parameter values were invalid: "
_NOT_VALID: Final = "One or more parameter values are not valid. "
KEY_MISMATCH: Final = "The provided key element does not match the schema"


@dataclass(frozen=True, slots=True)
class KeyAttribute:
    """An attribute of a key and its type: "S", "N" or "B"."""

    name: str
    type: str

    def is_empty_in(self, item: Item) -> bool:
        """Return whether `item` has this attribute with its type and without content."""
        return item.get(self.name, {}).get(self.type) == ""


def empty_key_error(attribute: KeyAttribute) -> ValidationError:
    """Return the error for a key attribute without content."""
    kind = "string" if attribute.type == "S" else "binary"
    return ValidationError(
        f"{_NOT_VALID}The AttributeValue for a key attribute cannot contain an empty {kind} value. "
        f"Key: {attribute.name}"
    )


class KeySchema:
    """The attributes of a primary key, partition part and sort part.

    A table has one partition attribute and at most one sort attribute; a global secondary index up to four of each.

    Attributes:
        attributes: Partition attributes first, then sort attributes.
        pk: Return the partition key's bytes of an item; None if an attribute is missing or of another type.
        sk: The same for the sort key; b"" if the schema has no sort key.
        sort_part: The same in the composite form, which is the prefix of an index's sort key.
        write: Return the canonical bytes of an item that has only the key: `dump(decode(pk, sk))`, in less time.
        names_size: Add the lengths of pk and sk to get the size of that item; None if the attributes are no single
            strings.
    """

    __slots__ = (
        "_key_count",
        "attributes",
        "names",
        "names_size",
        "partition",
        "pk",
        "sk",
        "sort",
        "sort_part",
        "write",
    )

    pk: KeyReader
    sk: KeyReader
    sort_part: KeyReader
    write: KeyWriter

    def __init__(self, partition: tuple[KeyAttribute, ...], sort: tuple[KeyAttribute, ...] = ()) -> None:
        self.partition = partition
        self.sort = sort
        self.attributes = (*partition, *sort)
        self.names: tuple[str, ...] = tuple(attribute.name for attribute in self.attributes)
        self.pk = _reader(partition)
        self.sk = _reader(sort)
        self.sort_part = _parts_reader(sort)
        writer = _writer(partition, sort)
        self.write = writer or (lambda pk, sk: dump(self.decode(pk, sk)))
        self.names_size = None if writer is None else names_size(self.names)
        self._key_count = len(self.names)

    def read_key(self, key: Item, limits: Limits) -> tuple[bytes, bytes]:
        """Encode a request's Key, which must hold the key attributes and no others, as (pk, sk)."""
        pk, sk = self.pk(key), self.sk(key)
        if pk is None or sk is None or len(key) != self._key_count:
            raise ValidationError(KEY_MISMATCH)
        if (
            not 0 < len(pk) <= limits.partition_key_bytes
            or len(sk) > limits.sort_key_bytes
            or (self.sort and not sk)
        ):
            raise self._length_error(key, pk, limits)
        return pk, sk

    def item_key(self, item: Item, limits: Limits) -> tuple[bytes, bytes]:
        """Encode the key of an item to store as (pk, sk)."""
        pk, sk = self.pk(item), self.sk(item)
        if pk is None or sk is None:
            raise self._absence_error(item)
        if (
            not 0 < len(pk) <= limits.partition_key_bytes
            or len(sk) > limits.sort_key_bytes
            or (self.sort and not sk)
        ):
            raise self._length_error(item, pk, limits)
        return pk, sk

    def emptiness_error(self, item: Item) -> ValidationError | None:
        """Return the error for the first key attribute of `item` without content; None if all have content."""
        return next((empty_key_error(each) for each in self.attributes if each.is_empty_in(item)), None)

    def of(self, item: Item) -> Item:
        """Return the key attributes of an item."""
        return {name: item[name] for name in self.names}

    def decode(self, pk: bytes, sk: bytes) -> Item:
        """Decode (pk, sk) to the key attributes."""
        return {**_decode(self.partition, pk), **_decode(self.sort, sk)}

    def _absence_error(self, item: Item) -> ValidationError:
        for attribute in self.attributes:
            value = item.get(attribute.name)
            if value is None:
                return ValidationError(f"{_INVALID}Missing the key {attribute.name} in the item")
            actual = next(iter(value))
            if actual != attribute.type:
                return ValidationError(
                    f"{_INVALID}Type mismatch for key {attribute.name} expected: {attribute.type} actual: {actual}"
                )
        raise AssertionError("the item has every key attribute")

    def _length_error(self, item: Item, pk: bytes, limits: Limits) -> ValidationError:
        empty = self.emptiness_error(item)
        if empty is not None:
            return empty
        # DynamoDB writes the first of these without the space.
        if len(pk) > limits.partition_key_bytes:
            return ValidationError(
                f"{_INVALID}Size of hashkey has exceeded the maximum size limit of{limits.partition_key_bytes} bytes"
            )
        return ValidationError(
            f"{_INVALID}Aggregated size of all range keys has exceeded "
            f"the size limit of {limits.sort_key_bytes} bytes"
        )

    def to_json(self) -> list[list[str]]:
        """Return [name, type, role] for each attribute, in order."""
        return [
            *([attribute.name, attribute.type, "HASH"] for attribute in self.partition),
            *([attribute.name, attribute.type, "RANGE"] for attribute in self.sort),
        ]

    @classmethod
    def from_json(cls, data: list[list[str]]) -> "KeySchema":
        """Return the key schema that `to_json` wrote."""
        return cls(
            tuple(KeyAttribute(name, kind) for name, kind, role in data if role == "HASH"),
            tuple(KeyAttribute(name, kind) for name, kind, role in data if role == "RANGE"),
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeySchema) and (self.partition, self.sort) == (other.partition, other.sort)

    def __hash__(self) -> int:
        return hash((self.partition, self.sort))

    def __repr__(self) -> str:
        return f"KeySchema(partition={self.partition!r}, sort={self.sort!r})"


def _reader(attributes: tuple[KeyAttribute, ...]) -> KeyReader:
    if len(attributes) > 1:
        return _parts_reader(attributes)
    if not attributes:
        return _read_nothing
    return _string_reader(attributes[0].name) if attributes[0].type == "S" else _value_reader(attributes[0])


def _read_nothing(_: Item) -> bytes:
    return b""


def _string_reader(name: str) -> KeyReader:
    def read(item: Item) -> bytes | None:
        value = item.get(name)
        if value is None:
            return None
        text: Any = value.get("S")
        return None if text is None else str.encode(text)

    return read


def _value_reader(attribute: KeyAttribute) -> KeyReader:
    name, kind = attribute.name, attribute.type
    encode = keys.encode

    def read(item: Item) -> bytes | None:
        value = item.get(name)
        return None if value is None or kind not in value else encode(value)

    return read


def _parts_reader(attributes: tuple[KeyAttribute, ...]) -> KeyReader:
    readers = tuple(_reader((attribute,)) for attribute in attributes)
    if len(readers) == 1:
        return _part_reader(readers[0])

    def read(item: Item) -> bytes | None:
        parts = []
        for reader in readers:
            data = reader(item)
            if data is None:
                return None
            parts.append(keys.part(data))
        return b"".join(parts)

    return read


def _part_reader(reader: KeyReader) -> KeyReader:
    part = keys.part

    def read(item: Item) -> bytes | None:
        data = reader(item)
        return None if data is None else part(data)

    return read


def _writer(partition: tuple[KeyAttribute, ...], sort: tuple[KeyAttribute, ...]) -> KeyWriter | None:
    """Return a fast writer for the most common keys, single strings; None for others."""
    if len(partition) != 1 or len(sort) > 1 or any(each.type != "S" for each in (*partition, *sort)):
        return None
    pk_head = _head(partition[0])
    if not sort:
        return lambda pk, _: b"{%b%b}}" % (pk_head, orjson.dumps(pk.decode()))
    sk_head = _head(sort[0])
    if partition[0].name < sort[0].name:
        return lambda pk, sk: (
            b"{%b%b},%b%b}}" % (pk_head, orjson.dumps(pk.decode()), sk_head, orjson.dumps(sk.decode()))
        )
    return lambda pk, sk: (
        b"{%b%b},%b%b}}" % (sk_head, orjson.dumps(sk.decode()), pk_head, orjson.dumps(pk.decode()))
    )


def _head(attribute: KeyAttribute) -> bytes:
    return b'%b:{"S":' % orjson.dumps(attribute.name)


def _decode(attributes: tuple[KeyAttribute, ...], data: bytes) -> Item:
    parts = keys.split(data) if len(attributes) > 1 else [data]
    return {
        attribute.name: keys.decode(attribute.type, part)
        for attribute, part in zip(attributes, parts, strict=False)
    }
