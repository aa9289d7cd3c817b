"""Tables made from the log again, in place, while other tables are served."""

import http.client
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

import foldb
from foldb.cli.lib.client import Client
from tests.behaviour.cli.conftest import Foldb, at, lines
from tests.support.served import Process, served


def items(cli: Foldb, table: str) -> list[str]:
    result = cli("scan", table, "--all")
    assert result.exit_code == 0, result.output
    return sorted(result.stdout.splitlines())


@pytest.mark.spec("H1")
def test_a_rebuilt_table_is_the_same_to_the_byte(cli: Foldb) -> None:
    """Items, a local index, entries made and taken away, and another table beside it."""
    cli("sample", "load", "forum")
    cli("item", "delete", "Reply", "Databases#Hot keys", "2026-01-05T09:15:00Z")
    before = items(cli, "Reply")

    [result] = lines(cli("rebuild", "Reply"))

    assert (True, 4) == (result["same"], result["items"])
    assert before == items(cli, "Reply")
    assert 0 == cli("verify").exit_code
    cli(
        "item",
        "put",
        "Reply",
        '{"Id": "Databases#Hot keys", "ReplyDateTime": "2026-03-01", "PostedBy": "Eve"}',
    )
    eve = lines(cli("query", "Reply", "Databases#Hot keys", "--index", "PostedBy", "--sk", "Eve"))
    assert 1 == len(eve), "the rebuilt index is the one that is kept up from now on"
    assert 3 == cli("rebuild", "Nope").exit_code


@pytest.mark.spec("H1")
def test_writes_go_on_while_a_table_is_rebuilt_and_none_is_lost(cli: Foldb, url: str) -> None:
    cli("table", "create", "Notes", "id:N")
    cli("item", "put", "Notes", "-", stdin="\n".join(f'{{"id": {n}}}' for n in range(2000)))

    with closing(Client(url)) as client, ThreadPoolExecutor(1) as pool:
        rebuilding = pool.submit(rebuilt, url)
        written = 0
        while not rebuilding.done():
            client.call("PutItem", {"TableName": "Notes", "Item": {"id": {"N": str(9000 + written)}}})
            written += 1

    assert rebuilding.result()["Same"]
    assert written > 0
    assert 2000 + written == len(items(cli, "Notes"))
    assert 0 == cli("verify").exit_code


def rebuilt(url: str) -> dict[str, object]:
    """Run `foldb rebuild Notes` in a thread, where typer's test runner does not work."""
    with closing(Client(url)) as client:
        answer = client.admin("Rebuild", {"TableName": "Notes"})
        while answer["Status"] == "RUNNING":
            answer = client.admin("Rebuild", {"TableName": "Notes", "Id": answer["Id"]})
        return answer


@pytest.mark.spec("H1")
def test_a_rebuild_repairs_a_table_that_differs_from_its_log(folder: Path) -> None:
    with foldb.serve(folder, fsync="never") as server:
        cli = at(server.endpoint_url)
        cli("sample", "load", "music")
        assert server._serving is not None
        table = server._serving.node.state.table_named("Music")
        assert table is not None
        table.items.remove(b"Kyuss", b"Space Cadet")
        assert 2 == len(items(cli, "Music"))

        result = cli("rebuild", "Music")

        assert (1, False) == (result.exit_code, json.loads(result.stdout)["same"])
        assert "Music differed from its log and was replaced" in result.stderr
        assert 3 == len(items(cli, "Music"))
        assert 0 == cli("rebuild", "Music").exit_code


@pytest.mark.spec("H1")
def test_a_rebuild_of_one_index_leaves_the_rest_of_its_table(folder: Path) -> None:
    with foldb.serve(folder, fsync="never") as server:
        cli = at(server.endpoint_url)
        cli("sample", "load", "music-genres")
        assert server._serving is not None
        table = server._serving.node.state.table_named("MusicGenres")
        assert table is not None
        items, store = table.items, table.indexes["Genres"].store
        entries = store.count
        _, pk, sk, _ = next(store.scan())
        store.remove(pk, sk)

        result = cli("rebuild", "MusicGenres", "--index", "Genres")

        row = json.loads(result.stdout)
        assert (1, "Genres", entries, False) == (
            result.exit_code,
            row["index"],
            row["items"],
            row["same"],
        )
        assert "MusicGenres.Genres differed from its log and was replaced" in result.stderr
        assert table.items is items
        assert entries == table.indexes["Genres"].store.count
        assert [True] == [row["same"] for row in lines(cli("rebuild", "MusicGenres", "--index", "Genres"))]
        assert [True] == [row["same"] for row in lines(cli("rebuild", "MusicGenres"))]


def test_an_index_that_is_not_there_is_not_rebuilt(cli: Foldb) -> None:
    cli("sample", "load", "music-genres")

    missing = cli("rebuild", "MusicGenres", "--index", "Nope")

    assert 3 == missing.exit_code
    assert "foldb: ResourceNotFoundException: The table MusicGenres has no index Nope\n" == missing.stderr


@pytest.mark.spec("H1")
def test_a_server_killed_while_it_rebuilds_starts_with_the_same_table(tmp_path: Path) -> None:
    with foldb.serve(tmp_path, fsync="never") as server:
        cli = at(server.endpoint_url)
        cli("table", "create", "Notes", "id:N")
        cli("item", "put", "Notes", "-", stdin="\n".join(f'{{"id": {n}}}' for n in range(3000)))
        before = items(cli, "Notes")

    with Process(tmp_path) as server:
        asking = http.client.HTTPConnection(server.url.removeprefix("http://"))
        asking.request(
            "POST",
            "/",
            b'{"TableName": "Notes"}',
            {"X-Amz-Target": "Foldb_20261121.Rebuild", "Authorization": "none"},
        )
        server.kill()
        asking.close()

    with served(tmp_path) as url:
        cli = at(url)
        assert before == items(cli, "Notes")
        assert [True] == [row["same"] for row in lines(cli("rebuild", "Notes"))]
