"""Changes from a file: all forms of AWS and foldb are read, other forms are refused with a reason."""

import json
from pathlib import Path
from typing import Any

import pytest

import foldb
from tests.behaviour.cli.conftest import at, lines
from tests.behaviour.cli.test_refusals import check


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory, triggers: Path) -> Path:
    """A database without a running server, with a trigger on `Orders`."""
    folder = tmp_path_factory.mktemp("events") / "data"
    with foldb.serve(folder, fsync="never", triggers=triggers) as server:
        cli = at(server.endpoint_url)
        cli("table", "create", "Orders", "id:S")
        cli("trigger", "add", "receipts", "--table", "Orders", "--python", "receipts.py:send")
    return folder


KEYS = {"Id": {"N": "101"}}
IMAGE = {"Id": {"N": "101"}, "Message": {"S": "new"}}
OLDER = {"Id": {"N": "101"}, "Message": {"S": "old"}}


@pytest.mark.parametrize("op", ["INSERT", "MODIFY", "REMOVE"])
@pytest.mark.parametrize("view", ["KEYS_ONLY", "NEW_IMAGE", "OLD_IMAGE", "NEW_AND_OLD_IMAGES"])
def test_a_lambda_event_of_every_view_type_is_read(stopped: Path, tmp_path: Path, view: str, op: str) -> None:
    """An image that the view excludes is made from the key, so the operation is known."""
    reported: dict[str, Any] = {"Keys": KEYS, "SequenceNumber": "333"}
    if "NEW" in view and op != "REMOVE":
        reported["NewImage"] = IMAGE
    if "OLD" in view and op != "INSERT":
        reported["OldImage"] = OLDER
    (tmp_path / "event").write_text(json.dumps({"Records": [{"eventName": op, "dynamodb": reported}]}))

    result = at(stopped)("trigger", "test", "receipts", "--event", str(tmp_path / "event"), "--typed")

    [change] = lines(result)[0]["changes"]
    assert (op, KEYS, "333") == (change["op"], change["keys"], change["number"])
    assert reported.get("NewImage", None if op == "REMOVE" else KEYS) == change["new"]
    assert reported.get("OldImage", None if op == "INSERT" else KEYS) == change["old"]


def test_a_sequence_number_of_another_database_is_ignored(stopped: Path, tmp_path: Path) -> None:
    (tmp_path / "event").write_text('{"new": {"id": "a"}, "table": "Orders", "number": "111"}')

    for command in ("test", "explain"):
        [row] = lines(at(stopped)("trigger", command, "receipts", "--event", str(tmp_path / "event")))
        change = row["changes"][0] if command == "test" else row
        assert ("111", None) == (change["number"], change["position"])


def test_changes_of_several_partitions_are_read_unchanged(tmp_path: Path, triggers: Path) -> None:
    with foldb.serve(partitions=3, triggers=triggers) as server:
        cli = at(server.endpoint_url)
        cli("table", "create", "Orders", "id:S", "--stream")
        cli("trigger", "add", "receipts", "--table", "Orders", "--python", "receipts.py:send")
        cli("item", "put", "Orders", "-", stdin="".join(f'{{"id": "o{number}"}}\n' for number in range(9)))
        printed = cli("stream", "tail").stdout
        (tmp_path / "event").write_text(printed)
        reported = lines(cli("trigger", "explain", "receipts", "--event", str(tmp_path / "event")))

    places = [json.loads(line)["position"] for line in printed.splitlines()]
    assert 1 < len({place.partition(":")[0] for place in places})
    assert [place.partition(":")[0] for place in places] == [
        each["position"].partition(":")[0] for each in reported
    ]


def test_changes_with_keys_need_no_database(tmp_path: Path, triggers: Path) -> None:
    (tmp_path / "event").write_text('{"keys": {"id": "a"}, "new": {"id": "a"}}')

    result = at("/nowhere/data")(
        "trigger", "test", "receipts.py:send", "--event", str(tmp_path / "event"), "--triggers", str(triggers)
    )

    assert [{"id": "a"}] == [change["keys"] for change in lines(result)[0]["changes"]]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is not JSON"),
        ("\n", "is not JSON"),
        ("[]", "has no changes"),
        ("7", "change 1: a change has `new`, `old` or both"),
        ('{"table": "Orders"}', "change 1: a change has `new`, `old` or both"),
        ('{"new": null, "old": null}', "change 1: a change has `new`, `old` or both"),
        ('[{"new": {"id": "a"}, "table": "Orders"}, {"new": {}, "table": "Orders"}]', "change 2: the item has no key"),
        ('{"table": "Nope", "new": {"id": "a"}}', "change 1: the key of Nope is unknown: add `keys`"),
        ('{"keys": {}, "new": {"id": "a"}, "table": "Nope"}', "change 1: the key of Nope is unknown"),
        ('{"keys": {"a": 1, "b": 2, "c": 3}, "new": {"a": 1, "b": 2, "c": 3}}', "change 1: `keys` must have one"),
        ('{"keys": {"id": true}, "new": {"id": true}}', "change 1: "),
        ('{"keys": {"id": ""}, "new": {"id": ""}}', "change 1: "),
        ('{"table": "Orders", "new": {"id": "a"}, "time": "noon"}', "change 1: `time` must be a time such as 2026-11"),
        ('{"table": "Orders", "new": {"id": "a"}, "number": "abc"}', "change 1: `number` must be digits, not \"abc\""),
        ('{"table": "Orders", "new": {"id": "a"}, "number": 1.5}', "change 1: `number` must be digits, not 1.5"),
        ('{"table": "Orders", "new": {"id": "a"}, "depth": "x"}', 'change 1: `depth` must be an integer of at least 0'),
        ('{"table": "Orders", "new": {"id": "a"}, "depth": -1}', "change 1: `depth` must be an integer of at least 0"),
        ('{"table": "Orders", "new": {"id": "a"}, "tx": 5}', 'change 1: `tx` must be {"id", "n", "of"}, not 5'),
        ('{"table": "Orders", "new": {"id": "a"}, "tx": {"id": "x"}}', 'change 1: `tx` must be {"id", "n", "of"}'),
        ('{"table": "Orders", "new": {"id": "a"}, "requestId": 7}', "change 1: `requestId` must be text, not 7"),
        ('{"table": "Orders", "new": {"id": "a"}, "source": []}', "change 1: `source` must be text, not []"),
        ('{"table": "Orders", "new": {"id": "a"}, "principal": 1}', "change 1: `principal` must be text, not 1"),
        ('{"table": 5, "new": {"id": "a"}}', "change 1: `table` must be text, not 5"),
        ('{"table": "Orders", "new": {"id": "a"}, "position": "x"}', 'change 1: `position` must be a position'),
        ('{"table": "Orders", "new": "a"}', 'change 1: `new` must be an object, not "a"'),
        ('{"eventName": "DROP", "dynamodb": {"Keys": {"id": {"S": "a"}}}}', "change 1: `eventName` must be INSERT"),
        ('{"eventName": "INSERT", "dynamodb": {}}', "change 1: `Keys` must be an object, not null"),
        (
            '{"eventName": "INSERT", "dynamodb": {"Keys": {"id": {"S": "a"}}, "SequenceNumber": "x111"}}',
            'change 1: `number` must be digits, not "x111"',
        ),
        ('{"eventName": "INSERT", "dynamodb": {"Keys": {"id": "a"}}}', "change 1: "),
        ('{"eventName": "INSERT", "dynamodb": {"Keys": {"id": {"S": 5}}}}', "change 1: "),
    ],
)  # fmt: skip
def test_a_file_that_holds_no_change_is_refused(stopped: Path, tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "event").write_text(text)

    for command in ("test", "explain"):
        check(at(stopped)("trigger", command, "receipts", "--event", str(tmp_path / "event")), 2, says)
