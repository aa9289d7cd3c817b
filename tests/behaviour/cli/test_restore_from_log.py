"""`foldb restore --log`: copies of tables from the log of another database, or as if it were another."""

import json
from contextlib import closing
from pathlib import Path

import pytest

import foldb
from foldb.cli.lib.client import Client
from tests.behaviour.cli.conftest import Foldb, at, lines
from tests.support.served import served


def items(cli: Foldb, table: str) -> list[str]:
    result = cli("scan", table, "--all")
    assert result.exit_code == 0, result.output
    return sorted(result.stdout.splitlines())


@pytest.mark.spec("H1")
def test_a_table_comes_back_from_the_log_of_another_database(
    cli: Foldb, url: str, folder: Path, tmp_path: Path
) -> None:
    """The backup, or its server, is named as any source of a log."""
    cli("sample", "load", "music")
    before = items(cli, "Music")
    lines(cli("log", "backup", str(folder), str(tmp_path / "backup")))

    with foldb.serve(tmp_path / "another", fsync="never") as another:
        other = at(another.endpoint_url)
        from_backup = other(
            "restore", "Music", "--as-of", "-0", "--log", str(tmp_path / "backup"), "--into", "FromBackup"
        )
        from_server = other("restore", "Music", "--as-of", "-0", "--log", url, "--into", "FromServer")
        refused = other("restore", "Music", "--as-of", "-0", "--log", str(tmp_path / "backup"), "--in-place")

        assert (0, 0) == (from_backup.exit_code, from_server.exit_code), (
            from_backup.stderr + from_server.stderr
        )
        assert before == items(other, "FromBackup") == items(other, "FromServer")
    assert (2, True) == (refused.exit_code, "--log needs --into" in refused.stderr)


@pytest.mark.spec("H1")
def test_a_dropped_table_comes_back(cli: Foldb, url: str) -> None:
    cli("sample", "load", "music-genres")
    before = items(cli, "MusicGenres")
    genres = cli("query", "MusicGenres", "Rock", "--index", "Genres").stdout
    cli("table", "delete", "MusicGenres", "--yes")

    lost = cli("restore", "MusicGenres", "--as-of", "-0", "--into", "Again", "--log", url)
    assert 3 == lost.exit_code
    position = lost.stderr.rpartition("--as-of ")[2].strip()

    assert (
        0
        == cli("restore", "MusicGenres", "--as-of", position, "--into", "MusicGenres", "--log", url).exit_code
    )
    assert before == items(cli, "MusicGenres")
    assert genres == cli("query", "MusicGenres", "Rock", "--index", "Genres").stdout
    assert [] == tags(url, "MusicGenres")


@pytest.mark.spec("H1")
def test_a_past_state_is_written_beside_the_present_one(cli: Foldb, url: str) -> None:
    cli("table", "create", "Notes", "id:N", "--read", "3", "--write", "4", "--ttl", "until")
    for n in range(4):
        cli("item", "put", "Notes", json.dumps({"id": n % 2, "n": n}))

    [position] = [row["position"] for row in lines(cli("log", "cat")) if row.get("new") == {"id": 0, "n": 2}]
    [row] = lines(cli("restore", "Notes", "--as-of", position, "--into", "Earlier", "--log", url))

    assert ("Earlier", "Notes", position, 2) == (row["table"], row["from"], row["as_of"], row["items"])
    assert ['{"id":0,"n":2}', '{"id":1,"n":1}'] == items(cli, "Earlier")
    assert ['{"id":0,"n":2}', '{"id":1,"n":3}'] == items(cli, "Notes")
    [described] = lines(cli("table", "describe", "Earlier"))
    assert 3 == described["ProvisionedThroughput"]["ReadCapacityUnits"]
    assert "DISABLED" == described["TimeToLive"]["TimeToLiveStatus"]


@pytest.mark.spec("H1")
def test_a_past_state_of_several_partitions_is_written_beside_it(tmp_path: Path) -> None:
    with served(tmp_path, "--partitions", "3") as url:
        cli = at(url)
        cli("table", "create", "Notes", "id:N")
        cli("item", "put", "Notes", "-", stdin="\n".join(f'{{"id": {n}}}' for n in range(60)))
        copied = cli("restore", "Notes", "--as-of", "-0", "--into", "Copied", "--log", url)

        assert 0 == copied.exit_code, copied.output
        assert items(cli, "Notes") == items(cli, "Copied")
        assert [] == tags(url, "Copied")


def test_a_wrong_position_or_name_is_refused(cli: Foldb, url: str) -> None:
    cli("sample", "load", "music")

    assert 2 == cli("restore", "Music", "--as-of", "99", "--into", "Copied", "--log", url).exit_code
    assert 7 == cli("restore", "Music", "--as-of", "-0", "--into", "Music", "--log", url).exit_code


@pytest.mark.spec("H1")
def test_an_interrupted_copy_goes_on_when_it_is_run_again(cli: Foldb, url: str) -> None:
    """A kill leaves the new table, its tag, and some of the items."""
    cli("table", "create", "Notes", "id:N")
    cli("item", "put", "Notes", "-", stdin="\n".join(f'{{"id": {n}}}' for n in range(60)))
    position = lines(cli("log", "tail", "-n", "1"))[0]["position"].partition(".")[0]
    cli("table", "create", "Copied", "id:N")
    cli("item", "put", "Copied", '{"id": 7}')
    tag(url, "Copied", f"Notes@{position}")

    assert 0 == cli("restore", "Notes", "--as-of", position, "--into", "Copied", "--log", url).exit_code
    assert items(cli, "Notes") == items(cli, "Copied")


def tag(url: str, table: str, value: str) -> None:
    with closing(Client(url)) as client:
        arn = client.call("DescribeTable", {"TableName": table})["Table"]["TableArn"]
        client.call(
            "TagResource", {"ResourceArn": arn, "Tags": [{"Key": "foldb:rebuilt-from", "Value": value}]}
        )


def tags(url: str, table: str) -> list[object]:
    with closing(Client(url)) as client:
        arn = client.call("DescribeTable", {"TableName": table})["Table"]["TableArn"]
        return list(client.call("ListTagsOfResource", {"ResourceArn": arn})["Tags"])


def test_a_table_with_the_longest_name_is_copied_from_a_log(cli: Foldb, url: str) -> None:
    """The table and the cut are a tag of the copy until it is complete, and positions of many partitions are longer."""
    name = "n" * 255
    assert 0 == cli("table", "create", name, "pk:S").exit_code
    assert 0 == cli("item", "put", name, '{"pk": "a"}').exit_code

    [row] = lines(cli("restore", name, "--as-of", "-0", "--into", "Copy", "--log", url))

    assert 1 == row["items"]
    assert [{"pk": "a"}] == lines(cli("scan", "Copy"))
