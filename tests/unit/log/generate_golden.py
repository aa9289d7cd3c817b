"""Makes the golden log of the current schema, once, when the schema is released: python
tests/unit/log/generate_golden.py

    golden/<number>/00000000000000000000.avro, mark      a log as this version writes it
    golden/<number>/expected.json                       what it decodes to, in plain JSON

A golden log stays for ever. It is what makes sure that a later version reads what this one wrote.
"""

import dataclasses
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from foldb.log.codec import CURRENT, schema_files
from foldb.log.commands import Context, LoadedItem, Record
from foldb.log.local import LocalLog

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.unit.log.samples import CONTEXT_FIELDS, in_schema, one_of_each, put_entry

GOLDEN = Path(__file__).parent / "golden"
UNWRITTEN = ("plan", "parsed")
LATER = ("reason", "salt")  # fields that schema 003 lacks


def number(known: bytes) -> str:
    """The number that a schema's file has."""
    return schema_files()[known].name.split("-")[1]


def plain(value: Any) -> Any:
    """A record in JSON: dataclasses by name and fields, bytes in hexadecimal. LATER fields are left out if None."""
    if isinstance(value, Context):
        return {"Context": without_later(dict(zip(CONTEXT_FIELDS, value.fields(), strict=True)))}
    if isinstance(value, LoadedItem):
        return {"LoadedItem": {name: plain(each) for name, each in value._asdict().items()}}
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value) if field.name not in UNWRITTEN]
        fields = without_later({name: getattr(value, name) for name in names})
        return {type(value).__name__: {in_schema(value, name): plain(each) for name, each in fields.items()}}
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value


def without_later(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields that older golden logs have, and later ones that are filled."""
    return {name: value for name, value in fields.items() if name not in LATER or value is not None}


def text(records: Iterable[Record]) -> str:
    """Records as expected.json has them."""
    return json.dumps([plain(record) for record in records], indent=1, ensure_ascii=False) + "\n"


def ticks() -> Iterator[int]:
    """Milliseconds, a second apart."""
    time_ms = 1_700_000_000_000
    while True:
        yield time_ms
        time_ms += 1000


def main() -> None:
    folder = GOLDEN / number(CURRENT)
    if folder.exists():
        raise SystemExit(f"{folder} is there already: a golden log is never made again")
    log = LocalLog(
        folder,
        clock=ticks().__next__,
        deliver=lambda callback: callback(),
        random_bytes=lambda size: b"golden log      "[:size],
        on_fatal=lambda error: None,
        partitions=2,
    )
    for place, entry in enumerate([*one_of_each(), *(put_entry(n) for n in range(3))]):
        log.append(place % 2, entry, lambda result: None)
    log.close()
    (folder / "lock").unlink()
    reader = LocalLog.open_reader(folder)
    (folder / "expected.json").write_text(text([*reader.read(0), *reader.read(1)]))


if __name__ == "__main__":
    main()
