"""`foldb partition of` and `list`: the partition of a key, and the capacity partitions."""

from collections.abc import Iterator

import pytest

import foldb
from foldb.model.keys import key_hash, slot
from foldb.model.slots import slots_of
from tests.behaviour.cli.conftest import Foldb, at, lines


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
