"""`foldb key`: its output, its secrets and its refusals."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from foldb.cli.main import app
from foldb.server.auth.keyfile import read_keys
from foldb.server.auth.rights import Right


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    return tmp_path / "keys.toml"


def key(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["key", *map(str, arguments)], prog_name="foldb", catch_exceptions=False)


def made(keys: Path, *options: str) -> dict[str, Any]:
    result = key("create", "--keys", keys, *options)
    assert result.exit_code == 0, result.stderr
    printed: dict[str, Any] = json.loads(result.stdout)
    return printed


def test_a_key_is_printed_with_its_secret_once(keys: Path) -> None:
    printed = made(keys, "--read", "*", "--write", "Orders*", "--write", "Logs", "--note", "of the tests")
    kept = read_keys(keys).by_id[printed["AccessKeyId"]]
    listed = key("list", "--keys", keys)

    assert kept.secret == printed["SecretAccessKey"]
    assert (Right.WRITE, Right.READ) == (kept.rights.on("Orders-1"), kept.rights.on("Cars"))
    assert {
        "id": kept.id,
        "created": kept.created.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "note": "of the tests",
        "read": ["*"],
        "write": ["Orders*", "Logs"],
    } == json.loads(listed.stdout)
    assert kept.secret not in listed.stdout + listed.stderr


def test_a_missing_file_of_keys_names_the_next_step(keys: Path) -> None:
    refused = key("list", "--keys", keys)

    assert (2, "") == (refused.exit_code, refused.stdout)
    assert "No such file or directory. `foldb key create` makes the file" in refused.stderr


def test_a_key_may_monitor_and_nothing_else(keys: Path) -> None:
    printed = made(keys, "--monitor")
    listed = json.loads(key("list", "--keys", keys).stdout)

    assert read_keys(keys).by_id[printed["AccessKeyId"]].rights.monitor
    assert {"id": printed["AccessKeyId"], "created": listed["created"], "monitor": True} == listed


def test_a_key_has_the_policy_of_a_file(keys: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.json"
    element = {"Action": ["dynamodb:Query"], "Effect": "Allow", "Resource": "*"}
    policy.write_text(json.dumps({"Version": "2012-10-17", "Statement": element}))

    printed = made(keys, "--policy", str(policy))
    listed = json.loads(key("list", "--keys", keys).stdout)

    assert f"arn:aws:iam::000000000000:user/{printed['AccessKeyId']}" == printed["Arn"]
    assert listed["policy"] == (
        '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"dynamodb:Query","Resource":"*"}]}'
    )


POLICIES = {
    "a principal": (
        '{"Statement":{"Effect":"Allow","Principal":"*","Action":"*","Resource":"*"}}',
        "Policy document should not specify a principal.",
    ),
    "another service": (
        '{"Statement":{"Effect":"Allow","Action":"s3:GetObject","Resource":"*"}}',
        'The following action names are invalid: "s3:GetObject"',
    ),
    "another variable": (
        '{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"*","Resource":"*","Condition":'
        '{"ForAllValues:StringEquals":{"dynamodb:LeadingKeys":"${www.amazon.com:user_id}"}}}}',
        "foldb does not have the policy variable ${www.amazon.com:user_id}",
    ),
    "leading keys without a quantifier": (
        '{"Statement":{"Effect":"Allow","Action":"*","Resource":"*","Condition":'
        '{"StringEquals":{"dynamodb:LeadingKeys":"a"}}}}',
        "write ForAllValues:StringEquals or ForAnyValue:StringEquals",
    ),
    "no ARN": (
        '{"Statement":{"Effect":"Allow","Action":"*","Resource":"Orders"}}',
        "Resource Orders must be in ARN format or *",
    ),
}


@pytest.mark.parametrize("case", POLICIES)
def test_an_invalid_policy_makes_no_key(keys: Path, tmp_path: Path, case: str) -> None:
    text, said = POLICIES[case]
    policy = tmp_path / "policy.json"
    policy.write_text(text)

    result = key("create", "--keys", keys, "--policy", policy)

    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())
    assert not keys.exists()


def test_a_key_may_have_an_end(keys: Path) -> None:
    days = made(keys, "--read", "*", "--expires", "90d")["AccessKeyId"]
    moment = made(keys, "--read", "*", "--expires", "2020-01-01T01:00:00+01:00")["AccessKeyId"]
    by_id = read_keys(keys).by_id
    rows = {row["id"]: row for row in map(json.loads, key("list", "--keys", keys).stdout.splitlines())}

    assert by_id[days].expires == by_id[days].created + timedelta(days=90)
    assert by_id[moment].expires == datetime(2020, 1, 1, tzinfo=UTC)
    assert (False, True) == (rows[days]["expired"], rows[moment]["expired"])


def test_a_revoked_key_is_removed_and_the_others_stay(keys: Path) -> None:
    first, second = (made(keys, "--read", "*")["AccessKeyId"] for _ in range(2))

    assert 0 == key("revoke", first, "--keys", keys).exit_code
    assert [second] == list(read_keys(keys).by_id)
    again = key("revoke", first, "--keys", keys)
    assert 3 == again.exit_code
    assert f"there is no key {first} in {keys}" in again.stderr


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((), "a key needs a right"),
        (("--note", "x"), "a key needs a right"),
        (("--read", "Or ders"), "Or ders is not the name of a table"),
        (("--read", "*", "--expires", "soon"), "--expires soon: write 90d, or a time"),
        (("--read", "*", "--expires", "2027-01-01"), "--expires 2027-01-01: write 90d, or a time"),
    ],
)
def test_invalid_options_create_no_key(keys: Path, options: tuple[str, ...], says: str) -> None:
    result = key("create", "--keys", keys, *options)

    assert 2 == result.exit_code
    assert says in result.stderr
    assert not keys.exists()


def test_a_file_that_others_could_read_is_not_written_either(keys: Path) -> None:
    made(keys, "--read", "*")
    keys.chmod(0o644)
    before = keys.read_bytes()

    for command in (("create", "--read", "*"), ("list",), ("revoke", "ONE")):
        result = key(*command, "--keys", keys)
        assert 2 == result.exit_code
        assert "other users can read the secrets" in result.stderr
    assert before == keys.read_bytes()


def test_a_folder_that_is_not_there_is_said_to_be_so(tmp_path: Path) -> None:
    result = key("create", "--keys", tmp_path / "none" / "keys.toml", "--read", "*")

    assert 2 == result.exit_code
    assert "cannot write" in result.stderr
