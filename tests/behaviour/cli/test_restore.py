"""`foldb restore`, `foldb fork` and `foldb backup`."""

from typing import Any

import pytest

from foldb.cli.lib.client import Client
from foldb.cli.lib.session import Session
from tests.behaviour.cli.conftest import Foldb, lines
from tests.behaviour.cli.terminals import on_a_terminal, plain
from tests.support.raw import ask


@pytest.fixture
def music(cli: Foldb) -> Foldb:
    """Songs A and B at position 3. Then A is changed, B removed and C added."""
    cli("table", "create", "Music", "Artist:S", "Song:S")
    for song in "AB":
        cli("item", "put", "Music", f'{{"Artist": "Kyuss", "Song": "{song}", "Plays": 1}}')
    cli("item", "update", "Music", "Kyuss", "A", "--set", "Plays = 2")
    cli("item", "delete", "Music", "Kyuss", "B")
    cli("item", "put", "Music", '{"Artist": "Kyuss", "Song": "C", "Plays": 1}')
    return cli


def songs(cli: Foldb, table: str = "Music") -> dict[str, int]:
    return {item["Song"]: item["Plays"] for item in lines(cli("scan", table))}


@pytest.mark.spec("X4")
def test_a_table_is_restored_into_another(music: Foldb) -> None:
    result = music("restore", "Music", "--as-of", "3", "--into", "Before")

    assert 0 == result.exit_code
    [made] = lines(result)
    assert ("Before", "Music", 2) == (made["table"], made["from"], made["items"])
    assert {"A": 1, "B": 1} == songs(music, "Before")
    assert {"A": 2, "C": 1} == songs(music)


def test_a_dropped_table_is_restored(music: Foldb) -> None:
    music("table", "delete", "Music", "--yes")

    assert 0 == music("restore", "Music", "--as-of", "3", "--into", "Music").exit_code

    assert {"A": 1, "B": 1} == songs(music)


def test_a_restore_in_place_prints_the_difference_first(music: Foldb) -> None:
    refused = music("restore", "Music", "--as-of", "3", "--in-place", "--no-input")
    before = songs(music)
    result = music("restore", "Music", "--as-of", "3", "--in-place", "--yes")

    assert 2 == refused.exit_code
    assert {"A": 2, "C": 1} == before
    assert {("put", "A"), ("put", "B"), ("remove", "C")} == {
        (row["change"], row["key"]["Song"]) for row in lines(result)
    }
    assert refused.stdout == result.stdout
    assert {"A": 1, "B": 1} == songs(music)
    again = music("restore", "Music", "--as-of", "3", "--in-place")
    assert (0, "Music is as it was at 3\n") == (again.exit_code, again.stderr)


@pytest.mark.usefixtures("music")
def test_a_terminal_shows_the_difference_as_lines(url: str) -> None:
    result = on_a_terminal("restore", "Music", "--as-of", "3", "--in-place", "--yes", "--db", url)

    assert {
        '+ {"Artist":"Kyuss","Plays":1,"Song":"B"}',
        '- {"Artist":"Kyuss","Plays":1,"Song":"C"}',
        '~ {"Artist":"Kyuss","Song":"A"}',
        "    ~ Plays: 2 → 1",
    } == set(plain(result.stdout).splitlines())


def test_an_item_that_changes_before_the_confirmation_is_kept(
    music: Foldb, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    song = {"Artist": {"S": "Kyuss"}, "Song": {"S": "A"}, "Plays": {"N": "9"}}

    def change(*_: object) -> None:
        assert 200 == ask(url, "DynamoDB_20120810.PutItem", {"TableName": "Music", "Item": song}).status

    monkeypatch.setattr(Session, "confirm", change)
    result = music("restore", "Music", "--as-of", "3", "--in-place")

    assert 10 == result.exit_code
    assert "1 item had changed: run the command again to see them" in result.stderr
    assert {"A": 9, "B": 1} == songs(music)


def test_a_restore_in_place_writes_each_page_before_the_next(
    cli: Foldb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the command holds one page in memory, however many items differ."""
    cli("table", "create", "Notes", "id:N")
    cli("item", "put", "Notes", "-", stdin="\n".join(f'{{"id": {n}}}' for n in range(230)))
    calls: list[str] = []
    admin = Client.admin

    def recorded(client: Client, operation: str, body: Any) -> Any:
        calls.append(operation)
        return admin(client, operation, body)

    monkeypatch.setattr(Client, "admin", recorded)
    result = cli("restore", "Notes", "--as-of", "1", "--in-place", "--yes")

    assert (230, []) == (len(lines(result)), lines(cli("scan", "Notes")))
    pages = calls.count("TableDifferences") // 2
    assert pages > 2
    assert "RestoreItems" in calls[pages : pages + 2]


def test_one_item_is_restored(music: Foldb) -> None:
    result = music("restore", "Music", "--as-of", "3", "--key", "Kyuss", "--key", "B", "--yes")

    [row] = lines(result)
    assert {"change": "put", "key": {"Artist": "Kyuss", "Song": "B"}} == {
        name: row[name] for name in ("change", "key")
    }
    assert {"A": 2, "B": 1, "C": 1} == songs(music)


@pytest.mark.spec("F11")
def test_changes_of_a_restore_have_its_source(music: Foldb) -> None:
    music("restore", "Music", "--as-of", "3", "--in-place", "--yes")

    rows = [row for row in lines(music("log", "cat")) if row.get("source") == "restore"]

    assert ["Delete", "Put", "Put"] == sorted(row["command"] for row in rows)


def test_a_restore_needs_one_target(music: Foldb) -> None:
    for options in ([], ["--in-place", "--into", "New"]):
        result = music("restore", "Music", "--as-of", "3", *options)

        assert 2 == result.exit_code
        assert "give one of --into NEW, --key WORD and --in-place" in result.stderr


def test_a_fork_has_its_lineage(music: Foldb) -> None:
    assert 0 == music("fork", "Music", "Now").exit_code
    assert 0 == music("fork", "Music", "Then", "--as-of", "3").exit_code

    assert {"A": 2, "C": 1} == songs(music, "Now")
    assert {"A": 1, "B": 1} == songs(music, "Then")
    [table] = lines(music("table", "describe", "Then"))
    assert table["RestoreSummary"]["SourceTableArn"].endswith("table/Music")
    assert table["RestoreSummary"]["RestoreInProgress"] is False


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        (["Nope", "New", "--as-of", "3"], 3, "Table: Nope not found at 3"),
        (["Nope", "New"], 3, "Table: Nope not found"),
        (["Music", "New", "--as-of", "x"], 2, "`x` is not a cut"),
        (["Music", "New", "--as-of", "2999-01-01T00:00Z"], 7, "is in the future"),
        (["Music", "New", "--as-of", "1:3"], 7, "a position of this log is OFFSET.INDEX"),
        (["Music", "Music"], 7, "Table already exists: Music"),
        (["Music", "?"], 7, "failed to satisfy constraint"),
    ],
)
def test_an_impossible_fork_is_refused(music: Foldb, options: list[str], code: int, text: str) -> None:
    result = music("fork", *options)

    assert (code, True) == (result.exit_code, text in result.stderr), result.stderr


@pytest.mark.spec("X4")
def test_a_backup_is_made_listed_and_restored(music: Foldb) -> None:
    [made] = lines(music("backup", "create", "Music", "before-release"))
    music("item", "delete", "Music", "Kyuss", "A")

    assert [("before-release", "Music", made["BackupArn"])] == [
        (row["backup"], row["table"], row["arn"]) for row in lines(music("backup", "list"))
    ]
    assert [] == lines(music("backup", "list", "--table", "Other"))
    [described] = lines(music("backup", "describe", "before-release"))
    assert 2 == described["SourceTableDetails"]["ItemCount"]
    assert 0 == music("backup", "restore", "before-release", "Restored").exit_code
    assert {"A": 2, "C": 1} == songs(music, "Restored")
    assert 0 == music("backup", "delete", made["BackupArn"], "--yes").exit_code
    gone = music("backup", "describe", "before-release")
    assert (3, "no backup has the name before-release: see `foldb backup list`\n") == (
        gone.exit_code,
        gone.stderr.removeprefix("foldb: "),
    )


def test_a_name_of_two_backups_is_refused(music: Foldb) -> None:
    for _ in range(2):
        music("backup", "create", "Music", "nightly")

    result = music("backup", "delete", "nightly", "--yes")

    assert (2, True) == (result.exit_code, "2 backups have the name nightly" in result.stderr)
