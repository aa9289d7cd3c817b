"""The heads of a log in Kafka, and an undo through a node on it."""

import json
from pathlib import Path

import boto3

import foldb
from tests.behaviour.cli.conftest import at, lines
from tests.behaviour.kafka.test_contract import anywhere
from tests.support.tables import table_request
from tests.unit.materializer.partitions.generate_golden import GOLDEN


def test_a_copy_in_kafka_has_the_heads_of_its_folder(kafka: str, tmp_path: Path) -> None:
    url, file = anywhere(kafka), tmp_path / "heads"
    source = str(GOLDEN / "002")
    lines(at(source)("log", "copy", source, url))

    of_folder = lines(at(source)("log", "head", source, "--every", "3"))
    file.write_text("\n".join(map(json.dumps, of_folder)))

    assert of_folder == lines(at(source)("log", "head", url, "--every", "3"))
    with foldb.serve(tmp_path / "node", log=url) as server:
        of_node = lines(at(server.endpoint_url)("log", "head"))
        verified = at(server.endpoint_url)("verify", "--against", str(file))
    assert of_folder[0]["log_id"] == of_node[0]["log_id"]
    assert 0 == verified.exit_code, verified.output
    assert f"heads of {file} compared" in verified.stderr


def test_a_node_on_kafka_undoes_a_transaction(kafka: str, tmp_path: Path) -> None:
    with foldb.serve(tmp_path / "node", log=anywhere(kafka), partitions=2) as server:
        client = boto3.client("dynamodb", **server.boto3)
        client.create_table(**table_request("Orders", "pk:S"))
        client.get_waiter("table_exists").wait(TableName="Orders")
        puts = [{"Put": {"TableName": "Orders", "Item": {"pk": {"S": f"k{n}"}}}} for n in range(6)]
        client.transact_write_items(TransactItems=puts)
        single = client.put_item(TableName="Orders", Item={"pk": {"S": "single"}})
        cli = at(server.endpoint_url)
        position = single["ResponseMetadata"]["HTTPHeaders"]["x-foldb-position"]

        lines(cli("undo", position, "--yes"))
        assert 6 == client.scan(TableName="Orders", ConsistentRead=True)["Count"]
        rows = lines(cli("log", "cat"))
        transact = next(row["position"] for row in rows if row.get("outcome") == "begun")
        lines(cli("undo", transact, "--yes"))
        assert 0 == client.scan(TableName="Orders", ConsistentRead=True)["Count"]
        client.close()
