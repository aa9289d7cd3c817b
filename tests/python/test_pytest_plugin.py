"""The pytest plugin: a database for each test, and nothing at all for who does not ask."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.tables import table_request


@pytest.mark.parametrize("run", [1, 2])
def test_each_test_has_an_empty_database(dynamodb: Any, run: int) -> None:
    assert [] == dynamodb.client.list_tables()["TableNames"]

    table = dynamodb.resource.create_table(**table_request("Orders", "pk:S"))
    table.put_item(Item={"pk": "a", "n": 1})

    assert {"N": "1"} == dynamodb.client.get_item(TableName="Orders", Key={"pk": {"S": "a"}})["Item"]["n"]
    assert dynamodb.endpoint_url.startswith("http://127.0.0.1:")


def test_loading_the_plugin_imports_neither_boto3_nor_the_server() -> None:
    """Every pytest run of every user loads it."""
    program = (
        "import sys, foldb.pytest_plugin;"
        "print([n for n in sys.modules if n.startswith(('boto', 'uvloop', 'orjson', 'foldb.server'))])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert "[]\n" == ran.stdout


def test_a_users_test_finds_the_fixture(tmp_path: Path) -> None:
    test = tmp_path / "test_users.py"
    test.write_text(
        "def test_a_visit_is_counted(dynamodb):\n"
        "    assert dynamodb.client.list_tables()['TableNames'] == []\n"
        "    assert dynamodb.server.settings.partitions == 8\n"
    )
    options = ["-q", "-p", "no:cacheprovider", "--foldb-partitions", "8"]
    command = [sys.executable, "-m", "pytest", *options, str(test)]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)

    assert 0 == ran.returncode, ran.stdout
    assert "1 passed" in ran.stdout


def test_a_users_test_waits_for_the_users_triggers(tmp_path: Path) -> None:
    (tmp_path / "triggers").mkdir()
    (tmp_path / "triggers" / "totals.py").write_text(
        "from foldb import Change, once, trigger\n"
        "@trigger('Orders', start='beginning')\n"
        "def total(change: Change) -> None:\n"
        "    with once(change) as writes:\n"
        "        writes.put(TableName='Totals', Item={'pk': 'n', 'n': change.new['n']})\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\nfoldb_triggers = triggers\n")
    (tmp_path / "test_users.py").write_text(
        "def test_an_order_is_counted(dynamodb):\n"
        "    for name in ('Totals', 'Orders'):\n"
        "        dynamodb.client.create_table(\n"
        "            TableName=name, BillingMode='PAY_PER_REQUEST',\n"
        "            AttributeDefinitions=[{'AttributeName': 'pk', 'AttributeType': 'S'}],\n"
        "            KeySchema=[{'AttributeName': 'pk', 'KeyType': 'HASH'}])\n"
        "    dynamodb.resource.Table('Orders').put_item(Item={'pk': 'a', 'n': 7})\n"
        "    dynamodb.settle(60)\n"
        "    assert dynamodb.resource.Table('Totals').get_item(Key={'pk': 'n'})['Item']['n'] == 7\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)

    assert 0 == ran.returncode, ran.stdout
    assert "1 passed" in ran.stdout
