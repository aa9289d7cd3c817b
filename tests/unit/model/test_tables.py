"""Table definitions as values: settling, index keys, names, and their form in the state dump."""

from dataclasses import replace
from typing import Any

import orjson
import pytest

from foldb.model import table_requests
from foldb.model.capacity_partitions import Boundary, PartitionMap, Split
from foldb.model.index_keys import index_key_error
from foldb.model.limits import MODERN
from foldb.model.tables import (
    TableDefinition,
    index_filled,
    name_of,
    settled,
)
from foldb.model.throughput import partition_map
from tests.support.tables import table_request

NOW = 1_700_000_000_123


def music(**settings: Any) -> TableDefinition:
    request = table_request(
        "Music",
        "Artist:S",
        "Song:S",
        gsi={"Genres": "Genre:S Album:S"},
        lsi={"Years": "Year:N KEYS_ONLY"},
        **settings,
    )
    return table_requests.create(request, table_id=7, uuid="u", time_ms=NOW, limits=MODERN)


def after(definition: TableDefinition, **request: Any) -> TableDefinition:
    return table_requests.update(definition, request, next_id=20, time_ms=NOW + 1, limits=MODERN)


def active(definition: TableDefinition) -> TableDefinition:
    settled_definition = settled(definition)
    assert settled_definition is not None
    return settled_definition


def test_a_new_table_is_being_created_until_it_is_settled() -> None:
    definition = music()
    assert ["CREATING"] * 3 == [definition.status, *(index.status for index in definition.indexes)]

    definition = active(definition)

    assert ["ACTIVE"] * 3 == [definition.status, *(index.status for index in definition.indexes)]


def test_indexes_take_the_ids_after_the_tables() -> None:
    assert [("Years", 8), ("Genres", 9)] == [(index.name, index.id) for index in music().indexes]


def test_a_settled_table_that_was_deleting_is_removed() -> None:
    assert settled(table_requests.delete(active(music()))) is None


def test_a_new_index_is_created_until_it_is_filled() -> None:
    create = {
        "IndexName": "Songs",
        "KeySchema": [{"AttributeName": "Song", "KeyType": "HASH"}],
        "Projection": {"ProjectionType": "ALL"},
    }
    definition = active(after(active(music()), GlobalSecondaryIndexUpdates=[{"Create": create}]))
    index = definition.index("Songs")
    assert index is not None
    assert ("ACTIVE", "CREATING", True) == (definition.status, index.status, index.backfilling)

    index = index_filled(definition, index.id).index("Songs")

    assert index is not None
    assert ("ACTIVE", False) == (index.status, index.backfilling)


def test_a_deleted_index_is_gone_when_the_table_is_settled() -> None:
    definition = after(active(music()), GlobalSecondaryIndexUpdates=[{"Delete": {"IndexName": "Genres"}}])
    index = definition.index("Genres")
    assert index is not None
    assert "DELETING" == index.status

    assert ["Years"] == [index.name for index in active(definition).indexes]


def test_a_definition_survives_the_state_dump() -> None:
    settings = {
        "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"},
        "SSESpecification": {"Enabled": True, "SSEType": "KMS"},
        "OnDemandThroughput": {"MaxReadRequestUnits": 5},
        "WarmThroughput": {"ReadUnitsPerSecond": 13_000},
        "TableClass": "STANDARD",
        "Tags": [{"Key": "k", "Value": "v"}],
    }
    for definition in (music(), music(**settings)):
        data = orjson.loads(orjson.dumps(definition.to_json(), option=orjson.OPT_SORT_KEYS))

        assert definition == TableDefinition.from_json(data)


ITEM = {"Artist": {"S": "a"}, "Song": {"S": "b"}}
BAD_INDEX_KEYS = [
    (
        {"Year": {"S": "2014"}},
        "One or more parameter values were invalid: Type mismatch for Index Key Year "
        "Expected: N Actual: S IndexName: Years",
    ),
    (
        {"Genre": {"S": ""}},
        "One or more parameter values are not valid. A value specified for a secondary index key is not "
        "supported. The AttributeValue for a key attribute cannot contain an empty string value. "
        "IndexName: Genres, IndexKey: Genre",
    ),
    (
        {"Genre": {"S": "x" * 2049}},
        "One or more parameter values were invalid: "
        "Size of hashkey has exceeded the maximum size limit of2048 bytes",
    ),
    (
        {"Album": {"S": "x" * 1025}},
        "One or more parameter values were invalid: "
        "Aggregated size of all range keys has exceeded the size limit of 1024 bytes",
    ),
]


@pytest.mark.parametrize(("more", "message"), BAD_INDEX_KEYS)
def test_an_item_must_fit_the_keys_of_the_indexes(more: dict[str, Any], message: str) -> None:
    error = index_key_error(music(), ITEM | more, MODERN)

    assert error is not None
    assert message == error.message


@pytest.mark.spec("S27")
def test_an_item_may_lack_the_keys_of_an_index() -> None:
    assert index_key_error(music(), ITEM, MODERN) is None
    assert index_key_error(music(), ITEM | {"Genre": {"S": "Rock"}}, MODERN) is None


@pytest.mark.spec("X7")
@pytest.mark.parametrize(
    "text",
    [
        "Music",
        "arn:aws:dynamodb:eu-west-1:123456789012:table/Music",
        "arn:aws:dynamodb:eu-west-1:123456789012:table/Music/index/Genres",
        "arn:aws:dynamodb:eu-west-1:123456789012:table/Music/stream/2023-11-14T22:13:20.123",
    ],
)
def test_a_table_name_may_be_an_arn(text: str) -> None:
    assert "Music" == name_of(text)


def test_a_stored_map_of_partitions_is_in_the_dump() -> None:
    split = Split(0, Boundary(1 << 63, b"car", b"red"), "heat", NOW)
    partitions = PartitionMap(1).split(split)
    plain = active(music())
    index = replace(plain.indexes[1], capacity_partitions=partitions)
    kept = replace(plain, capacity_partitions=PartitionMap(3), indexes=(plain.indexes[0], index))

    data = orjson.loads(orjson.dumps(kept.to_json()))

    assert kept == TableDefinition.from_json(data)
    assert partitions == partition_map(kept, index)
    assert "capacity_partitions" not in plain.to_json()
    assert PartitionMap(8) == partition_map(plain, plain)  # on demand
