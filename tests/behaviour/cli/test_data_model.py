"""`foldb table create --from-model`: tables of a data model of NoSQL Workbench."""

import json
from pathlib import Path
from typing import Any

import pytest

from foldb.cli.lib.data_model import read_model
from foldb.cli.lib.errors import CommandError, ExitCode
from tests.behaviour.cli.conftest import Foldb, at, lines


def attribute(name: str, kind: str = "S") -> dict[str, str]:
    return {"AttributeName": name, "AttributeType": kind}


def item(pk: str, sk: str, **numbers: int) -> dict[str, Any]:
    return {"PK": {"S": pk}, "SK": {"S": sk}} | {name: {"N": str(n)} for name, n in numbers.items()}


SHOP = {
    "TableName": "Shop",
    "KeyAttributes": {"PartitionKey": attribute("PK"), "SortKey": attribute("SK")},
    "NonKeyAttributes": [attribute("total", "N"), attribute("at")],
    "TableFacets": [
        {
            "FacetName": "order",
            "KeyAttributeAlias": {"PartitionKeyAlias": "customer", "SortKeyAlias": "order"},
            "TableData": [item("c#1", "o#1", total=5), item("c#2", "o#2", total=7)],
            "NonKeyAttributes": ["total"],
            "DataAccess": {"MySql": {}},
        }
    ],
    "GlobalSecondaryIndexes": [
        {
            "IndexName": "totals",
            "KeyAttributes": {"PartitionKey": attribute("SK"), "SortKey": attribute("total", "N")},
            "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["at"]},
        }
    ],
    "TableData": [item("c#1", "o#1", total=5), item("c#1", "profile")],
    "DataAccess": {"MySql": {}},
    "BillingMode": "PROVISIONED",
    "ProvisionedCapacitySettings": {
        "ProvisionedThroughput": {"ReadCapacityUnits": 3, "WriteCapacityUnits": 4},
        "AutoScalingRead": {"ScalableTargetRequest": {"MinCapacity": 1, "MaxCapacity": 10}},
    },
}
LOGS = {"TableName": "Logs", "KeyAttributes": {"PartitionKey": attribute("at", "N")}}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "shop.json"
    metadata = {"Author": "", "AWSService": "Amazon DynamoDB", "Version": "3.0"}
    path.write_text(json.dumps({"ModelName": "A", "ModelMetadata": metadata, "DataModel": [SHOP, LOGS]}))
    return path


def test_a_model_has_keys_indexes_units_and_sample_data(cli: Foldb, model: Path) -> None:
    created = cli("table", "create", "--from-model", str(model), "--data")

    assert "Shop: ACTIVE\nShop: 3 items\nLogs: ACTIVE\nLogs: 0 items\n" == created.stderr
    [shop], [logs] = (lines(cli("table", "describe", name)) for name in ("Shop", "Logs"))
    [index] = shop["GlobalSecondaryIndexes"]
    for described in (shop, index):
        units = described["ProvisionedThroughput"]
        assert (3, 4) == (units["ReadCapacityUnits"], units["WriteCapacityUnits"])
    assert {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["at"]} == index["Projection"]
    assert "SK:S,total:N" == lines(cli("index", "status", "Shop"))[0]["key"]
    assert [attribute("at", "N")] == logs["AttributeDefinitions"]
    assert "PAY_PER_REQUEST" == logs["BillingModeSummary"]["BillingMode"]
    found = sorted(lines(cli("scan", "Shop", "--typed")), key=str)
    assert (
        sorted([item("c#1", "o#1", total=5), item("c#1", "profile"), item("c#2", "o#2", total=7)], key=str)
        == found
    )


def test_one_table_of_a_model_is_created_by_its_name(cli: Foldb, model: Path) -> None:
    assert (
        0 == cli("table", "create", "Logs", "--from-model", str(model), "--ttl", "at", "--stream").exit_code
    )

    assert [{"table": "Logs"}] == lines(cli("table", "list"))
    [logs] = lines(cli("table", "describe", "Logs"))
    assert ("at", True) == (logs["TimeToLive"]["AttributeName"], logs["StreamSpecification"]["StreamEnabled"])
    assert 0 == lines(cli("count", "Logs"))[0]["count"]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["Cars"], ExitCode.NOT_FOUND, "has no table Cars; its tables: Shop, Logs"),
        (["Logs", "id:S"], ExitCode.USAGE, "--from-model has the keys, indexes and units: remove yours"),
        (["Logs", "--gsi", "x=y:S"], ExitCode.USAGE, "remove yours"),
        (["--read", "1", "--write", "1"], ExitCode.USAGE, "remove yours"),
    ],
)
def test_words_beside_a_model_are_checked(
    cli: Foldb, model: Path, words: list[str], code: ExitCode, says: str
) -> None:
    refused = cli("table", "create", *words, "--from-model", str(model))

    assert code == refused.exit_code
    assert says in refused.stderr
    assert [] == lines(cli("table", "list"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is not JSON"),
        (
            '{"Resources": {}}',
            "is no data model: export one from NoSQL Workbench as JSON, not as CloudFormation",
        ),
        ('{"DataModel": [{}]}', "table 1 has no TableName"),
        ('{"DataModel": [{"TableName": "Cars"}]}', "table Cars has no KeyAttributes"),
        ('{"DataModel": [{"TableName": "Cars", "KeyAttributes": []}]}', "a KeyAttributes of another type"),
        ('{"DataModel": [{"TableName": "Cars", "KeyAttributes": {"PartitionKey": {}}}]}', "no AttributeName"),
        (
            json.dumps({"DataModel": [LOGS | {"BillingMode": "PROVISIONED"}]}),
            "no ProvisionedCapacitySettings",
        ),
        (json.dumps({"DataModel": [LOGS | {"TableData": ["a"]}]}), "table Logs, item 1 is not an item"),
    ],
)
def test_a_file_that_is_no_model_is_refused_by_its_place(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "model.json"
    path.write_text(text)

    with pytest.raises(CommandError) as refused:
        read_model(path)

    assert ExitCode.USAGE is refused.value.code
    assert says in refused.value.sentence


def test_a_table_needs_its_key_or_a_model() -> None:
    for words in ([], ["Cars"], ["Cars", "id:S", "--data"]):
        refused = at("nowhere")("table", "create", *words)

        assert ExitCode.USAGE == refused.exit_code
        assert "or --from-model FILE" in refused.stderr
