"""The AWS CLI, as it comes from PyPI: create, write, query, paginate, condition, transact."""

import json
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

AWS = Path(sys.executable).with_name("aws")

Aws = Callable[..., Any]


class RefusedError(Exception):
    """The command ended with an error; its text is the CLI's."""


@pytest.fixture
def aws(endpoint: str) -> Aws:
    def run(operation: str, *options: str) -> Any:
        command = [str(AWS), "dynamodb", operation, "--endpoint-url", endpoint, "--output", "json", *options]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
        if ran.returncode:
            raise RefusedError(ran.stderr)
        return json.loads(ran.stdout) if ran.stdout else None

    return run


def test_the_aws_cli(aws: Aws, tmp_path: Path) -> None:
    name = f"Songs-{uuid.uuid4().hex}"
    aws(
        "create-table", "--table-name", name, "--billing-mode", "PAY_PER_REQUEST",
        "--attribute-definitions", "AttributeName=artist,AttributeType=S", "AttributeName=song,AttributeType=S",
        "--key-schema", "AttributeName=artist,KeyType=HASH", "AttributeName=song,KeyType=RANGE",
    )  # fmt: skip
    requests = {name: [{"PutRequest": {"Item": _song("Kyuss", f"song {n}")}} for n in range(12)]}
    written = tmp_path / "batch.json"
    written.write_text(json.dumps(requests))
    assert {} == aws("batch-write-item", "--request-items", f"file://{written}")["UnprocessedItems"]

    query = (
        "query", "--table-name", name, "--key-condition-expression", "artist = :a",
        "--expression-attribute-values", '{":a": {"S": "Kyuss"}}',
    )  # fmt: skip
    paged = aws(*query, "--page-size", "5")  # the CLI follows LastEvaluatedKey
    assert 12 == paged["Count"] == len(paged["Items"])
    first = aws(*query, "--max-items", "5")
    rest = aws(*query, "--starting-token", first["NextToken"])
    assert (5, 7) == (len(first["Items"]), len(rest["Items"]))

    put = ("put-item", "--table-name", name, "--item", json.dumps(_song("Kyuss", "song 1")))
    with pytest.raises(RefusedError, match="ConditionalCheckFailedException"):
        aws(*put, "--condition-expression", "attribute_not_exists(artist)")

    put_two = [{"Put": {"TableName": name, "Item": _song("1000mods", song)}} for song in ("Claws", "Vidage")]
    aws("transact-write-items", "--transact-items", json.dumps(put_two))
    assert 14 == aws("scan", "--table-name", name, "--select", "COUNT")["Count"]
    arn = aws("describe-table", "--table-name", name)["Table"]["TableArn"]
    assert aws("tag-resource", "--resource-arn", arn, "--tags", "Key=team,Value=a") is None
    assert aws("untag-resource", "--resource-arn", arn, "--tag-keys", "team") is None
    aws("delete-table", "--table-name", name)


def _song(artist: str, song: str) -> dict[str, Any]:
    return {"artist": {"S": artist}, "song": {"S": song}}
