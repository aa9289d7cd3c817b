"""`foldb cost`: amounts that are computed by hand, in decimals."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from foldb.cli.lib.client import Client
from tests.behaviour.cli.conftest import Foldb, lines

PRICES = """\
currency = "USD"
write_unit_hour = 0.00065
read_unit_hour = 0.00013
million_write_requests = 0.625
million_read_requests = 0.125
storage_gb_month = 0.25
pitr_gb_month = 0.2
backup_gb_month = 0.1
million_stream_reads = 0.2
"""
GB = 1024**3


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    path = tmp_path / "prices.toml"
    path.write_text(PRICES)
    return path


def charges(cli: Foldb, *options: str) -> dict[tuple[str | None, str], dict[str, Any]]:
    """Return the rows by table and charge."""
    result = cli("cost", *options)
    assert 0 == result.exit_code, result.output
    rows = [json.loads(line, parse_float=Decimal) for line in result.stdout.splitlines()]
    return {(row.get("table"), row["charge"]): row for row in rows}


@pytest.mark.spec("S101")
def test_both_billing_modes_are_priced(cli: Foldb, prices: Path) -> None:
    """10 write units for 730 hours; 3,000 units of writes in an hour, with those of the index."""
    cli("table", "create", "Cars", "id:S", "--gsi", "kinds=kind:S 5/6", "--read", "3", "--write", "4")
    for size in (1400, 100):
        text = json.dumps({"id": "a", "kind": "k", "text": "x" * size})
        assert 0 == cli("item", "put", "Cars", text).exit_code

    found = charges(cli, "--prices", str(prices), "--hours", "0.5")

    writes = found["Cars", "writes"]
    assert (8, 10, "on demand") == (writes["units"], writes["provisioned_units"], writes["cheaper"])
    assert Decimal("0.0065") == writes["provisioned_hour"]
    assert Decimal("4.745") == writes["provisioned_month"]
    assert Decimal("0.00001") == writes["on_demand_hour"]
    assert Decimal("0.0073") == writes["on_demand_month"]
    assert Decimal("0.0") == writes["utilisation_percent"]
    assert Decimal("0.7592") == found["Cars", "reads"]["provisioned_month"]
    assert "on_demand_month" not in found["Cars", "reads"]


@pytest.mark.spec("S101")
def test_storage_has_100_bytes_for_an_item_and_an_entry(cli: Foldb, prices: Path) -> None:
    prices.write_text(PRICES.replace("storage_gb_month = 0.25", f"storage_gb_month = {GB}"))
    cli("table", "create", "Cars", "id:S", "--gsi", "kinds=kind:S keys_only")
    assert 0 == cli("item", "put", "Cars", '{"id": "a", "kind": "k", "n": "1234"}').exit_code
    [described] = [json.loads(line) for line in cli("table", "describe", "Cars").stdout.splitlines()]

    storage = charges(cli, "Cars", "--prices", str(prices))["Cars", "storage"]

    entry = described["GlobalSecondaryIndexes"][0]["IndexSizeBytes"]
    assert (3 + 5 + 5 + 100, 3 + 5 + 100) == (described["TableSizeBytes"], entry)
    assert described["TableSizeBytes"] + entry == storage["bytes"] == storage["provisioned_month"]


def test_recovery_backups_and_streams_are_priced(cli: Foldb, prices: Path) -> None:
    cli("table", "create", "Cars", "id:S")
    assert 0 == cli("item", "put", "Cars", json.dumps({"id": "a", "text": "x" * 300_000})).exit_code
    assert 0 == cli("backup", "create", "Cars", "saved").exit_code

    found = charges(cli, "--prices", str(prices), "--stream-reads", "5000000")

    assert (1, 300_107) == (
        found[None, "stream_reads"]["on_demand_month"],
        found["Cars", "storage"]["bytes"],
    )
    assert found["Cars", "storage"]["bytes"] == found["Cars", "backups"]["bytes"]
    assert ("Cars", "pitr") not in found


def test_free_amounts_reduce_the_total(cli: Foldb, prices: Path) -> None:
    prices.write_text(PRICES + "free_write_units = 25\nfree_storage_gb = 25\nfree_stream_reads = 1000000\n")
    cli("table", "create", "Cars", "id:S", "--read", "1", "--write", "40")
    assert 0 == cli("item", "put", "Cars", '{"id": "a"}').exit_code

    found = charges(cli, "--prices", str(prices), "--hours", "1", "--stream-reads", "3000000")

    month = 730 * (15 * Decimal("0.00065") + Decimal("0.00013")) + 2 * Decimal("0.2")
    assert month.quantize(Decimal("0.0001")) == found[None, "total"]["provisioned_month"]


def test_reads_of_a_file_are_priced(cli: Foldb, prices: Path, tmp_path: Path) -> None:
    cli("table", "create", "Cars", "id:S", "--read", "2", "--write", "1")
    buckets = [{"Time": 60_000 * n, "Rows": [n, 0.5]} for n in range(60)]
    reads = tmp_path / "reads.json"
    reads.write_text(
        json.dumps({"BucketMs": 60_000, "Parts": [{"TableName": "Cars", "Reads": {"Buckets": buckets}}]})
    )

    row = charges(cli, "Cars", "--prices", str(prices), "--reads", str(reads))["Cars", "reads"]

    units = sum(range(60)) + 30
    assert (units, 2) == (row["units"], row["provisioned_units"])
    assert (Decimal(units) / 72).quantize(Decimal("0.1")) == row["utilisation_percent"]
    assert (units * Decimal("0.125") / 10**6).quantize(Decimal("0.000001")) == row["on_demand_hour"]


def test_reads_of_the_server_are_priced(cli: Foldb, prices: Path) -> None:
    for table in ("Cars", "Vans"):
        cli("table", "create", table, "id:S", "--read", "2", "--write", "1")
    for _ in range(3):
        lines(cli("query", "Cars", "x", "--consistent"))

    result = cli("cost", "--prices", str(prices), "--reads", "server")

    assert {"Cars": 3, "Vans": 0} == {
        row["table"]: row["units"] for row in lines(result) if row["charge"] == "reads"
    }
    assert "reads are estimated from samples of the server" in result.stderr


def test_reads_of_a_table_deleted_since_are_no_obstacle(
    cli: Foldb, prices: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server keeps the minutes of its tables for a day."""
    cli("table", "create", "Cars", "id:S", "--read", "2", "--write", "1")
    lines(cli("query", "Cars", "x", "--consistent"))
    admin = Client.admin

    def admin_a_day_later(client: Client, operation: str, body: dict[str, Any] | None = None) -> Any:
        answer = admin(client, operation, body)
        if operation == "Metrics":
            [cars] = answer["Metrics"]
            answer["Metrics"].append(cars | {"Dimensions": {"TableName": "Vans"}})
        return answer

    monkeypatch.setattr(Client, "admin", admin_a_day_later)

    found = charges(cli, "--prices", str(prices), "--reads", "server")

    assert 1 == found["Cars", "reads"]["units"]


def test_json_prices_are_those_of_toml(cli: Foldb, prices: Path, tmp_path: Path) -> None:
    cli("table", "create", "Cars", "id:S", "--read", "2", "--write", "1")
    pairs = [line.split(" = ") for line in PRICES.splitlines()]
    (tmp_path / "prices.json").write_text("{" + ",".join(f'"{name}": {value}' for name, value in pairs) + "}")

    both = [charges(cli, "--prices", str(path)) for path in (prices, tmp_path / "prices.json")]

    assert both[0] == both[1]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (PRICES + "write_unit = 1\n", "the key write_unit is unknown; the keys are write_unit_hour, "),
        (PRICES.replace("storage_gb_month = 0.25\n", ""), "the key storage_gb_month is missing"),
        (PRICES.replace("0.25", '"0.25"'), "storage_gb_month is not a number of at least 0"),
        (PRICES.replace("0.25", "-1"), "storage_gb_month is not a number of at least 0"),
        (PRICES.replace("0.25", "nan"), "storage_gb_month is not a number of at least 0"),
        (PRICES.replace("0.25", "true"), "storage_gb_month is not a number of at least 0"),
        ("write_unit_hour: 3", "is neither TOML nor JSON"),
        ('{"write_unit_hour": NaN}', "write_unit_hour is not a number of at least 0"),
    ],
)
def test_a_file_that_has_no_prices_is_refused(text: str, sentence: str, cli: Foldb, prices: Path) -> None:
    prices.write_text(text)

    result = cli("cost", "--prices", str(prices))

    assert 2 == result.exit_code
    assert sentence in result.stderr
    assert 1 == len(result.stderr.splitlines())
