"""Policies in the definition of a table: revisions, and the form in the state."""

from dataclasses import replace
from typing import Any

import pytest

from foldb.model import table_requests
from foldb.model.errors import PolicyNotFoundError, ResourceInUseError
from foldb.model.key_schema import KeyAttribute, KeySchema
from foldb.model.limits import MODERN
from foldb.model.tables import ARN_PREFIX, ResourcePolicy, TableDefinition

TABLE = TableDefinition(
    1, "Cars", "uuid", KeySchema((KeyAttribute("pk", "S"),)), {"pk": "S"}, 0, status="ACTIVE"
)
ARN = f"{ARN_PREFIX}Cars"
STREAM = f"{ARN}/stream/2026-11-21T10:00:00.123"


def change(
    definition: TableDefinition, operation: str, time_ms: int = 100, **request: Any
) -> TableDefinition:
    return table_requests.change(
        operation, definition, {"ResourceArn": ARN, **request}, next_id=2, time_ms=time_ms, limits=MODERN
    )


def put(definition: TableDefinition, text: str, time_ms: int = 100, **more: Any) -> TableDefinition:
    return change(definition, "PutResourcePolicy", time_ms, Policy=text, **more)


def test_a_revision_is_the_time_and_always_grows() -> None:
    first = put(TABLE, "a")
    same = put(first, "a", 200)
    second = put(first, "b")
    third = put(second, "a", 50)

    revisions = [each.policies[""].revision for each in (first, same, second, third)]
    assert revisions == [100, 100, 101, 102]


def test_a_stream_has_a_policy_beside_that_of_its_table() -> None:
    both = put(put(TABLE, "of the table"), "of the stream", ResourceArn=STREAM)
    one = change(both, "DeleteResourcePolicy")

    assert {"": "of the table", "stream/2026-11-21T10:00:00.123": "of the stream"} == {
        slot: policy.text for slot, policy in both.policies.items()
    }
    assert ["stream/2026-11-21T10:00:00.123"] == list(one.policies)


def test_a_definition_without_a_policy_is_written_as_before() -> None:
    written = put(TABLE, "a").to_json()

    assert "policies" not in TABLE.to_json()
    assert TableDefinition.from_json(written).policies == {"": ResourcePolicy("a", 100)}
    assert TableDefinition.from_json(TABLE.to_json()).policies == {}


@pytest.mark.parametrize(
    ("expected", "fits"), [("NO_POLICY", False), ("100", True), ("99", False), (None, True)]
)
def test_a_change_names_the_revision_that_it_expects(expected: str | None, fits: bool) -> None:
    present = put(TABLE, "a")
    more: dict[str, Any] = {} if expected is None else {"ExpectedRevisionId": expected}

    for operation in ("PutResourcePolicy", "DeleteResourcePolicy"):
        if fits:
            assert change(present, operation, Policy="b", **more) != present
        else:
            with pytest.raises(PolicyNotFoundError):
                change(present, operation, Policy="b", **more)


def test_a_revision_of_no_policy_is_refused() -> None:
    with pytest.raises(PolicyNotFoundError, match="no policy is associated to target table Cars"):
        put(TABLE, "a", ExpectedRevisionId="1")


def test_a_table_that_changes_takes_a_policy_and_a_deleted_one_does_not() -> None:
    assert put(replace(TABLE, status="UPDATING"), "a").policies
    with pytest.raises(ResourceInUseError, match="Table is being deleted: Cars"):
        put(replace(TABLE, status="DELETING"), "a")


def test_the_fold_ignores_the_member_of_older_logs() -> None:
    """A CreateTable of a release without policies may have one, which had no effect."""
    request = {
        "TableName": "Cars",
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
        "BillingMode": "PAY_PER_REQUEST",
        "ResourcePolicy": "{}",
    }

    made = table_requests.create(request, table_id=1, uuid="uuid", time_ms=5, limits=MODERN)
    with_policy = table_requests.create(
        {**request, "TablePolicy": "a"}, table_id=1, uuid="uuid", time_ms=5, limits=MODERN
    )

    assert made.policies == {}
    assert with_policy.policies == {"": ResourcePolicy("a", 5)}
