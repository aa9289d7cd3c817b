"""Writes model/service.json from the descriptions of DynamoDB and DynamoDB Streams that botocore ships.

    .venv/bin/python tests/unit/model/generate_service.py

The names of all operations are kept, and what a request can break: the shapes that the operations' inputs reach, with
their members, lengths, ranges, patterns and enums. Attribute values are left out: `model/values.py` checks them by
hand. Run it after an update of botocore; `test_service.py` compares.
"""

import json
from pathlib import Path
from typing import Any

import botocore
from botocore.session import Session

TARGET = Path(__file__).parents[3] / "model" / "service.json"

OPERATIONS = {
    "dynamodb": [
        "BatchExecuteStatement",
        "BatchGetItem",
        "BatchWriteItem",
        "CancelBulkOperation",
        "CreateBackup",
        "CreateGlobalTable",
        "CreateTable",
        "DeleteBackup",
        "DeleteItem",
        "DeleteResourcePolicy",
        "DeleteTable",
        "DescribeBackup",
        "DescribeBulkOperation",
        "DescribeContinuousBackups",
        "DescribeContributorInsights",
        "DescribeEndpoints",
        "DescribeExport",
        "DescribeImport",
        "DescribeGlobalTable",
        "DescribeGlobalTableSettings",
        "DescribeKinesisStreamingDestination",
        "DescribeLimits",
        "DescribeTable",
        "DescribeTableReplicaAutoScaling",
        "DescribeTimeToLive",
        "DisableKinesisStreamingDestination",
        "EnableKinesisStreamingDestination",
        "ExecuteStatement",
        "ExecuteTransaction",
        "ExportTableToPointInTime",
        "GetItem",
        "GetResourcePolicy",
        "ImportTable",
        "ListBackups",
        "ListBulkOperations",
        "ListExports",
        "ListImports",
        "ListContributorInsights",
        "ListGlobalTables",
        "ListTables",
        "ListTagsOfResource",
        "PutItem",
        "PutResourcePolicy",
        "Query",
        "RestoreTableFromBackup",
        "RestoreTableToPointInTime",
        "Scan",
        "StartBulkPutItems",
        "TagResource",
        "TransactGetItems",
        "TransactWriteItems",
        "UntagResource",
        "UpdateContinuousBackups",
        "UpdateContributorInsights",
        "UpdateGlobalTable",
        "UpdateGlobalTableSettings",
        "UpdateItem",
        "UpdateKinesisStreamingDestination",
        "UpdateTable",
        "UpdateTableReplicaAutoScaling",
        "UpdateTimeToLive",
    ],
    "dynamodbstreams": [
        "DescribeStream",
        "GetRecords",
        "GetShardIterator",
        "ListStreams",
    ],
}

CONSTRAINTS = ("min", "max", "pattern")


def generate() -> str:
    """Return the text of model/service.json."""
    inputs: dict[str, str] = {}
    shapes: dict[str, Any] = {}
    absent: list[str] = []
    for service, operations in OPERATIONS.items():
        model = Session().get_service_model(service)
        absent += sorted(set(model.operation_names) - set(operations))
        inputs |= {name: model.operation_model(name).input_shape.name for name in operations}
        for name, shape in _reached(model, [inputs[name] for name in operations]).items():
            assert shapes.setdefault(name, shape) == shape, f"the services do not mean the same by {name}"
    _correct(shapes)
    text = {name: json.dumps(shapes[name]) for name in sorted(shapes)}
    lines = ",\n".join(f'    "{name}": {line}' for name, line in text.items())
    head = f'  "source": "botocore {botocore.__version__}",\n  "inputs": {json.dumps(inputs)},\n'
    head += f'  "absent": {json.dumps(absent)},\n'
    return f'{{\n{head}  "shapes": {{\n{lines}\n  }}\n}}\n'


def _reached(model: Any, pending: list[str]) -> dict[str, Any]:
    """The shapes of these names, and those that they are made of."""
    shapes: dict[str, Any] = {}
    while pending:
        name = pending.pop()
        if name not in shapes and name != "AttributeValue":
            shapes[name] = _compact(model._shape_resolver._shape_map[name])
            pending.extend(_references(shapes[name]))
    return shapes


def _compact(shape: dict[str, Any]) -> dict[str, Any]:
    compact = {"type": shape["type"], **{name: shape[name] for name in CONSTRAINTS if name in shape}}
    if "enum" in shape:
        compact["enum"] = _as_set(shape["enum"])
    if "members" in shape:
        compact["members"] = {name: member["shape"] for name, member in shape["members"].items()}
        compact["required"] = shape.get("required", [])
    if "member" in shape:
        compact["member"] = shape["member"]["shape"]
    if "value" in shape:
        compact["value"] = shape["value"]["shape"]
    return compact


def _references(compact: dict[str, Any]) -> list[str]:
    return [
        *compact.get("members", {}).values(),
        *(compact[key] for key in ("member", "value") if key in compact),
    ]


def _as_set(names: list[str]) -> list[str]:
    """An enum as DynamoDB lists it: a Java hash table of 32 places, the later of two in one place first."""
    last_first = list(reversed(names))
    return sorted(last_first, key=_place)


def _place(name: str) -> int:
    code = 0
    for character in name:
        code = 31 * code + ord(character)
    return code % 32


def _correct(shapes: dict[str, Any]) -> None:
    """Change the shapes where DynamoDB is known to answer otherwise than its description says."""
    # Required as long as a table can neither be a replica of another nor have vectors for its key.
    shapes["CreateTableInput"]["required"] = ["TableName", "AttributeDefinitions", "KeySchema"]
    # The description knows one KeySchema; only a global index may have more than two attributes.
    shapes["TableKeySchema"] = {**shapes["KeySchema"], "max": 2}
    shapes["KeySchema"]["max"] = 8
    for name in ("CreateTableInput", "LocalSecondaryIndex"):
        shapes[name]["members"]["KeySchema"] = "TableKeySchema"
    # A write of one item reports ReturnConsumedCapacity before its other members, and a missing item or key after them.
    for name, last in (("PutItemInput", "Item"), ("UpdateItemInput", "Key"), ("DeleteItemInput", "Key")):
        members = shapes[name]["members"]
        first = {"ReturnConsumedCapacity": members.pop("ReturnConsumedCapacity")}
        required = {last: members.pop(last)}
        shapes[name]["members"] = first | members | required
    # The errors of global indexes come before those of local ones.
    members = shapes["CreateTableInput"]["members"]
    local = {"LocalSecondaryIndexes": members.pop("LocalSecondaryIndexes")}
    shapes["CreateTableInput"]["members"] = members | local
    # Some constraints are reported in another spelling, and without the value.
    shapes["QueryLimit"] = {**shapes["PositiveIntegerObject"], "brief": True}
    shapes["QueryInput"]["members"]["Limit"] = "QueryLimit"
    for name in (
        "KeyList",
        "BatchGetRequestMap",
        "BatchWriteItemRequestMap",
        "ClientRequestToken",
        "TransactGetItemList",
        "TransactWriteItemList",
    ):
        shapes[name]["brief"] = True
    # A wrong class is reported with the other rules of tables.
    del shapes["TableClass"]["enum"]
    # A name that is too long is reported with the expressions.
    shapes["SubstitutedName"] = {"type": "string"}
    shapes["ExpressionAttributeNameMap"]["value"] = "SubstitutedName"
    # Of an ARN that is none, however short, DynamoDB speaks in other words.
    del shapes["StreamArn"]["min"]
    # Bounds that only the documentation gives.
    for name, high in (("DescribeStream", 100), ("GetRecords", 1000), ("ListStreams", 100)):
        shapes[f"{name}Limit"] = {**shapes["PositiveIntegerObject"], "max": high}
        shapes[f"{name}Input"]["members"]["Limit"] = f"{name}Limit"


if __name__ == "__main__":
    TARGET.write_text(generate())
