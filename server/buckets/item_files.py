r"""Items in files: DYNAMODB_JSON, ION and CSV, read and written as streams.

    DYNAMODB_JSON   {"Item":{"id":{"S":"o-1"},"total":{"N":"1.5"}}}
    ION             $ion_1_0 {Item:{id:"o-1",total:1.5}}
    CSV             o-1,1.5                                            after a header; imports only

A change of an incremental export has other members than Item:

    DYNAMODB_JSON   {"Metadata":{"WriteTimestampMicros":{"N":"..."}},"Keys":{...},"OldImage":{...},"NewImage":{...}}
    ION             $ion_1_0 {Record:{Metadata:{WriteTimestampMicros:...},Keys:{...},OldImage:{...},NewImage:{...}}}

A record is one line, except in CSV, where quotes can hold line ends. A malformed record is a result, with its line and
offset, and reading goes on behind it. An item that is read has passed the checks of a request, and is canonical.
"""

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, BinaryIO, Final, Generic, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

import orjson

from ...model.errors import RequestError
from ...model.lazy_dataclass import dataclass
from ...model.limits import MODERN
from ...model.values import Item, check_item, dump
from . import ion

ItemFormat: TypeAlias = Literal["DYNAMODB_JSON", "ION"]
"""The formats in which items are written."""

InputFormat: TypeAlias = Literal["DYNAMODB_JSON", "ION", "CSV"]
"""The formats in which items are read."""

RECORD_BYTES_MAX: Final = 16 << 20
"""A longer line is malformed, and is not read into memory: two images of 400 KB have less, also with all characters
escaped."""


class MalformedRecord(NamedTuple):
    """A record that is no item.

    Attributes:
        line: The number of its first line, from 1.
        offset: The bytes before it in the decompressed file.
        reason: A clause, such as "this is not JSON".
    """

    line: int
    offset: int
    reason: str


class ItemChange(NamedTuple):
    """The change of an item between two cuts: deleted if `new` is None.

    Attributes:
        key: The key attributes.
        old: The item before. It is None if there was none, and if the export has no old images.
        new: The item after.
        written_us: The time of the last write, in microseconds since 1970. None if the record has none.
    """

    key: Item
    old: Item | None
    new: Item | None
    written_us: int | None


@dataclass(frozen=True, slots=True)
class CsvOptions:
    """The options of CSV.

    Attributes:
        delimiter: The character between columns.
        header: The names of the columns. None: the first line has them.
        types: The types of the key attributes: S, N or B. All other attributes are strings.
    """

    delimiter: str = ","
    header: Sequence[str] | None = None
    types: Mapping[str, str] = field(default_factory=dict)


class RecordError(Exception):
    """A record is malformed. The text is the reason."""


T = TypeVar("T")


class _Place(Protocol):
    """The place of the last record: the number of its first line, from 1, and the bytes before it."""

    line: int
    offset: int


class Records(Generic[T], Iterator[T | MalformedRecord]):
    """The records of a file, in its order, each parsed or malformed."""

    def __init__(self, place: _Place, records: Iterator[T | MalformedRecord]) -> None:
        self._place = place
        self._records = records

    def __next__(self) -> T | MalformedRecord:
        return next(self._records)

    @property
    def line(self) -> int:
        """The number of the first line of the last record, from 1."""
        return self._place.line


# Writing


def encode_item(item: Item, file_format: ItemFormat) -> bytes:
    """Return the line of a canonical item, with its line end."""
    if file_format == "DYNAMODB_JSON":
        return b'{"Item":%b}\n' % dump(item)
    return b"%b {Item:%b}\n" % (ion.VERSION_MARKER, ion.write_struct(item))


def encode_change(change: ItemChange, file_format: ItemFormat) -> bytes:
    """Return the line of a change, with its line end."""
    is_json = file_format == "DYNAMODB_JSON"
    write: Callable[[Item], bytes] = dump if is_json else ion.write_struct
    time: Item = {"WriteTimestampMicros": {"N": str(change.written_us or 0)}}
    members: list[tuple[str, Item | None]] = [
        ("Metadata", time),
        ("Keys", change.key),
        ("OldImage", change.old),
        ("NewImage", change.new),
    ]
    name = '"%s":' if is_json else "%s:"
    body = b",".join((name % each).encode() + write(image) for each, image in members if image is not None)
    return b"{%b}\n" % body if is_json else b"%b {Record:{%b}}\n" % (ion.VERSION_MARKER, body)


# Reading


def read_items(file: BinaryIO, file_format: InputFormat, csv: CsvOptions | None = None) -> Records[Item]:
    """Return the items of a file.

    Iterating raises DamagedFileError if the compressed data is damaged, and MissingExtraError if the format needs a
    library that is not installed.
    """
    if file_format == "CSV":
        rows = _Rows(_Lines(file), csv or CsvOptions())
        return Records(rows, rows.items())
    return read_lines(file, _json_item if file_format == "DYNAMODB_JSON" else _ion_item)


def read_changes(file: BinaryIO, file_format: ItemFormat) -> Records[ItemChange]:
    """Return the changes of a file of an incremental export. The errors are those of `read_items`."""
    return read_lines(file, _json_change if file_format == "DYNAMODB_JSON" else _ion_change)


def read_lines(file: BinaryIO, parse: Callable[[bytes], T]) -> Records[T]:
    """Return the records of a file of lines, of which `parse` raises RecordError for a malformed one."""
    lines = _Lines(file)
    return Records(lines, _parsed(lines, parse))


def canonical(item: Item, name: str) -> Item:
    """Check an item as that of a request, make it canonical, and return it.

    Raises:
        RecordError: The item is not valid. The error calls it `name`.
    """
    try:
        check_item(item, MODERN)
    except RequestError as error:
        raise RecordError(f"{name}: {error}") from None
    return item


class _Lines:
    """The lines of a file.

    Attributes:
        line: The number of the last line, from 1.
        offset: The offset of the last line.
        is_over: Whether the end of the file is reached.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.line = 0
        self.offset = 0
        self.is_over = False
        self._file = file
        self._end = 0

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        """Return the next line.

        Raises:
            RecordError: The line is too long. The next call returns the line after it.
        """
        data = self._file.readline(RECORD_BYTES_MAX)
        if not data:
            self.is_over = True
            raise StopIteration
        self.line += 1
        self.offset = self._end
        self._end += len(data)
        if len(data) < RECORD_BYTES_MAX or data.endswith(b"\n"):
            return data
        while not data.endswith(b"\n") and (data := self._file.readline(RECORD_BYTES_MAX)):
            self._end += len(data)
        raise RecordError(f"the line is longer than {RECORD_BYTES_MAX >> 20} MiB")


def _parsed(lines: _Lines, parse: Callable[[bytes], T]) -> Iterator[T | MalformedRecord]:
    while True:
        try:
            line = next(lines, b"").strip()
            if line and line != ion.VERSION_MARKER:
                yield parse(line)
            elif lines.is_over:
                return
        except RecordError as error:
            yield MalformedRecord(lines.line, lines.offset, str(error))


def _json_item(line: bytes) -> Item:
    return _item_of(_json_members(line), _same)


def _ion_item(line: bytes) -> Item:
    return _item_of(_ion_members(line), _ion_item_of)


def _json_change(line: bytes) -> ItemChange:
    return _change_of(_json_members(line), _same)


def _ion_change(line: bytes) -> ItemChange:
    members = _ion_members(line)
    if "Record" in members:
        members = _ion_item_of(members["Record"])
    return _change_of(members, _ion_item_of)


def _json_members(line: bytes) -> dict[str, Any]:
    try:
        members = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise RecordError(f"this is not JSON: {error}") from None
    if type(members) is not dict:
        raise RecordError("this is not a JSON object")
    return members


def _ion_members(line: bytes) -> dict[str, Any]:
    try:
        return ion.read(line)
    except ion.IonError as error:
        raise RecordError(str(error)) from None


def _ion_item_of(value: Any) -> Item:
    try:
        return ion.read_item(value)
    except ion.IonError as error:
        raise RecordError(str(error)) from None


def _same(image: Any) -> Any:
    return image


def _item_of(members: dict[str, Any], read: Callable[[Any], Any]) -> Item:
    if "Item" not in members:
        has_change = "Keys" in members or "Record" in members
        raise RecordError("this is a change of an incremental export" if has_change else "Item is missing")
    return _checked(members["Item"], read, "Item")


def _change_of(members: dict[str, Any], read: Callable[[Any], Any]) -> ItemChange:
    if "Keys" not in members:
        raise RecordError("this is an item of a full export" if "Item" in members else "Keys is missing")
    old, new = (
        _checked(members[name], read, name) if name in members else None for name in ("OldImage", "NewImage")
    )
    written = _checked(members["Metadata"], read, "Metadata") if "Metadata" in members else {}
    time = written.get("WriteTimestampMicros", {}).get("N", "")
    return ItemChange(
        _checked(members["Keys"], read, "Keys"), old, new, int(time) if time.isdigit() else None
    )


def _checked(image: Any, read: Callable[[Any], Any], name: str) -> Item:
    """Return the item of an image."""
    return canonical(read(image), name)


class _Rows:
    """The rows of a CSV file.

    Attributes:
        line, offset: The place of the first line of the last row.
    """

    def __init__(self, lines: _Lines, options: CsvOptions) -> None:
        self.line = 0
        self.offset = 0
        self._lines = lines
        self._options = options
        self._is_first = False
        # A limit of the whole process, 128 KB by default: a column may have an attribute of 400 KB.
        if csv.field_size_limit() < RECORD_BYTES_MAX:
            csv.field_size_limit(RECORD_BYTES_MAX)
        self._reader = csv.reader(map(self._text, lines), delimiter=options.delimiter, strict=True)

    def items(self) -> Iterator[Item | MalformedRecord]:
        """Yield the items. An empty column is no attribute."""
        header = self._options.header
        while not self._lines.is_over:
            try:
                row = self._next()
                if header is None and row:
                    header = _header_of(row)
                elif row:
                    assert header is not None, "the first row is the header"
                    yield _item_of_row(row, header, self._options.types)
            except RecordError as error:
                self._begin()
                yield MalformedRecord(self.line, self.offset, str(error))
                if header is None:
                    return  # the columns have no names

    def _next(self) -> list[str]:
        """Return the next row; an empty one at the end.

        Raises:
            RecordError: The row is malformed. The next call returns the row behind it.
        """
        self._is_first = True
        try:
            return next(self._reader, [])
        except csv.Error as error:
            raise RecordError(f"this is not CSV: {error}") from None

    def _begin(self) -> None:
        """Set the place of the row, if this is its first line."""
        if self._is_first:
            self.line, self.offset, self._is_first = self._lines.line, self._lines.offset, False

    def _text(self, line: bytes) -> str:
        self._begin()
        # A byte that is not UTF-8 fails the check of its row, which is behind all lines of the row.
        return line.decode("utf-8-sig" if self._lines.line == 1 else "utf-8", "surrogateescape")


def _header_of(row: list[str]) -> list[str]:
    _check_text(row)
    if len(set(row)) < len(row) or "" in row:
        raise RecordError("the header has an empty or a repeated name")
    return row


def _item_of_row(row: list[str], header: Sequence[str], types: Mapping[str, str]) -> Item:
    if len(row) != len(header):
        raise RecordError(f"the row has {len(row)} columns, and the header {len(header)}")
    _check_text(row)
    item = {name: {types.get(name, "S"): text} for name, text in zip(header, row, strict=True) if text}
    return _checked(item, _same, "the row")


def _check_text(row: Sequence[str]) -> None:
    for text in row:
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:
                raise RecordError("the text is not UTF-8") from None
