"""The pytest plugin: a database for each test, and no effect on tests without its fixtures."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.tables import table_request
from tests.unit.project.source import ROOT


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


def test_the_test_of_the_guide_finds_a_read_after_a_write(tmp_path: Path) -> None:
    """docs/testing.md has a program with the bug, and names the repair."""
    guide = (ROOT / "docs" / "testing.md").read_text()
    [program] = re.findall(r"```python\n(# test_orders.py\n.*?)```", guide, re.DOTALL)
    read = 'Key={"id": order["id"]}'
    (tmp_path / "test_orders.py").write_text(program)
    (tmp_path / "test_repaired.py").write_text(program.replace(read, f"{read}, ConsistentRead=True"))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--foldb-read-lag", "10s"]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)

    assert (
        "FAILED test_orders.py::test_an_order_is_placed - KeyError: 'Item'\n1 failed, 1 passed" in ran.stdout
    )


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
        "    dynamodb.wait_for_triggers(60)\n"
        "    assert dynamodb.resource.Table('Totals').get_item(Key={'pk': 'n'})['Item']['n'] == 7\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)

    assert 0 == ran.returncode, ran.stdout
    assert "1 passed" in ran.stdout


APPLICATION = """
import boto3

def tables():
    with_default_settings = boto3.client("dynamodb")
    try:
        return with_default_settings.list_tables()["TableNames"]
    finally:
        with_default_settings.close()

def streams():
    client = boto3.client("dynamodbstreams")
    try:
        return client.list_streams()["Streams"]
    finally:
        client.close()
"""

SCOPES = """
import os
import application

def make(dynamodb, name):
    dynamodb.client.create_table(
        TableName=name, BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}])

def test_of_a_session(dynamodb_session):
    make(dynamodb_session, "Session")
    assert application.tables() == ["Session"]
    assert application.streams() == []

def test_of_a_module(dynamodb_module):
    make(dynamodb_module, "Module")
    assert application.tables() == ["Module"]

def test_of_a_function(dynamodb):
    assert application.tables() == []

def test_an_outer_scope_is_back_when_an_inner_one_ends(dynamodb_module):
    assert application.tables() == ["Module"]

def test_a_session_keeps_its_tables(dynamodb_session):
    assert dynamodb_session.client.list_tables()["TableNames"] == ["Session"]
"""

AFTER = """
import os

def test_the_next_module_is_redirected_to_the_session_alone(dynamodb_session):
    assert os.environ["AWS_ENDPOINT_URL_DYNAMODB"] == dynamodb_session.endpoint_url
    assert "AWS_PROFILE" not in os.environ
"""


def test_the_application_under_test_is_redirected(tmp_path: Path) -> None:
    """It makes its clients with no settings; the environment of the run names a profile and no region."""
    (tmp_path / "application.py").write_text(APPLICATION)
    (tmp_path / "test_scopes.py").write_text(SCOPES)
    (tmp_path / "test_zz_after.py").write_text(AFTER)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**kept, "AWS_PROFILE": "production", "PYTHONPATH": str(tmp_path)},
    )

    assert 0 == ran.returncode, ran.stdout
    assert "6 passed" in ran.stdout
