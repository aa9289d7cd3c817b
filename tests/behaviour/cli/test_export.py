"""`foldb export` and `foldb import`: every format, changes between cuts, interruptions and malformed records."""

import gzip
import json
import random
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pyarrow.json
import pyarrow.parquet
import pytest

import foldb
from foldb.cli.commands import export, import_
from foldb.cli.lib import export_targets
from foldb.cli.lib.batch_writer import BatchWriter
from foldb.cli.lib.client import Client
from foldb.cli.lib.errors import CommandError, ExitCode
from foldb.cli.lib.import_sources import chain_of
from foldb.cli.lib.resume import StateFile
from foldb.model.values import Item, dump
from foldb.server.buckets.export_layout import Export
from tests.behaviour.cli.conftest import Foldb, at, lines
from tests.behaviour.cli.consoles import DOCS, steps
from tests.unit.server.buckets.test_item_files import BOOK, BOOK_IN_ION

FILES = ["Things.jsonl", "Things.json.gz", "Things.ion.zst", "Things.parquet", "bucket"]

VALUES: list[Any] = [
    {"S": "b64:x"},
    {"S": "ü\n\"'"},
    {"N": "-0.00000000000000000000000000000000000001"},
    {"N": "99999999999999999999999999999999999999"},
    {"N": "1200"},
    {"B": "AAE="},
    {"BOOL": True},
    {"NULL": True},
    {"SS": ["$set", "b"]},
    {"NS": ["-1", "10"]},
    {"BS": ["/w=="]},
    {"L": [{"M": {"$set": {"L": []}}}, {"S": ""}]},
    {"M": {}},
]


class Database:
    """A table `Things` with random items, and the database that it is in."""

    def __init__(self, cli: Foldb, url: str) -> None:
        self.cli = cli
        self.client = Client(url)
        self.dice = random.Random(7)
        lines(cli("table", "create", "Things", "id:S", "n:N", "--gsi", "kinds=kind:S"))

    def put(self, number: int) -> None:
        key: Item = {"id": {"S": f"i{number % 7}"}, "n": {"N": str(number)}}
        rest = {f"a {each}": self.dice.choice(VALUES) for each in range(self.dice.randrange(4))}
        self.client.call("PutItem", {"TableName": "Things", "Item": key | rest})

    def change(self, count: int) -> None:
        """Put and delete random items."""
        for _ in range(count):
            number = self.dice.randrange(60)
            if self.dice.random() < 0.3:
                key = {"id": {"S": f"i{number % 7}"}, "n": {"N": str(number)}}
                self.client.call("DeleteItem", {"TableName": "Things", "Key": key})
            else:
                self.put(number)

    def cut(self) -> str:
        """Return the present as a time, which is exact in all partitions."""
        return export.resolved(self.client, "Things", "-0")

    def items(self, table: str) -> list[bytes]:
        """Return the canonical bytes of all items."""
        answer = self.client.call("Scan", {"TableName": table, "ConsistentRead": True})
        assert "LastEvaluatedKey" not in answer
        return sorted(map(dump, answer["Items"]))

    def imported(self, table: str, source: Path, *options: str) -> dict[str, Any]:
        """Import a source into a new table, and return the output."""
        [row] = lines(self.cli("import", table, str(source), "--create", "id:S n:N", *options))
        return dict(row)


@pytest.fixture
def url() -> Iterator[str]:
    """Return a database in memory, whose history needs no process of its own."""
    with foldb.serve(partitions=3) as server:
        yield server.endpoint_url


@pytest.fixture
def things(cli: Foldb, url: str) -> Iterator[Database]:
    database = Database(cli, url)
    for number in range(40):
        database.put(number)
    yield database
    database.client.close()


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.spec("X12")
@pytest.mark.parametrize("name", FILES)
def test_an_export_is_imported_with_the_same_items(things: Database, tmp_path: Path, name: str) -> None:
    [row] = lines(things.cli("export", "Things", str(tmp_path / name)))

    assert things.imported("Copies", tmp_path / name) == {"table": "Copies", "records": 40, "refused": 0}
    assert row["items"] == 40
    assert things.items("Things") == things.items("Copies")
    assert not [path for path in files_of(tmp_path) if "foldb" in path or path.endswith(".part")]


def test_typed_lines_are_dynamodb_json(things: Database, tmp_path: Path) -> None:
    lines(things.cli("export", "Things", str(tmp_path / "a.jsonl"), "--typed"))

    assert things.items("Things") == sorted((tmp_path / "a.jsonl").read_bytes().splitlines())
    things.imported("Copies", tmp_path / "a.jsonl", "--typed")
    assert things.items("Things") == things.items("Copies")


def test_an_export_in_ion_has_dynamodb_s_layout(things: Database, tmp_path: Path) -> None:
    [row] = lines(things.cli("export", "Things", str(tmp_path / "exports"), "--format", "ion"))

    folder = tmp_path / "exports" / "AWSDynamoDB" / row["export"]
    assert {"_started", "data", "manifest-files.json", "manifest-files.md5", "manifest-summary.json",
            "manifest-summary.md5"} == {path.name for path in folder.iterdir()}  # fmt: skip
    summary = orjson.loads((folder / "manifest-summary.json").read_bytes())
    assert (40, "ION", "exports", "FULL_EXPORT") == tuple(
        summary[name] for name in ("itemCount", "outputFormat", "s3Bucket", "exportType")
    )
    assert summary["exportTime"] == row["as_of"]
    things.imported("Copies", folder)
    assert things.items("Things") == things.items("Copies")


def test_pyarrow_reads_the_items_of_an_export(things: Database, tmp_path: Path) -> None:
    lines(things.cli("export", "Things", str(tmp_path / "a.parquet")))

    table = pyarrow.parquet.read_table(tmp_path / "a.parquet")

    assert ["id", "n", "item"] == table.column_names
    assert things.items("Things") == sorted(text.encode() for text in table["item"].to_pylist())
    for row in table.to_pylist():
        item = orjson.loads(row["item"])
        assert (row["id"], row["n"]) == (item["id"]["S"], item["n"]["N"])


def test_pyarrow_reads_dynamodb_s_layout(things: Database, tmp_path: Path) -> None:
    lines(things.cli("export", "Things", str(tmp_path)))
    [path] = tmp_path.rglob("*.json.gz")

    with gzip.open(path) as data:
        rows = pyarrow.json.read_json(data).to_pylist()

    assert things.items("Things") == sorted(dump(without_nulls(row["Item"])) for row in rows)


def without_nulls(value: Any) -> Any:
    """Return a value without the members that only other rows have."""
    if isinstance(value, dict):
        return {name: without_nulls(member) for name, member in value.items() if member is not None}
    return [without_nulls(element) for element in value] if isinstance(value, list) else value


def test_the_past_is_exported(things: Database, tmp_path: Path) -> None:
    before = things.items("Things")
    cut = things.cut()
    things.change(20)

    for name in ("a.json", "bucket"):
        lines(things.cli("export", "Things", str(tmp_path / name), "--as-of", cut))
        things.imported(f"Copies{name[0]}", tmp_path / name)
        assert before == things.items(f"Copies{name[0]}")
    lines(things.cli("table", "delete", "Things", "--yes"))
    lines(things.cli("export", "Things", str(tmp_path / "b.json"), "--as-of", cut))
    assert files_of(tmp_path)["a.json"] == files_of(tmp_path)["b.json"]


def test_the_past_of_another_log_is_exported(things: Database, tmp_path: Path) -> None:
    with foldb.serve(tmp_path / "data", fsync="never") as another:
        other = Database(at(another.endpoint_url), another.endpoint_url)
        for number in range(5):
            other.put(number)
        before, position = other.items("Things"), str(other.client.position)
        other.change(20)
        other.client.close()
    out = tmp_path / "a.ion"

    lines(things.cli("export", "Things", str(out), "--as-of", position, "--log", str(tmp_path / "data")))

    things.imported("Copies", out)
    assert before == things.items("Copies")


@pytest.mark.spec("X12")
def test_increments_in_order_equal_a_full_export(things: Database, tmp_path: Path) -> None:
    """The folder has a full export, three increments, and the exports of another table."""
    bucket, seed = tmp_path / "bucket", []
    lines(things.cli("table", "create", "Others", "id:S"))
    lines(things.cli("export", "Others", str(bucket)))
    cut = lines(things.cli("export", "Things", str(bucket)))[0]["as_of"]
    for _ in range(3):
        things.change(25)
        [row] = lines(things.cli("export", "Things", str(bucket), "--from", cut))
        assert row["from"] == cut
        cut = row["as_of"]
        seed.append(row["items"])
    [last] = lines(things.cli("export", "Things", str(tmp_path / "last")))

    several = things.cli("import", "Copies", str(bucket), "--create", "id:S n:N")
    assert (2, True) == (several.exit_code, "exports of Others, Things: name one of" in several.stderr)
    records = things.imported("Copies", bucket, "--of", "Things")["records"]
    things.imported("Lasts", tmp_path / "last")

    assert all(seed)
    assert records == 40 + sum(seed)
    assert things.items("Things") == things.items("Copies") == things.items("Lasts")
    assert last["items"] == len(things.items("Things"))


def test_an_increment_alone_is_applied_to_a_table(things: Database, tmp_path: Path) -> None:
    """Increments are also those of a table that was deleted and created again."""
    cut = lines(things.cli("export", "Things", str(tmp_path / "full")))[0]["as_of"]
    things.imported("Copies", tmp_path / "full")
    lines(things.cli("table", "delete", "Things", "--yes"))
    lines(things.cli("table", "create", "Things", "id:S", "n:N"))
    for number in range(35, 45):
        things.put(number)
    lines(things.cli("export", "Things", str(tmp_path / "changes"), "--from", cut, "--format", "ion"))

    lines(things.cli("import", "Copies", str(tmp_path / "changes")))

    assert things.items("Things") == things.items("Copies")


def test_a_missing_increment_is_an_error(things: Database, tmp_path: Path) -> None:
    bucket = tmp_path / "bucket"
    cuts = [lines(things.cli("export", "Things", str(bucket)))[0]["as_of"]]
    for _ in range(2):
        things.change(5)
        cuts.append(
            lines(things.cli("export", "Things", str(tmp_path / "else"), "--from", cuts[-1]))[0]["as_of"]
        )
    things.change(5)
    lines(things.cli("export", "Things", str(bucket), "--from", cuts[-1]))

    result = things.cli("import", "Things", str(bucket))

    assert 2 == result.exit_code
    assert f"no export of the folder has the changes from {cuts[0]} to {cuts[-1]}" in result.stderr


@pytest.mark.parametrize(
    ("exports", "chain"),
    [
        ([(None, 1), (None, 5)], [(None, 5)]),
        ([(None, 5), (1, 5), (5, 7), (7, 9)], [(None, 5), (5, 7), (7, 9)]),
        ([(None, 5), (1, 7), (6, 9)], [(None, 5), (1, 7), (6, 9)]),
        ([(None, 0), (1, 2), (0, 3), (3, 4)], [(None, 0), (0, 3), (3, 4)]),
        ([(2, 3), (1, 2)], [(1, 2), (2, 3)]),
        ([(None, 5), (6, 7)], None),
        ([(1, 2), (3, 4)], None),
    ],
)
def test_the_chain_of_exports_covers_all_times(
    exports: list[tuple[int | None, int]], chain: list[tuple[int | None, int]] | None
) -> None:
    """Each export is written as its begin and its end; a full one has no begin."""
    found = [Export(Path(), "", "ION", end, begin, []) for begin, end in exports]
    if chain is None:
        with pytest.raises(CommandError, match="no export of the folder has the changes from"):
            chain_of(found)
    else:
        assert chain == [(each.from_ms, each.export_ms) for each in chain_of(found)]


def test_an_increment_has_dynamodb_s_records(things: Database, tmp_path: Path) -> None:
    """Each item has one record with its images at both cuts; a put that was deleted again has none."""
    key: Item = {"id": {"S": "x"}, "n": {"N": "1"}}
    things.client.call("PutItem", {"TableName": "Things", "Item": key})
    gone: Item = {"id": {"S": "y"}, "n": {"N": "1"}}
    cut = things.cut()
    things.client.call("PutItem", {"TableName": "Things", "Item": gone})
    things.client.call("DeleteItem", {"TableName": "Things", "Key": gone})
    things.client.call("PutItem", {"TableName": "Things", "Item": key | {"a": {"BOOL": True}}})
    written_ms = things.client.log_time_ms
    assert written_ms is not None
    things.client.call("DeleteItem", {"TableName": "Things", "Key": {"id": {"S": "i1"}, "n": {"N": "1"}}})

    lines(things.cli("export", "Things", str(tmp_path), "--from", cut))

    [path] = (tmp_path / "AWSDynamoDB" / "data").iterdir()
    records = map(json.loads, gzip.decompress(path.read_bytes()).splitlines())
    deleted, changed = sorted(records, key=lambda record: "NewImage" in record)
    assert changed == {
        "Metadata": {"WriteTimestampMicros": {"N": str(written_ms * 1000)}},
        "Keys": key,
        "OldImage": key,
        "NewImage": key | {"a": {"BOOL": True}},
    }
    assert {"Metadata", "Keys", "OldImage"} == deleted.keys()


# Interruptions


class _Killed(BaseException):
    """The process ends, in the test."""


def killed(cli: Foldb, *arguments: str, operation: str, calls: int) -> None:
    """Run a command that ends at a call of an operation."""
    with pytest.MonkeyPatch.context() as once:
        _kill_after(once, operation, calls)
        with pytest.raises(_Killed):
            cli(*arguments)


def _kill_after(monkeypatch: pytest.MonkeyPatch, operation: str, calls: int) -> None:
    call, left = Client._once, [calls]

    def counted(self: Client, target: str, body: Any) -> Any:
        if target.endswith(f".{operation}"):
            left[0] -= 1
            if left[0] < 0:
                raise _Killed
        return call(self, target, body)

    monkeypatch.setattr(Client, "_once", counted)


@pytest.mark.parametrize("name", FILES)
def test_an_interrupted_export_continues(
    things: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """It has the items of its first cut, and the same bytes as an export without an interruption."""
    monkeypatch.setattr(export, "PAGE_ITEMS", 7)
    monkeypatch.setattr(export, "CHECKPOINT_BYTES", 500)
    monkeypatch.setattr("os.urandom", bytes)
    monkeypatch.setattr(export, "_now_ms", lambda: 1_795_445_864_209)
    before = things.items("Things")
    parts, whole = tmp_path / "parts" / name, tmp_path / "whole" / name
    parts.parent.mkdir()
    whole.parent.mkdir()
    for calls in (0, 2, 1, 0, 1):
        killed(things.cli, "export", "Things", str(parts), operation="Scan", calls=calls)
        things.change(2)

    [row] = lines(things.cli("export", "Things", str(parts)))

    lines(things.cli("export", "Things", str(whole), "--as-of", row["as_of"]))
    assert files_of(parts.parent) == files_of(whole.parent)
    things.imported("Copies", parts)
    assert before == things.items("Copies")


def test_an_interrupted_increment_continues(
    things: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "PAGE_ITEMS", 3)
    monkeypatch.setattr(export, "CHECKPOINT_BYTES", 100)
    command = ("export", "Things", str(tmp_path / "bucket"))
    cut = lines(things.cli(*command))[0]["as_of"]
    things.change(60)
    for calls in (5, 2):  # the first request resolves a cut, in a run without a state
        killed(things.cli, *command, "--from", cut, operation="TableDifferences", calls=calls)
    result = things.cli(
        "import", "Copies", str(tmp_path / "bucket"), "--create", "id:S n:N", "--of", "Things"
    )
    assert (2, True) == (result.exit_code, "an export that was interrupted" in result.stderr)

    lines(things.cli(*command, "--from", cut))

    things.imported("Copies", tmp_path / "bucket", "--of", "Things")
    assert things.items("Things") == things.items("Copies")


@pytest.mark.parametrize("name", ["Things.ion.zst", "Things.parquet", "bucket"])
def test_an_interrupted_import_continues(
    things: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The second run writes only the records behind the last state."""
    monkeypatch.setattr(import_, "CHUNK", 5)
    monkeypatch.setattr(export, "PAGE_ITEMS", 9)
    monkeypatch.setattr(export, "CHECKPOINT_BYTES", 1)  # several files
    command = ("import", "Copies", str(tmp_path / name), "--create", "id:S n:N")
    lines(things.cli("export", "Things", str(tmp_path / name)))
    killed(things.cli, *command, operation="BatchWriteItem", calls=5)
    written = things.items("Copies")
    things.client.call("UpdateItem", _update("Copies", json.loads(written[0])))

    [row] = lines(things.cli(*command))

    assert row == {"table": "Copies", "records": 40, "refused": 0}
    again = things.items("Copies")
    assert 20 < len(written) < 40
    assert sum(b"marked" in item for item in again) == 1, "the second run wrote a record again"
    assert len(set(things.items("Things")) - set(again)) == 1
    assert not [path for path in files_of(tmp_path) if "foldb-import" in path]


def _update(table: str, item: Item) -> dict[str, Any]:
    key = {name: item[name] for name in ("id", "n")}
    return {
        "TableName": table,
        "Key": key,
        "UpdateExpression": "SET marked = :x",
        "ExpressionAttributeValues": {":x": {"BOOL": True}},
    }


def test_a_table_of_the_same_name_is_imported_whole(
    things: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state of an interrupted import is one of a table, not of a name."""
    monkeypatch.setattr(import_, "CHUNK", 5)
    lines(things.cli("export", "Things", str(tmp_path / "a.json")))
    command = ("import", "Copies", str(tmp_path / "a.json"))
    killed(things.cli, *command, "--create", "id:S n:N", operation="BatchWriteItem", calls=5)
    lines(things.cli("table", "delete", "Copies", "--yes"))
    lines(things.cli("table", "create", "Copies", "id:S", "n:N"))

    lines(things.cli(*command))

    assert things.items("Things") == things.items("Copies")


def test_a_file_that_changed_is_imported_whole(
    things: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_, "CHUNK", 5)
    path = tmp_path / "a.json"
    command = ("import", "Copies", str(path))
    lines(things.cli("export", "Things", str(path)))
    killed(things.cli, *command, "--create", "id:S n:N", operation="BatchWriteItem", calls=5)
    path.write_bytes(b"".join(reversed(path.read_bytes().splitlines(keepends=True))))

    lines(things.cli(*command))

    assert things.items("Things") == things.items("Copies")


def test_ctrl_c_names_the_next_step(
    things: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> Iterator[Any]:
        yield [], {}
        raise KeyboardInterrupt

    monkeypatch.setattr(export, "_scan", interrupted)

    result = things.cli("export", "Things", str(tmp_path / "a.json"))

    assert (130, True) == (result.exit_code, "run the same command again to continue" in result.stderr)


# Malformed records, and wrong usage


def test_malformed_and_refused_records_are_named(cli: Foldb, url: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": "1"}\n{"id": \n{"no": 1}\n\n{"id": 2}\n{"id": "3"}\n')

    result = cli("import", "Things", str(path), "--create", "id:S")

    assert result.exit_code == ExitCode.PARTLY
    assert json.loads(result.stdout) == {"table": "Things", "records": 5, "refused": 3}
    malformed, *refused = result.stderr.splitlines()[:3]
    assert malformed.startswith(f"{path} line 2: this is not JSON")
    assert refused[0].startswith(f"{path} line 3: ValidationException")
    assert refused[1].startswith(f'{path} line 5 (key {{"id":2}}): ValidationException')
    assert "3 records of 5 refused; the others are written" in result.stderr
    assert ['{"id":"1"}', '{"id":"3"}'] == sorted(cli("scan", "Things").stdout.splitlines())


def test_a_csv_has_the_types_of_the_keys(cli: Foldb, url: str, tmp_path: Path) -> None:
    lines(cli("table", "create", "Things", "id:N", "--gsi", "bins=bin:B"))
    path = tmp_path / "a.txt"
    path.write_text("1;AAE=;7\n2;;8\n3\n")

    result = cli("import", "Things", str(path), "--format", "csv", "--delimiter", ";", "--header", "id,bin,n")

    assert f"{path} line 3: the row has 1 columns, and the header 3" in result.stderr
    assert ['{"bin":"b64:AAE=","id":1,"n":"7"}', '{"id":2,"n":"8"}'] == sorted(
        cli("scan", "Things").stdout.splitlines()
    )


@pytest.mark.spec("X12")
def test_the_documented_samples_are_imported(cli: Foldb, url: str, tmp_path: Path) -> None:
    """The item of the developer guide's page about formats of imports, in DynamoDB JSON, Ion and CSV."""
    (tmp_path / "a.json").write_bytes(b'{"Item": %b}\n' % orjson.dumps(BOOK))
    (tmp_path / "a.ion").write_bytes(BOOK_IN_ION)
    for suffix in ("json", "ion"):
        lines(cli("import", f"Books{suffix}", str(tmp_path / f"a.{suffix}"), "--create", "Id:N"))
        assert dump(BOOK).decode() == cli("scan", f"Books{suffix}", "--typed").stdout.strip()


def test_a_damaged_data_file_is_not_imported(things: Database, tmp_path: Path) -> None:
    lines(things.cli("export", "Things", str(tmp_path / "bucket")))
    [path] = (tmp_path / "bucket").rglob("*.json.gz")
    path.write_bytes(gzip.compress(b'{"Item": {}}'))

    result = things.cli("import", "Things", str(tmp_path / "bucket"))

    assert result.exit_code == ExitCode.UNREACHABLE
    assert f"{path}: the data differs from the checksum in the manifest" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("export", "Things", "a.csv"), "CSV has no types"),
        (("export", "Things", "a.json", "--to", "-1h"), "--to needs --from"),
        (("export", "Things", "a", "--from", "-1h", "--as-of", "-1h"), "--from is for changes"),
        (("export", "Things", "a.jsonl", "--from", "-1h"), "a.jsonl has no format for changes"),
        (("export", "Things", "a.jsonl", "--log", "data"), "--log needs --as-of"),
        (("export", "Things", "there.json"), "there.json exists"),
        (("export", "Things", "again.json"), "is the state of another command that was interrupted"),
        (("import", "Things", "exports", "--of", "Thing"), "exports has exports of Things: name one of"),
        (("import", "Things", "a.json"), "there is no file or folder a.json"),
        (("import", "Things", "empty"), "there is no complete export"),
        (("import", "Things", "again.xyz"), "the format of again.xyz is not known"),
        (("import", "Things", "there.json", "--delimiter", "::"), "--delimiter takes one character"),
        (("import", "Things", "there.parquet"), "there.parquet"),
        (("import", "Nothing", "there.json"), "Table: Nothing not found"),
    ],
)
def test_a_wrong_command_line_is_one_sentence(
    things: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    sentence: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("there.json", "again.json.foldb-export", "again.xyz", "there.parquet"):
        Path(name).touch()
    Path("empty").mkdir()
    lines(things.cli("export", "Things", "exports"))

    result = things.cli(*arguments)

    assert result.exit_code != 0
    [line] = result.stderr.splitlines()
    assert sentence in line


def test_parquet_without_items_is_an_error(cli: Foldb, url: str, tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"id": ["1"]}), tmp_path / "a.parquet")

    result = cli("import", "Things", str(tmp_path / "a.parquet"), "--create", "id:S")

    assert (2, True) == (result.exit_code, "has no column `item`" in result.stderr)
    assert [] == lines(cli("table", "list")), "the table is created when the source is known to be good"


def test_an_export_without_its_extra_names_it(
    things: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_targets, "is_installed", lambda: False)

    result = things.cli("export", "Things", str(tmp_path / "a.parquet"))

    assert (2, True) == (result.exit_code, 'pip install "foldb[parquet]"' in result.stderr)
    assert [] == list(tmp_path.iterdir())


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="the standard library has ZSTD")
def test_zstd_without_its_extra_changes_nothing(
    things: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a state of the export nor the table of the import remains."""
    monkeypatch.setitem(sys.modules, "backports", None)
    tables, given = lines(things.cli("table", "list")), tmp_path / "given.json.zst"
    given.touch()

    results = [
        things.cli("export", "Things", str(tmp_path / "a.json.zst")),
        things.cli("import", "Copies", str(given), "--create", "id:S"),
    ]

    assert [2, 2] == [result.exit_code for result in results]
    assert all('pip install "foldb[exports]"' in result.stderr for result in results)
    assert [given] == list(tmp_path.iterdir())
    assert tables == lines(things.cli("table", "list"))


@pytest.mark.parametrize("out", ["exports", "a.jsonl", "a.parquet"])
def test_an_export_of_no_table_leaves_nothing(things: Database, tmp_path: Path, out: str) -> None:
    result = things.cli("export", "Nothing", str(tmp_path / out))

    assert result.exit_code == ExitCode.NOT_FOUND
    assert [] == list(tmp_path.iterdir())


def test_a_state_that_cannot_be_saved_is_a_warning(
    things: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines(things.cli("export", "Things", str(tmp_path / "a.json")))

    def read_only(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(StateFile, "save", read_only)
    result = things.cli("import", "Copies", str(tmp_path / "a.json"), "--create", "id:S n:N")

    assert 0 == result.exit_code
    assert 1 == result.stderr.count("after an interruption the import begins again")
    assert things.items("Things") == things.items("Copies")


def test_a_failure_of_the_server_keeps_the_state(
    things: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_, "CHUNK", 5)
    lines(things.cli("export", "Things", str(tmp_path / "a.json")))

    def unreachable(*_: object) -> None:
        raise CommandError("cannot reach the server", ExitCode.UNREACHABLE)

    with monkeypatch.context() as once:
        once.setattr(BatchWriter, "_send", unreachable)
        result = things.cli("import", "Copies", str(tmp_path / "a.json"), "--create", "id:S n:N")
    assert ExitCode.UNREACHABLE == result.exit_code

    lines(things.cli("import", "Copies", str(tmp_path / "a.json"), "--create", "id:S n:N"))
    assert things.items("Things") == things.items("Copies")


def test_the_commands_of_the_page_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with foldb.serve(tmp_path / "data", fsync="never") as server:
        cli = at(server.endpoint_url)
        for step in steps((DOCS / "exports.md").read_text("utf-8")):
            assert 0 == cli(*shlex.split(step.line)[1:]).exit_code, step.line
        assert [] == lines(cli("diff", "Music@-0", "Again"))
    assert 3 == len((tmp_path / "before.jsonl").read_text().splitlines())


@pytest.mark.spec("X12")
def test_exports_of_the_api_are_imported_and_the_reverse(tmp_path: Path) -> None:
    """A full export and an increment by DynamoDB's operations; ImportTable of an export by the command."""
    (tmp_path / "shop").mkdir()
    with foldb.serve(partitions=3, buckets=tmp_path) as server:
        things = Database(at(server.endpoint_url), server.endpoint_url)
        for number in range(30):
            things.put(number)
        recovery = {"PointInTimeRecoveryEnabled": True}
        body = {"TableName": "Things", "PointInTimeRecoverySpecification": recovery}
        things.client.call("UpdateContinuousBackups", body)
        full = exported(things.client, {})
        things.change(30)
        begin = {"ExportFromTime": full["ExportTime"]}
        exported(things.client, {"ExportType": "INCREMENTAL_EXPORT", "IncrementalExportSpecification": begin})

        things.imported("Copies", tmp_path / "shop")
        [row] = lines(things.cli("export", "Things", str(tmp_path / "shop"), "--format", "ion"))
        schema = things.client.call("DescribeTable", {"TableName": "Copies"})["Table"]
        request = {
            "S3BucketSource": {"S3Bucket": "shop", "S3KeyPrefix": f"AWSDynamoDB/{row['export']}/data/"},
            "InputFormat": "ION",
            "InputCompressionType": "GZIP",
            "TableCreationParameters": {
                "TableName": "Imported",
                "BillingMode": "PAY_PER_REQUEST",
                **{name: schema[name] for name in ("AttributeDefinitions", "KeySchema")},
            },
        }
        arn = things.client.call("ImportTable", request)["ImportTableDescription"]["ImportArn"]
        done = ended(
            things.client, "DescribeImport", {"ImportArn": arn}, "ImportTableDescription", "ImportStatus"
        )

        assert "COMPLETED" == done["ImportStatus"]
        assert things.items("Things") == things.items("Copies") == things.items("Imported")
        things.client.close()


def exported(client: Client, members: dict[str, Any]) -> dict[str, Any]:
    """Export the table by DynamoDB's operation, and return the description of the complete export."""
    arn = client.call("DescribeTable", {"TableName": "Things"})["Table"]["TableArn"]
    answer = client.call("ExportTableToPointInTime", {"TableArn": arn, "S3Bucket": "shop", **members})
    body = {"ExportArn": answer["ExportDescription"]["ExportArn"]}
    description = ended(client, "DescribeExport", body, "ExportDescription", "ExportStatus")
    assert description["ExportStatus"] == "COMPLETED", description
    return description


def ended(client: Client, operation: str, body: Any, member: str, status: str) -> dict[str, Any]:
    until = time.monotonic() + 30
    while (description := client.call(operation, body)[member])[status] == "IN_PROGRESS":
        assert time.monotonic() < until, description
    return dict(description)


@pytest.mark.parametrize(
    ("name", "code"), [("x.txt", 2), ("x.gz", 2), ("x-2026.11.23", 0), ("folder.txt", 0)]
)
def test_a_file_of_another_format_is_refused(cli: Foldb, tmp_path: Path, name: str, code: int) -> None:
    """A folder may have such a name if it exists, or if its suffix is that of a date."""
    (tmp_path / "folder.txt").mkdir()
    cli("table", "create", "Things", "id:S")

    result = cli("export", "Things", str(tmp_path / name))

    assert (code, not code) == (result.exit_code, (tmp_path / name).is_dir())
    assert not code or "is no format of an export: give a file such as x.jsonl" in result.stderr


@pytest.mark.parametrize("name", ["x.jsonl", "x.parquet", "exports"])
def test_an_export_into_a_missing_folder_is_refused(cli: Foldb, tmp_path: Path, name: str) -> None:
    """It made the folders of a mistyped path."""
    cli("table", "create", "Things", "id:S")
    missing = tmp_path / "missing" / "folder"

    result = cli("export", "Things", str(missing / name))

    assert ExitCode.UNREACHABLE == result.exit_code
    assert f"there is no folder {missing}: create it, or give another path\n" in result.stderr
    assert not missing.parent.exists()
