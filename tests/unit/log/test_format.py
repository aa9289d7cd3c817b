"""FORMAT.md's example has the bytes of the code, and this version reads the log of every release."""

import json
import re
import shutil
from hashlib import blake2b
from pathlib import Path

import pytest

from foldb.log.binary import encode_command
from foldb.log.chain import Chain
from foldb.log.codec import CURRENT, encode_entry, fingerprint_of, schema_files
from foldb.log.commands import Entry, Genesis, Put, Record, new_context
from foldb.log.local import LocalLog, segment
from foldb.log.log import genesis_entry
from tests.unit.log.generate_golden import GOLDEN, number, text

TEXT = (Path(__file__).parents[3] / "log/FORMAT.md").read_text()
LOG_ID = b"an example's log"


def example() -> bytes:
    """The bytes of the document's example: pairs of hexadecimal digits, as far as a line has nothing else."""
    lines = TEXT.split("## An example")[1].split("```")[1].splitlines()
    columns = [re.match(r"(?:[0-9a-f]{2} )*[0-9a-f]{2}(?= {2,}|$)", line) for line in lines]
    return bytes.fromhex("".join(column[0] for column in columns if column))


def records() -> list[Record]:
    """The records of the example."""
    put = Put(1, b"car", b"", b'{"pk":{"S":"car"}}', 5, new_context("4Q1R", reason="typo"))
    entry = Entry(b"a process's life", 0, [put], salt=b"salt of an entry")
    return [
        Record(0, 0, 1_700_000_000_000, genesis_entry(LOG_ID, 0, 1)),
        Record(0, 1, 1_700_000_000_123, entry),
    ]


def example_rows() -> dict[str, list[str]]:
    """The rows of the table of the example's chain: the hexadecimal texts in each column."""
    lines = TEXT.split("Its chain begins")[1].split("## ")[0].splitlines()
    cells = [line.strip("|").split("|") for line in lines if line.startswith("|")]
    return {row[0].strip(): ["".join(re.findall(r"`(\w+)`", cell)) for cell in row[1:]] for row in cells}


def test_the_example_has_the_chain_of_the_code() -> None:
    genesis = genesis_entry(LOG_ID, 0, 1).commands[0]
    assert isinstance(genesis, Genesis)
    chain, rows = Chain(genesis), example_rows()

    for column, record in enumerate(records()):
        salt, [command] = record.entry.salt or b"", record.entry.commands
        leaf = blake2b(salt + encode_command(command), digest_size=16).digest()
        numbers = b"".join(each.to_bytes(8, "big") for each in (record.offset, record.time, 0))
        documented = numbers[:16] + record.entry.origin + numbers[16:] + leaf
        value = blake2b(chain.value + documented, digest_size=16).digest()
        chain.extend(record)

        assert leaf.hex() == rows["leaf"][column]
        assert numbers.hex() == rows["position, time, number"][column]
        assert chain.value.hex() == value.hex() == rows["value"][column]


def test_the_example_has_the_bytes_of_the_code() -> None:
    chain = segment.Chain.start(LOG_ID, partitions=1)
    header = segment.header(LOG_ID, CURRENT, chain)
    marker = segment.read_header(header).marker
    genesis, put = records()

    blocks = segment.block(chain, marker, 0, genesis.time, 0, encode_entry(genesis.entry))
    blocks += segment.block(chain, marker, 0, put.time, 0, encode_entry(put.entry))

    assert example().hex(" ") == blocks.hex(" ")
    assert f"header has {len(header):,} bytes" in TEXT
    assert marker.hex() in TEXT


def test_the_header_has_the_documented_keys_in_order() -> None:
    header = segment.header(LOG_ID, CURRENT, segment.Chain.start(LOG_ID, partitions=1))

    documented = re.findall(r"^\| `((?:avro|foldb)\.\w+)` \|", TEXT, re.MULTILINE)

    assert documented == list(segment._read_meta(header)[0])


def test_a_header_names_the_schema_that_its_fingerprint_names() -> None:
    header = segment.header(LOG_ID, CURRENT, segment.Chain.start(LOG_ID, partitions=1))
    meta = segment._read_meta(header)[0]
    fields = {field["name"]: field["type"] for field in json.loads(meta["avro.schema"])["fields"]}

    assert CURRENT == fingerprint_of(fields["entry"])
    assert CURRENT == segment.read_header(header).fingerprint


# Golden logs


@pytest.mark.guarantee("G18")
def test_every_released_schema_has_a_golden_log() -> None:
    assert [number(known) for known in schema_files()] == sorted(path.name for path in GOLDEN.iterdir())


@pytest.mark.guarantee("G18")
@pytest.mark.parametrize("folder", sorted(GOLDEN.iterdir()), ids=lambda folder: folder.name)
def test_a_golden_log_reads_as_it_did_when_it_was_written(folder: Path) -> None:
    reader = LocalLog.open_reader(folder)

    assert (folder / "expected.json").read_text() == text([*reader.read(0), *reader.read(1)])


@pytest.mark.parametrize("folder", sorted(GOLDEN.iterdir()), ids=lambda folder: folder.name)
def test_a_golden_log_can_be_gone_on_with(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "data"
    shutil.copytree(folder, path, ignore=shutil.ignore_patterns("expected.json"))

    log = LocalLog(path, clock=lambda: 0, deliver=print, random_bytes=bytes, on_fatal=print, create=False)
    records = [*log.read(0), *log.read(1)]
    log.close()

    assert (folder / "expected.json").read_text() == text(records)
