"""`foldb log trim` and `foldb serve --history-retention`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.support.decoded import parts_with
from tests.support.served import foldb, served
from tests.support.subscribed import until
from tests.support.tables import table_request

TOKEN = "a-token-that-is-nowhere-else"
OPTIONS = ("--segment-bytes", "20000", "--stream-retention", "1ms", "--snapshot-every", "0")


def client_of(url: str) -> Any:
    return boto3.client(
        "dynamodb",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="foldb",
        aws_secret_access_key="foldb",
    )


def fill(client: Any, table: str = "Orders", count: int = 120) -> None:
    """Create a table, and write to it until the log has some segments. One item is deleted early."""
    client.create_table(
        TableName=table,
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        BillingMode="PAY_PER_REQUEST",
    )
    client.put_item(TableName=table, Item={"id": {"S": "gone"}, "token": {"S": TOKEN}})
    client.delete_item(TableName=table, Key={"id": {"S": "gone"}})
    write(client, table, count)


def write(client: Any, table: str = "Orders", count: int = 120) -> None:
    """Write 40 items again and again."""
    for n in range(count):
        client.put_item(
            TableName=table, Item={"id": {"S": f"o{n % 40}"}, "n": {"N": str(n)}, "x": {"S": "x" * 400}}
        )


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a log of some segments, at rest."""
    folder = tmp_path_factory.mktemp("whole") / "data"
    with served(folder, *OPTIONS) as url:
        fill(client_of(url))
    assert foldb("snapshot", "make", folder).returncode == 0
    return folder


@pytest.fixture
def data(whole: Path, tmp_path: Path) -> Path:
    """A copy of that folder: its snapshots, too."""
    target = tmp_path / "data"
    done = foldb("log", "restore", whole, target)
    assert done.returncode == 0, done.stderr
    return target


def trim(*arguments: str | Path) -> dict[str, Any]:
    done = foldb("--yes", "log", "trim", *arguments, "-o", "json")
    assert done.returncode == 0, done.stderr
    row: dict[str, Any] = json.loads(done.stdout)
    return row


def rows(*arguments: str | Path) -> list[dict[str, Any]]:
    done = foldb("log", "cat", *arguments, "-o", "json")
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def has_token(folder: Path) -> list[str]:
    """The files that have the token of the deleted item as it is; see `parts_with`."""
    return [str(path.relative_to(folder)) for path in files(folder) if TOKEN.encode() in path.read_bytes()]


def test_positions_from_the_horizon_on_read_as_before(whole: Path, data: Path) -> None:
    row = trim(data, "--before", "80")

    horizon = int(row["horizon"])
    assert 0 < horizon <= 80
    assert row["segments"] > 0
    assert rows(data) == [each for each in rows(whole) if int(each["position"].split(".")[0]) >= horizon]
    assert rows(data, "--from", "100", "--to", "110") == rows(whole, "--from", "100", "--to", "110")
    assert foldb("verify", data).returncode == 0


def test_positions_before_the_horizon_are_refused_with_it(data: Path) -> None:
    horizon = trim(data, "--before", "80")["horizon"]

    for command in (
        ("log", "cat", data, "--from", "3"),
        ("log", "cat", data, "--to", "2026-01-01T00:00:00Z"),
        ("log", "skip", "3", data, "--force", "--yes"),
        ("log", "restore", data, data.parent / "restored", "--to", "3"),
    ):
        done = foldb(*command)
        assert done.returncode == 3, done.stderr
        assert "history horizon" in done.stderr
    assert f"@{horizon}" in foldb("log", "cat", data, "--from", "3").stderr


@pytest.mark.guarantee("G53")
def test_tables_and_digest_stay_after_a_trim(whole: Path, data: Path) -> None:
    before = json.loads(foldb("verify", whole, "-o", "json").stdout)

    trim(data, "--before", "80")
    with served(data, *OPTIONS) as url:
        client = client_of(url)
        assert len(client.scan(TableName="Orders")["Items"]) == 40
        status = json.loads(foldb("status", "--db", url, "-o", "json").stdout)

    after = json.loads(foldb("verify", data, "-o", "json").stdout)
    assert (after["digest"], after["position"]) == (before["digest"], before["position"])
    assert status["Horizon"] is not None


def test_a_dry_run_of_a_trim_says_what_the_trim_does(data: Path) -> None:
    before = {path: path.read_bytes() for path in files(data)}
    planned = foldb("log", "trim", data, "--before", "80", "--dry-run")

    assert {path: path.read_bytes() for path in files(data)} == before
    plan, done = json.loads(planned.stdout), trim(data, "--before", "80")
    assert {name: done[name] for name in ("horizon", "segments")} == {
        name: plan[name] for name in ("horizon", "segments")
    }
    assert plan["entries"] == int(plan["horizon"])
    assert foldb("log", "trim", data, "--before", "1", "--dry-run").returncode == 1


def test_a_dry_run_has_the_stream_retention_of_the_server(tmp_path: Path) -> None:
    """Without the server, its streams keep the changes of the default retention, which the log is younger than."""
    folder, stream = tmp_path / "data", {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}
    command = ("log", "trim", "--db", folder, "--before", "80", "--dry-run")
    with served(folder, *OPTIONS) as url:
        client = client_of(url)
        client.create_table(**table_request("Orders", "id:S"), StreamSpecification=stream)
        write(client)
        beside = foldb(*command)
    alone = foldb(*command)

    assert beside.returncode == 0, beside.stderr
    assert alone.returncode != 0
    assert "stream" in alone.stderr


def test_rebuild_of_a_trimmed_log_begins_at_its_horizon(whole: Path, data: Path) -> None:
    trim(data, "--before", "80")

    with served(data, *OPTIONS) as url:
        assert foldb("rebuild", "Orders", "--db", url).returncode == 0
        done = foldb("restore", "Orders", "--as-of", "100", "--into", "Past", "--log", data, "--db", url)
        assert done.returncode == 0, done.stderr
        refused = foldb("restore", "Orders", "--as-of", "5", "--into", "Older", "--log", data, "--db", url)
        assert "history horizon" in refused.stderr
        found = client_of(url).scan(TableName="Past")["Items"]
    written = [each for each in rows(whole, "--to", "100") if each["command"] == "Put"]
    last = {each["key"]["id"]: each["new"]["n"] for each in written if each["key"]["id"] != "gone"}
    assert {each["id"]["S"]: int(each["n"]["N"]) for each in found} == last


def test_a_deleted_token_is_in_no_part_after_a_trim(tmp_path: Path) -> None:
    """Each part has it before, and other items after: the parts are decoded."""
    folder, item = tmp_path / "data", {"id": {"S": "gone"}, "token": {"S": TOKEN}}
    stream = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
    with served(folder, "--segment-bytes", "20000", "--history") as url:
        client = client_of(url)
        client.create_table(**table_request("Orders", "id:S"), StreamSpecification=stream)
        client.put_item(TableName="Orders", Item=item)
    assert foldb("snapshot", "make", folder).returncode == 0
    with served(folder, "--segment-bytes", "20000", "--snapshot-every", "0", "--history") as url:
        client = client_of(url)
        client.delete_item(TableName="Orders", Key={"id": {"S": "gone"}})
        write(client)
        assert client.scan(TableName="Orders@100")["Items"]
    assert {"log", "snapshots", "history", "changes"} == parts_with(folder, TOKEN)

    with served(folder, *OPTIONS, "--history") as url:
        trim("--db", folder, "--before", "80")
        assert client_of(url).scan(TableName="Orders@100")["Items"]
        assert foldb("snapshot", "make", "--db", url).returncode == 0

    assert set() == parts_with(folder, TOKEN)
    assert {"log", "snapshots", "history", "foundation", "changes"} == parts_with(folder, "o39")


@pytest.mark.soak
def test_a_disabled_stream_keeps_no_change_of_a_deleted_token(tmp_path: Path) -> None:
    """A running server removes the changes within seconds, in a pass that it makes every ten."""
    folder, stream = tmp_path / "data", {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"}
    with served(folder, *OPTIONS) as url:
        client = client_of(url)
        client.create_table(**table_request("Orders", "id:S"), StreamSpecification=stream)
        client.put_item(TableName="Orders", Item={"id": {"S": "gone"}, "token": {"S": TOKEN}})
        client.delete_item(TableName="Orders", Key={"id": {"S": "gone"}})
        write(client)
    assert {"log", "changes"} == parts_with(folder, TOKEN)

    with served(folder, *OPTIONS) as url:
        client_of(url).update_table(TableName="Orders", StreamSpecification={"StreamEnabled": False})
        write(client_of(url))
        trim("--db", folder, "--before", "80")
        until(lambda: not list((folder / "changes").rglob("*.avro")), seconds=30)

    assert set() == parts_with(folder, TOKEN)


def test_a_trim_deletes_histories_from_before_it(data: Path) -> None:
    with served(data, *OPTIONS, "--history") as url:
        client = client_of(url)
        until(lambda: client.scan(TableName="Orders@100")["Items"] != [])
    [epoch] = (data / "history" / "0").glob("[0-9]*")

    trim(data, "--before", "80")

    assert not epoch.exists()
    with served(data, *OPTIONS, "--history") as url:
        client = client_of(url)
        until(lambda: client.scan(TableName="Orders@100")["Items"] != [])
        with pytest.raises(client.exceptions.ClientError, match="history of this database begins"):
            client.scan(TableName="Orders@5")


def test_the_archive_has_what_a_trim_removed(whole: Path, data: Path, tmp_path: Path) -> None:
    archive = tmp_path / "archive"

    first = trim(data, "--before", "50", "--archive", archive)
    second = trim(data, "--before", "100", "--archive", archive)

    assert int(first["horizon"]) < int(second["horizon"])
    assert second["archive"] == str(archive)
    kept = [each for each in rows(whole) if int(each["position"].split(".")[0]) < int(second["horizon"])]
    assert rows(archive) == kept
    assert foldb("verify", archive).returncode == 0
    assert str(archive) in foldb("log", "cat", data, "--from", "3").stderr
    assert foldb("log", "backup", data, archive).returncode == 0
    assert rows(archive) == rows(whole)


@pytest.mark.guarantee("G53")
def test_a_trim_of_a_served_folder_goes_through_its_server(whole: Path, data: Path) -> None:
    with served(data, *OPTIONS) as url:
        row = trim("--db", data, "--before", "80")
        client = client_of(url)
        client.put_item(TableName="Orders", Item={"id": {"S": "new"}})
        again = foldb("--yes", "log", "trim", data, "--before", "81")
        assert again.returncode == 1
        assert "no segment ends before 81" in again.stderr

    assert row["segments"] > 0
    assert rows(data)[0]["position"].split(".")[0] == row["horizon"]
    kept = [each for each in rows(whole) if int(each["position"].split(".")[0]) >= int(row["horizon"])]
    assert rows(data)[: len(kept)] == kept
    assert foldb("verify", data).returncode == 0


def test_a_server_refuses_another_archive_than_its_own(data: Path, tmp_path: Path) -> None:
    with served(data, *OPTIONS):
        done = foldb("--yes", "log", "trim", data, "--before", "80", "--archive", tmp_path / "other")

    assert "--archive" in done.stderr
    assert done.returncode == 7


@pytest.mark.guarantee("G53")
def test_a_server_trims_history_of_its_retention_age(tmp_path: Path) -> None:
    folder, archive = tmp_path / "data", tmp_path / "archive"
    options = ("--history-retention", "1s", "--archive", str(archive))
    with served(folder, *OPTIONS, *options) as url:
        client = client_of(url)
        fill(client)
        until(lambda: json.loads(foldb("status", "--db", url, "-o", "json").stdout)["Horizon"] is not None)
        client.put_item(TableName="Orders", Item={"id": {"S": "new"}})
        assert len(client.scan(TableName="Orders")["Items"]) == 41

    assert has_token(folder) == []
    assert has_token(archive)
    assert foldb("verify", folder).returncode == 0


def test_a_stream_keeps_its_changes_from_a_trim(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with served(folder, "--segment-bytes", "20000") as url:
        client = client_of(url)
        fill(client)
        client.update_table(
            TableName="Orders",
            StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"},
        )

    done = foldb("--yes", "log", "trim", folder, "--before", "80")

    assert done.returncode == 2
    assert "streams and subscriptions of Orders keep changes" in done.stderr


def test_a_damaged_copy_is_found_and_written_again(data: Path) -> None:
    trim(data, "--before", "80")
    [base] = (data / "foundation.copy").glob("*.base")
    intact = base.read_bytes()
    base.write_bytes(intact[:-40] + b"damage" + intact[-34:])

    done = foldb("verify", data)
    assert done.returncode == 9
    assert "a copy of its foundation is damaged" in done.stderr
    with served(data, *OPTIONS):
        pass
    assert base.read_bytes() == intact


def test_a_log_of_several_partitions_is_trimmed_at_one_boundary(tmp_path: Path) -> None:
    folder, archive = tmp_path / "data", tmp_path / "archive"
    options = (*OPTIONS, "--partitions", "3")
    with served(folder, *options) as url:
        fill(client_of(url), count=240)
    whole = rows(folder)

    row = trim(folder, "--before", "1:60,2:60,3:60", "--archive", archive)

    begins = dict(each.split(":") for each in row["horizon"].split(","))
    assert sorted(begins) == ["0", "1", "2", "3"]
    kept = [each for each in whole if is_kept(each["position"], begins)]
    assert 0 < len(kept) < len(whole)
    assert rows(folder) == kept
    assert foldb("verify", folder).returncode == 0
    with served(folder, *options) as url:
        assert len(client_of(url).scan(TableName="Orders")["Items"]) == 40
    assert foldb("log", "backup", folder, archive).returncode == 0
    assert rows(archive)[: len(whole)] == whole


def is_kept(position: str, begins: dict[str, str]) -> bool:
    partition, _, place = position.partition(":")
    return int(place.split(".")[0]) >= int(begins[partition])
