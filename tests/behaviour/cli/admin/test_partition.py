"""`foldb partition of` and `list`: the partition of a key, and the capacity partitions now and at a cut."""

from collections.abc import Iterator
from typing import Any

import pytest

import foldb
from foldb.model.keys import key_hash, slot
from foldb.model.slots import slots_of
from tests.behaviour.cli.conftest import Foldb, at, lines
from tests.support.subscribed import until


@pytest.fixture
def several() -> Iterator[Foldb]:
    with foldb.serve(partitions=8) as server:
        cli = at(server.endpoint_url)
        assert 0 == cli("table", "create", "Music", "Artist:S", "Song:S").exit_code
        yield cli


@pytest.mark.spec("S62")
def test_a_key_lives_where_its_slot_does(several: Foldb) -> None:
    found = {}
    for artist in ("Kyuss", "1000mods", "Sleep", "b64:x", '{"Artist": "Om"}'):
        [said] = lines(several("partition", "of", "Music", artist))
        assert "Music" == said["TableName"]
        assert said["Slot"] in slots_of(said["Partition"], 9)
        found[artist] = said["Slot"]
    table = next(n for n in range(20) if slot(key_hash(n, b"Kyuss")) == found["Kyuss"])

    assert slot(key_hash(table, b"Om")) == found['{"Artist": "Om"}']
    assert slot(key_hash(table, b"b64:x")) == found["b64:x"]


def test_the_sort_key_makes_no_difference(several: Foldb) -> None:
    assert lines(several("partition", "of", "Music", "Kyuss")) == lines(
        several("partition", "of", "Music", "Kyuss", "Space Cadet")
    )


def test_a_lone_node_owns_every_partition(cli: Foldb, url: str) -> None:
    cli("table", "create", "Music", "Artist:S")

    [said] = lines(cli("partition", "of", "Music", "Kyuss"))
    assert (0, url.removeprefix("http://")) == (said["Partition"], said["Owner"])


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("Nowhere", "Kyuss"), 3, "ResourceNotFoundException"),
        (("Music", '{"Song": "x"}'), 7, "The provided key element does not match the schema"),
        (("Music", '{"Artist": 1}'), 7, "The provided key element does not match the schema"),
        (("Music", "a", "b", "c"), 2, "the key of Music is Artist and Song"),
    ],
)
def test_an_invalid_key_is_refused(several: Foldb, words: tuple[str, ...], code: int, says: str) -> None:
    result = several("partition", "of", *words)

    assert code == result.exit_code
    assert says in result.stderr


@pytest.mark.spec("S62")
def test_the_list_has_the_capacity_partition_of_a_key(several: Foldb) -> None:
    [said] = lines(several("partition", "of", "Music", "Kyuss"))

    listed = lines(several("partition", "list", "Music"))

    [mine] = [each for each in listed if each["id"] == said["CapacityPartition"]]
    low, high = (int(mine[name], 16) if mine[name] != "end" else 1 << 64 for name in ("low", "high"))
    assert low >> 52 <= said["Slot"] < high >> 52
    assert 8 == len(listed), "a table on demand"
    assert [each["high"] for each in listed[:-1]] == [each["low"] for each in listed[1:]]
    assert {"index", "id", "low", "high", "parent", "reason", "time"} == mine.keys()


@pytest.mark.spec("S62")
def test_the_list_at_a_cut_has_the_partitions_of_that_time() -> None:
    """The stored map, which a table has from its first split on, and the computed one before it."""
    with foldb.serve(throttle=True, split_delay_ms=0) as server:
        cli = at(server.endpoint_url)
        cli("table", "create", "Music", "Artist:S", "--read", "10", "--write", "10")
        created = lines(cli("status"))[0]["Position"]
        cli("table", "update", "Music", "--read", "10", "--write", "2000")
        split = until(lambda: is_split(lines(cli("partition", "list", "Music"))))
        now = lines(cli("status"))[0]["Position"]
        cli("table", "delete", "Music", "--yes")

        before, after = (lines(cli("partition", "list", "Music", "--as-of", cut)) for cut in (created, now))

    assert [(0, None)] == [(each["id"], each["parent"]) for each in before]
    assert split == after
    assert {"throughput"} == {each["reason"] for each in after}


def is_split(listed: list[Any]) -> list[Any]:
    """Return the partitions if there are several."""
    return listed if len(listed) > 1 else []


def test_a_list_at_no_cut_of_the_table_is_refused(cli: Foldb) -> None:
    cli("table", "create", "Music", "Artist:S")

    early = cli("partition", "list", "Music", "--as-of", "0")
    late = cli("partition", "list", "Music", "--as-of", "2100-01-01T00:00:00Z")

    assert (3, True) == (early.exit_code, "Music did not exist at 0" in early.stderr)
    assert (7, True) == (late.exit_code, "is in the future" in late.stderr)
