"""Real input: the ISO databases of pycountry, loaded in batches and asked in every way an index allows."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pycountry
import pytest
from boto3.dynamodb.conditions import Key

from tests.support.claims import everything, load
from tests.support.tables import table_request


def _database(standard: str) -> list[dict[str, Any]]:
    path = Path(pycountry.__file__).parent / "databases" / f"iso{standard}.json"
    rows: list[dict[str, Any]] = json.loads(path.read_text())[standard]
    return rows


SUBDIVISIONS = [row | {"country": row["code"][:2]} for row in _database("3166-2")]
LANGUAGES = _database("639-3")
COUNTRIES = _database("3166-1")


def _load(
    resource: Any, client: Any, rows: list[dict[str, Any]], *keys: str, **indexes: Any
) -> Iterator[Any]:
    table = resource.create_table(**table_request(f"iso-{id(rows)}", *keys, **indexes))
    load(client, table.name, ({name: {"S": value} for name, value in row.items()} for row in rows))
    yield table
    table.delete()


@pytest.fixture(scope="module")
def subdivisions(resource: Any, client: Any) -> Iterator[Any]:
    gsi = {"ByType": "type:S code:S KEYS_ONLY", "ByParent": "parent:S code:S name"}
    yield from _load(resource, client, SUBDIVISIONS, "country:S", "code:S", gsi=gsi)


@pytest.fixture(scope="module")
def languages(resource: Any, client: Any) -> Iterator[Any]:
    gsi = {"ByAlpha2": "alpha_2:S", "ByKind": "type:S name:S"}
    yield from _load(resource, client, LANGUAGES, "alpha_3:S", gsi=gsi)


@pytest.fixture(scope="module")
def countries(resource: Any, client: Any) -> Iterator[Any]:
    yield from _load(resource, client, COUNTRIES, "alpha_2:S", gsi={"ByOfficialName": "official_name:S"})


@pytest.mark.spec("S01", "S84")
def test_everything_arrived(subdivisions: Any, languages: Any, countries: Any) -> None:
    for table, rows in ((subdivisions, SUBDIVISIONS), (languages, LANGUAGES), (countries, COUNTRIES)):
        table.reload()
        assert len(rows) == table.item_count
    assert (5_046, 7_923, 249) == (len(SUBDIVISIONS), len(LANGUAGES), len(COUNTRIES))


@pytest.mark.spec("S74", "S77")
def test_the_subdivisions_of_a_country_come_by_code(subdivisions: Any) -> None:
    codes = sorted(row["code"] for row in SUBDIVISIONS if row["country"] == "GB")
    found = everything(subdivisions.query, KeyConditionExpression=Key("country").eq("GB"), Limit=50)

    assert codes == [item["code"] for item in found]


@pytest.mark.spec("S75")
def test_a_parallel_scan_finds_every_loaded_subdivision(subdivisions: Any) -> None:
    segments = [everything(subdivisions.scan, Segment=n, TotalSegments=8) for n in range(8)]
    found = sorted((item for items in segments for item in items), key=lambda item: str(item["code"]))

    assert sorted(SUBDIVISIONS, key=lambda row: str(row["code"])) == found


@pytest.mark.spec("S22", "S26", "S28")
def test_subdivisions_by_type(subdivisions: Any) -> None:
    counts = Counter(row["type"] for row in SUBDIVISIONS)
    for kind in ("Province", "Canton", "Outlying area"):
        found = everything(
            subdivisions.query, IndexName="ByType", KeyConditionExpression=Key("type").eq(kind)
        )
        assert counts[kind] == len(found) > 0
        assert {"country", "code", "type"} == set(found[0])


@pytest.mark.spec("S27")
def test_only_subdivisions_with_a_parent_are_in_the_index(subdivisions: Any) -> None:
    children = sorted(row["code"] for row in SUBDIVISIONS if "parent" in row)
    found = everything(subdivisions.scan, IndexName="ByParent")
    parent = next(row["parent"] for row in SUBDIVISIONS if "parent" in row)
    of_one = subdivisions.query(IndexName="ByParent", KeyConditionExpression=Key("parent").eq(parent))

    assert children == sorted(item["code"] for item in found)
    assert [row["code"] for row in SUBDIVISIONS if row.get("parent") == parent] == [
        item["code"] for item in of_one["Items"]
    ]


@pytest.mark.spec("S12", "S26")
def test_languages_of_a_kind_come_in_the_order_of_their_bytes(languages: Any) -> None:
    extinct = [row["name"] for row in LANGUAGES if row["type"] == "E"]
    found = everything(languages.query, IndexName="ByKind", KeyConditionExpression=Key("type").eq("E"))

    assert sorted(extinct, key=str.encode) == [item["name"] for item in found]


@pytest.mark.spec("S27")
def test_languages_with_two_letters(languages: Any) -> None:
    count = sum("alpha_2" in row for row in LANGUAGES)
    found = languages.query(IndexName="ByAlpha2", KeyConditionExpression=Key("alpha_2").eq("cy"))["Items"]

    assert count == len(everything(languages.scan, IndexName="ByAlpha2"))
    assert ["Welsh"] == [item["name"] for item in found]


@pytest.mark.spec("S01")
def test_countries_keep_their_optional_names(countries: Any) -> None:
    found = {item["alpha_2"]: item for item in everything(countries.scan)}

    assert {row["alpha_2"]: row for row in COUNTRIES} == found
    assert (
        sum("official_name" in row for row in COUNTRIES)
        == countries.scan(IndexName="ByOfficialName")["Count"]
    )
