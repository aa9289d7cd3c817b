"""Contributor Insights and the operations on global tables, through boto3."""

from typing import Any

import pytest

from tests.support.claims import invalid, refused
from tests.support.tables import MakeTable

BOTH, THROTTLED = "ACCESSED_AND_THROTTLED_KEYS", "THROTTLED_KEYS"


@pytest.fixture
def name(make_table: MakeTable) -> str:
    table: str = make_table("pk:S", "sk:N", gsi={"by-g": "g:S"}, lsi={"by-l": "l:S"}).name
    return table


def set_insights(client: Any, name: str, action: str, **more: Any) -> list[Any]:
    answer = client.update_contributor_insights(TableName=name, ContributorInsightsAction=action, **more)
    return [answer["ContributorInsightsStatus"], answer.get("ContributorInsightsMode")]


def described(client: Any, name: str, **more: Any) -> dict[str, Any]:
    answer: dict[str, Any] = client.describe_contributor_insights(TableName=name, **more)
    del answer["ResponseMetadata"]
    return answer


def rules(client: Any, name: str, **more: Any) -> list[str]:
    return [rule.rsplit("-", 1)[0] for rule in described(client, name, **more)["ContributorInsightsRuleList"]]


def listed(client: Any, **more: Any) -> list[tuple[str, str]]:
    found = []
    while True:
        answer = client.list_contributor_insights(**more)
        found += [
            (each["TableName"], each.get("IndexName", "")) for each in answer["ContributorInsightsSummaries"]
        ]
        if "NextToken" not in answer:
            return found
        more["NextToken"] = answer["NextToken"]


def test_insights_have_dynamodbs_statuses_and_modes(client: Any, name: str) -> None:
    fresh = described(client, name)
    answers = [
        set_insights(client, name, "DISABLE"),
        set_insights(client, name, "ENABLE"),
        set_insights(client, name, "ENABLE", ContributorInsightsMode=BOTH),
        set_insights(client, name, "ENABLE", ContributorInsightsMode=THROTTLED),
        set_insights(client, name, "ENABLE"),
        set_insights(client, name, "DISABLE", ContributorInsightsMode=THROTTLED),
        set_insights(client, name, "DISABLE"),
    ]
    last = described(client, name)

    assert {"TableName": name, "ContributorInsightsStatus": "DISABLED"} == fresh
    assert [
        ["DISABLED", None],
        ["ENABLING", BOTH],
        ["ENABLED", BOTH],
        ["ENABLING", THROTTLED],
        ["ENABLING", BOTH],
        ["DISABLING", BOTH],
        ["DISABLED", BOTH],
    ] == answers
    assert ("DISABLED", BOTH) == (last["ContributorInsightsStatus"], last["ContributorInsightsMode"])
    assert "ContributorInsightsRuleList" not in last
    assert last["LastUpdateDateTime"]


def test_rules_have_names_by_key_and_mode(client: Any, name: str) -> None:
    set_insights(client, name, "ENABLE")
    first = described(client, name)["ContributorInsightsRuleList"]
    set_insights(client, name, "ENABLE", IndexName="by-g")
    of_table = rules(client, name)
    of_index = rules(client, name, IndexName="by-g")
    set_insights(client, name, "ENABLE", ContributorInsightsMode=THROTTLED)
    narrowed = described(client, name)["ContributorInsightsRuleList"]

    prefix = "DynamoDBContributorInsights"
    assert [f"{prefix}-{rule}-{name}" for rule in ("PKC", "SKC", "PKT", "SKT")] == of_table
    assert [f"{prefix}-{rule}-{name}-by-g" for rule in ("PKC", "PKT")] == of_index
    assert first[2:] == narrowed


def test_a_list_has_pages_of_what_is_not_disabled(client: Any, name: str, make_table: MakeTable) -> None:
    other = make_table("pk:S").name
    for table, more in ((name, {}), (name, {"IndexName": "by-g"}), (other, {})):
        set_insights(client, table, "ENABLE", **more)
    mine = sorted([(name, ""), (name, "by-g"), (other, "")])

    assert mine == [each for each in listed(client, MaxResults=1) if each in mine]
    assert [(name, ""), (name, "by-g")] == listed(client, TableName=name, MaxResults=1)
    set_insights(client, name, "DISABLE")
    assert [(name, "by-g")] == listed(client, TableName=name)


def test_an_index_that_is_deleted_loses_its_insights(client: Any, make_table: MakeTable) -> None:
    table = make_table("pk:S", gsi={"by-g": "g:S"}).name
    set_insights(client, table, "ENABLE", IndexName="by-g")
    client.update_table(TableName=table, GlobalSecondaryIndexUpdates=[{"Delete": {"IndexName": "by-g"}}])
    client.get_waiter("table_exists").wait(TableName=table, WaiterConfig={"Delay": 0, "MaxAttempts": 500})

    assert [] == listed(client, TableName=table)
    with refused("ResourceNotFoundException", f"Index: by-g not found for table: {table}"):
        described(client, table, IndexName="by-g")


@pytest.mark.parametrize("index", ["by-l", "by-x"])
def test_insights_are_of_global_indexes_alone(client: Any, name: str, index: str) -> None:
    with refused("ResourceNotFoundException", f"Index: {index} not found for table: {name}"):
        set_insights(client, name, "ENABLE", IndexName=index)


LEGACY = "DynamoDB global tables version 2017.11.29 is not supported."


def test_no_table_is_a_global_table(client: Any, name: str) -> None:
    absent = f"Global table with name: '{name}' does not exist."
    replica = {"RegionName": "eu-west-1"}

    assert [] == client.list_global_tables()["GlobalTables"]
    with invalid(LEGACY):
        client.create_global_table(GlobalTableName=name, ReplicationGroup=[replica])
    with invalid(LEGACY):
        client.update_global_table(GlobalTableName=name, ReplicaUpdates=[{"Create": replica}])
    with invalid("One or more parameter values were invalid"):
        client.update_global_table(GlobalTableName=name, ReplicaUpdates=[])
    with refused("GlobalTableNotFoundException", f"Global table not found: {absent}"):
        client.describe_global_table(GlobalTableName=name)
    for call in (client.describe_global_table_settings, client.update_global_table_settings):
        with refused("GlobalTableNotFoundException", absent):
            call(GlobalTableName=name)
    for call in (client.describe_table_replica_auto_scaling, client.update_table_replica_auto_scaling):
        with refused("ResourceNotFoundException", absent):
            call(TableName=name)


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        ({"PolicyName": "\N{SNOWMAN}"}, r"Member must satisfy regular expression pattern: \p{Print}+"),
        ({"TargetTrackingScalingPolicyConfiguration": {}}, "Member must not be null"),
    ],
    ids=["name", "value"],
)
def test_the_settings_of_a_replica_are_validated(
    client: Any, name: str, policy: dict[str, Any], text: str
) -> None:
    tracking = {"TargetTrackingScalingPolicyConfiguration": {"TargetValue": 70.5}}

    with invalid(text):
        client.update_table_replica_auto_scaling(
            TableName=name,
            ProvisionedWriteCapacityAutoScalingUpdate={"ScalingPolicyUpdate": tracking | policy},
        )
