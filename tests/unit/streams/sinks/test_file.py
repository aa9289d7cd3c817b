"""Files as other tools read them, and valid names of folders."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pyarrow.parquet
import pytest

from foldb.materializer.fold.outcomes import Tx
from foldb.model.errors import ValidationError
from foldb.streams.formats import lines, parquet
from foldb.streams.formats.table_view import Delivery
from foldb.streams.sinks import file
from foldb.streams.sinks.sink import Success
from tests.unit.streams.deliveries import TIME, delivery, order
from tests.unit.streams.sinks.context import batch, sink_context

CHANGES = [
    delivery(None, order(), 1),
    delivery(order(), order(state={"S": "é\n"}), 2, tx=Tx("2.0", 0, 1)),
    delivery(order(), None, 3),
]


def write(folder: Path, settings: dict[str, Any], changes: list[Delivery], **about: Any) -> None:
    async def whole() -> None:
        sink = file.make({"Kind": "file", **settings}, sink_context(folder, data=folder, **about))
        await sink.start()
        assert Success() == await sink.deliver(batch(changes))
        await sink.close()

    asyncio.run(whole())


def test_json_lines_are_the_plain_format(tmp_path: Path) -> None:
    write(tmp_path, {"Folder": "lake"}, CHANGES)

    [path] = tmp_path.glob("files/lake/table=Orders/date=2023-11-14/*.jsonl")
    assert ["INSERT", "MODIFY", "REMOVE"] == [
        json.loads(line)["op"] for line in path.read_bytes().splitlines()
    ]


def test_the_default_folder_is_named_after_the_subscription(tmp_path: Path) -> None:
    write(tmp_path, {}, CHANGES)

    assert 1 == len(list(tmp_path.glob("files/receipts/table=Orders/date=2023-11-14/*.jsonl")))


def test_a_retry_of_dead_letters_spares_unfinished_files(tmp_path: Path) -> None:
    folder = tmp_path / "files/lake/table=Orders/date=2023-11-14"
    folder.mkdir(parents=True)
    (folder / ".receipts.tmp").touch()

    write(tmp_path, {"Folder": "lake"}, CHANGES, instance="receipts~retry")

    assert [".receipts.tmp"] == [path.name for path in folder.glob(".*")]
    assert 1 == len(list(folder.glob("*.jsonl")))


@pytest.mark.parametrize("name", [".", ".."])
def test_an_unsafe_subscription_name_is_no_folder(tmp_path: Path, name: str) -> None:
    """Requests refuse such names, but old logs may hold one: its files would be among the log's own."""

    async def made() -> None:
        file.make({"Kind": "file"}, sink_context(tmp_path, data=tmp_path, subscription=name))

    with pytest.raises(ValidationError, match="begin with no dot"):
        asyncio.run(made())


def test_parquet_files_are_read_as_one_partitioned_table(tmp_path: Path) -> None:
    """Query engines read table and date as columns, from the names of the folders."""
    write(tmp_path, {"Folder": "lake", "Format": "parquet"}, CHANGES)

    lake = pyarrow.dataset.dataset(tmp_path / "files/lake", partitioning="hive", exclude_invalid_files=False)
    rows = lake.to_table().sort_by("number").to_pylist()

    assert [("INSERT", None), ("MODIFY", "2.0"), ("REMOVE", None)] == [
        (row["op"], row["tx_id"]) for row in rows
    ]
    modified = rows[1]
    assert order(state={"S": "é\n"}) == json.loads(modified["new"])
    assert TIME == round(modified["time"].timestamp() * 1000)
    assert ("Orders", "2023-11-14") == (modified["table"], str(modified["date"]))


@pytest.mark.parametrize("form", [lines.PlainLines(), lines.KinesisLines("MILLISECOND"), parquet.Parquet()])
def test_the_id_of_a_change_is_found_in_its_file(form: Any) -> None:
    changes = [
        *CHANGES,
        delivery(None, order("é\n"), 9, is_read=True),
        delivery(None, order("bob"), 9, is_read=True),
    ]

    known = [form.id(each) for each in changes]

    assert known == list(form.ids(form.encode(changes)))
    assert len(changes) == len(set(known))


@pytest.mark.parametrize("name", ["/etc", "..", ".hidden", "a/b", "", "a\\b", "x" * 129])
def test_a_path_is_refused_as_a_folder(name: str) -> None:
    with pytest.raises(ValidationError, match=r"^Sink\.Folder "):
        file.KIND.check({"Kind": "file", "Folder": name})


def test_a_database_in_memory_writes_no_files(tmp_path: Path) -> None:
    async def whole() -> None:
        with pytest.raises(ValidationError, match="serve a folder"):
            file.make({"Kind": "file"}, sink_context(tmp_path))

    asyncio.run(whole())


def test_without_pyarrow_the_error_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "is_installed", lambda: False)

    with pytest.raises(ValidationError, match=r'pip install "foldb\[parquet\]"'):
        file.KIND.check({"Kind": "file", "Format": "parquet"})
    file.KIND.check({"Kind": "file"})
