"""A bit of a change segment flips under a server: every reader still receives every change."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from foldb.log.local.filesystem import SystemFilesystem
from foldb.streams.feed import change_codec
from foldb.streams.feed.change_codec import HEAD_BYTES, BlockHead, read_head
from foldb.streams.feed.durable_offset import read_durable_offset
from tests.support.raw import ask
from tests.support.served import Process, foldb
from tests.support.subscribed import operate, settle, subscribe
from tests.support.tables import table_request
from tests.unit.log.damage import flip
from tests.unit.server.test_metrics import read

TABLE = "Cars"
STREAM = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
KEYS = [f"{n:03}" for n in range(400)]
FIRST_TABLE = 1


def segment_of(folder: Path) -> Path:
    [path] = (folder / "changes" / "0").glob(f"{FIRST_TABLE}-*.avro")
    return path


def blocks(folder: Path) -> list[BlockHead]:
    """The first two blocks of the segment."""
    mark = read_durable_offset(SystemFilesystem(), folder / "changes" / "0")
    assert mark is not None
    data = segment_of(folder).read_bytes()
    begin = len(change_codec.header(change_codec.SegmentOwner(mark.log_id, 0, FIRST_TABLE), 0))
    first = read_head(data[begin : begin + HEAD_BYTES], begin)
    second = begin + first.size
    return [first, read_head(data[second : second + HEAD_BYTES], second)]


REGIONS: dict[str, Callable[[BlockHead], int]] = {
    "header": lambda _: 1000,
    "frame": lambda block: block.at + 1,
    "first change": lambda block: block.at + 6,
    "body": lambda block: block.at + block.size // 2,
    "check": lambda block: block.at + block.size - change_codec.MARKER_BYTES - 2,
    "marker": lambda block: block.at + block.size - 1,
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a database with several blocks of changes, none of which is in memory after the next start."""
    folder = tmp_path_factory.mktemp("written") / "data"
    with Process(folder) as server:
        assert (
            ask(server.url, "CreateTable", table_request(TABLE, "pk:S", StreamSpecification=STREAM)).status
            == 200
        )
        for key in KEYS:
            item = {"pk": {"S": key}, "text": {"S": "x" * 900}}
            assert ask(server.url, "PutItem", {"TableName": TABLE, "Item": item}).status == 200
        server.terminate()
    return folder


def iterator(streams: Any, kind: str, **place: str) -> str:
    """Return an iterator of the only shard."""
    [stream] = streams.list_streams(TableName=TABLE)["Streams"]
    arn = stream["StreamArn"]
    [shard] = streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]
    asked = {"StreamArn": arn, "ShardId": shard["ShardId"], "ShardIteratorType": kind, **place}
    at: str = streams.get_shard_iterator(**asked)["ShardIterator"]
    return at


def read_stream(url: str, kind: str, **place: str) -> list[dict[str, Any]]:
    """Return all records from an iterator on."""
    streams = boto3.client("dynamodbstreams", endpoint_url=url)
    at = iterator(streams, kind, **place)
    records: list[dict[str, Any]] = []
    while found := (page := streams.get_records(ShardIterator=at))["Records"]:
        records += found
        at = page["NextShardIterator"]
    return records


def keys_of(records: list[dict[str, Any]]) -> list[str]:
    return [record["dynamodb"]["Keys"]["pk"]["S"] for record in records]


def read_horizon(url: str, folder: Path) -> list[str]:
    return keys_of(read_stream(url, "TRIM_HORIZON"))


def read_after(url: str, folder: Path) -> list[str]:
    """Return the keys read after the first sequence number, with the key of the first change."""
    first = str(blocks(folder)[0].sequence_number)
    return [KEYS[0], *keys_of(read_stream(url, "AFTER_SEQUENCE_NUMBER", SequenceNumber=first))]


def read_tail(url: str, folder: Path) -> list[str]:
    reported = foldb("--db", url, "stream", "tail", TABLE, "--from", "start", "--format", "%k")
    assert reported.returncode == 0, reported.stderr
    return reported.stdout.splitlines()


def read_trigger(url: str, folder: Path) -> list[str]:
    """Return the keys that a subscription writes to files, from the trim horizon on."""
    subscribe(url, "copy", TABLE, {"Kind": "file", "Folder": "lake"}, Start={"At": "HORIZON"})
    settle(url)
    operate(url, "PauseSubscription", Name="copy")
    lines = [
        line
        for path in (folder / "files" / "lake").rglob("*.jsonl")
        for line in path.read_text().splitlines()
    ]
    changes = [json.loads(line) for line in lines]
    return [change["keys"]["pk"]["S"] for change in sorted(changes, key=lambda each: int(each["number"]))]


READERS = {
    "TRIM_HORIZON": read_horizon,
    "AFTER_SEQUENCE_NUMBER": read_after,
    "stream tail": read_tail,
    "trigger": read_trigger,
}


def pairs() -> Iterator[Any]:
    """Yield every region with every reader. A short run has each region once, and each reader at least once."""
    readers = [*READERS]
    for nth, region in enumerate(REGIONS):
        for reader in readers:
            is_short = reader == readers[nth % len(readers)]
            yield pytest.param(region, reader, marks=() if is_short else pytest.mark.soak)


@pytest.mark.guarantee("G36")
@pytest.mark.parametrize(("region", "reader"), [*pairs()])
def test_every_reader_gets_every_change_once(region: str, reader: str, written: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(written, tmp_path / "data")
    with Process(folder) as server:
        flip(segment_of(folder), REGIONS[region](blocks(folder)[1]))

        assert KEYS == READERS[reader](server.url, folder)
        assert KEYS == read_horizon(server.url, folder)

        is_met = region != "header"  # which is read by a start, and by a scrub
        samples = read(server.url)
        assert is_met == samples["foldb_feed_repaired_segments_total{partition=0}"]
        assert 0 == samples["foldb_feed_damaged_segments{partition=0}"]
        server.terminate()
    assert is_met == (f"{segment_of(folder)} was rebuilt from the log" in server.said)


@pytest.mark.guarantee("G36")
def test_readers_get_errors_while_the_log_is_damaged_too(written: Path, tmp_path: Path) -> None:
    """An answer without the changes would be a gap that readers cannot detect."""
    folder = shutil.copytree(written, tmp_path / "data")
    with Process(folder) as server:
        flip(segment_of(folder), REGIONS["body"](blocks(folder)[1]))
        [log] = folder.glob("*.avro")
        flip(log, log.stat().st_size // 2)
        streams = boto3.client(
            "dynamodbstreams", endpoint_url=server.url, config=Config(retries={"total_max_attempts": 1})
        )
        for _ in range(3):
            with pytest.raises(streams.exceptions.InternalServerError):
                streams.get_records(ShardIterator=iterator(streams, "TRIM_HORIZON"))

        assert 1 == read(server.url)["foldb_feed_damaged_segments{partition=0}"]
