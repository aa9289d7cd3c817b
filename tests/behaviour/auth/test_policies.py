"""The examples of AWS's guides to policies, against a served process with keys.

"Fine-grained access control" of DynamoDB's developer guide, and "Policy evaluation logic" of IAM's user guide.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from foldb.server.auth.rights import Rights
from tests.behaviour.auth.policies import TABLE, Clients, document, serving, statement, user
from tests.support.tables import table_request

pytestmark = pytest.mark.spec("X12")

SCORES, CUSTOMERS = f"{TABLE}GameScores", f"{TABLE}CustomerData"
INDEX = f"{SCORES}/index/TopScoreDateTimeIndex"
ITEM_ACTIONS = ["GetItem", "BatchGetItem", "Query", "PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem"]
OWN = {"dynamodb:LeadingKeys": ["${aws:username}"]}
SPECIFIC = {"dynamodb:Select": "SPECIFIC_ATTRIBUTES"}
UPDATED = {"dynamodb:ReturnValues": ["NONE", "UPDATED_OLD", "UPDATED_NEW"]}


def actions(*names: str) -> list[str]:
    return [f"dynamodb:{name}" for name in names]


def allow(names: list[str], resource: Any, **conditions: Any) -> dict[str, Any]:
    return statement("Allow", actions(*names), resource, Condition={
        name.replace("_", ":"): tests for name, tests in conditions.items()
    })  # fmt: skip


EXAMPLES = {
    "basic": document(
        allow(
            ITEM_ACTIONS,
            [SCORES],
            ForAllValues_StringEquals={
                **OWN,
                "dynamodb:Attributes": ["UserId", "GameTitle", "Wins", "Losses", "TopScore"],
            },
            StringEqualsIfExists=SPECIFIC,
        )
    ),
    "own-items": document(allow(ITEM_ACTIONS, [SCORES], ForAllValues_StringEquals=OWN)),
    "read-own": document(
        allow(["GetItem", "BatchGetItem", "Query"], [SCORES], ForAllValues_StringEquals=OWN)
    ),
    "attributes": document(
        allow(
            ["UpdateItem", "GetItem", "Query", "BatchGetItem", "Scan"],
            [SCORES],
            ForAllValues_StringEquals={"dynamodb:Attributes": ["UserId", "GameTitle", "TopScore"]},
            StringEqualsIfExists=SPECIFIC | UPDATED,
        )
    ),
    "no-updates-of": document(
        allow(
            ["UpdateItem"],
            SCORES,
            ForAllValues_StringNotLike={"dynamodb:Attributes": ["FreeGames*", "BossLevelUnlocked"]},
            StringEquals=UPDATED,
        )
    ),
    "projected": document(
        allow(
            ["Query"],
            [INDEX],
            ForAllValues_StringEquals={"dynamodb:Attributes": ["UserId", "TopScoreDateTime", "Wins"]},
            StringEquals=SPECIFIC,
        )
    ),
    "all-projected": document(
        allow(["Query"], [INDEX], StringEquals={"dynamodb:Select": "ALL_PROJECTED_ATTRIBUTES"})
    ),
    "keys-and-attributes": document(
        allow(
            ["UpdateItem", "GetItem", "Query", "BatchGetItem"],
            [SCORES, INDEX],
            ForAllValues_StringEquals={**OWN, "dynamodb:Attributes": ["UserId", "GameTitle", "Wins"]},
            StringEqualsIfExists=SPECIFIC | UPDATED,
        )
    ),
    "hidden": document(
        statement("Allow", actions("GetItem", "Query", "Scan"), CUSTOMERS),
        statement(
            "Deny",
            actions("GetItem", "Query", "Scan"),
            CUSTOMERS,
            Condition={"ForAnyValue:StringEquals": {"dynamodb:Attributes": ["SSN", "CreditCardNumber"]}},
        ),
        statement(
            "Deny",
            actions("GetItem", "Query", "Scan"),
            CUSTOMERS,
            Condition={"StringNotEqualsIfExists": SPECIFIC},
        ),
    ),
    "transactions-only": document(
        statement(
            "Allow",
            actions("GetItem", "PutItem", "PartiQLSelect"),
            SCORES,
            Condition={
                "ForAnyValue:StringEquals": {
                    "dynamodb:EnclosingOperation": ["TransactGetItems", "ExecuteTransaction"]
                }
            },
        )
    ),
    "no-full-scans": document(
        statement("Allow", actions("PartiQLSelect"), [SCORES, f"{SCORES}/index/*"]),
        statement(
            "Deny",
            actions("PartiQLSelect"),
            [SCORES, f"{SCORES}/index/*"],
            Condition={"Bool": {"dynamodb:FullTableScan": ["true"]}},
        ),
    ),
    # "Policy evaluation logic": a user with the resources of the own name, lists of all, and a deny of logs.
    "carlos": document(
        statement("Allow", "dynamodb:ListTables"),
        statement("Allow", "dynamodb:*", [f"{TABLE}carlos", f"{TABLE}carlos-*"]),
        statement("Deny", "dynamodb:*", f"{TABLE}*log*"),
    ),
    "lister": document(statement("Allow", "dynamodb:ListTables")),
    "not-actions": document(
        {"Effect": "Allow", "NotAction": ["dynamodb:Delete*", "dynamodb:Put*"], "NotResource": f"{TABLE}log"}
    ),
}


def key(name: str, title: str = "chess") -> dict[str, Any]:
    return {"UserId": {"S": name}, "GameTitle": {"S": title}}


def scores(**more: Any) -> dict[str, Any]:
    return {"TableName": "GameScores", **more}


def query(name: str, **more: Any) -> dict[str, Any]:
    return scores(KeyConditionExpression="UserId = :u", ExpressionAttributeValues={":u": {"S": name}}, **more)


def update(attribute: str, **more: Any) -> dict[str, Any]:
    return scores(
        UpdateExpression=f"SET {attribute} = :v", ExpressionAttributeValues={":v": {"N": "1"}}, **more
    )


def sql(text: str) -> dict[str, Any]:
    return {"Statement": text}


def sqls(*texts: str) -> dict[str, Any]:
    return {"TransactStatements": [sql(text) for text in texts]}


# The example, whose name is the key's; the operation and its request; whether it is allowed.
CASES: list[tuple[str, str, dict[str, Any], bool]] = [
    ("basic", "get_item", scores(Key=key("basic"), ProjectionExpression="Wins, Losses"), True),
    ("basic", "get_item", scores(Key=key("other"), ProjectionExpression="Wins"), False),
    ("basic", "get_item", scores(Key=key("basic"), ProjectionExpression="Wins, Secret"), False),
    ("basic", "get_item", scores(Key=key("basic")), False),
    ("basic", "put_item", scores(Item=key("basic") | {"Wins": {"N": "1"}}), True),
    ("basic", "put_item", scores(Item=key("basic") | {"Secret": {"N": "1"}}), False),
    ("basic", "scan", scores(ProjectionExpression="Wins"), False),
    ("own-items", "get_item", scores(Key=key("own-items")), True),
    ("own-items", "get_item", scores(Key=key("other")), False),
    ("own-items", "query", query("own-items"), True),
    ("own-items", "query", query("other"), False),
    ("own-items", "query", query("own-items", IndexName="TopScoreDateTimeIndex"), False),
    ("own-items", "delete_item", scores(Key=key("own-items")), True),
    ("own-items", "delete_item", scores(Key=key("other")), False),
    ("own-items", "update_item", update("Wins", Key=key("other")), False),
    ("own-items", "batch_get_item", {"RequestItems": {"GameScores": {"Keys": [key("own-items")]}}}, True),
    (
        "own-items",
        "batch_get_item",
        {"RequestItems": {"GameScores": {"Keys": [key("own-items"), key("other")]}}},
        False,
    ),
    (
        "own-items",
        "batch_write_item",
        {"RequestItems": {"GameScores": [{"PutRequest": {"Item": key("own-items")}}]}},
        True,
    ),
    (
        "own-items",
        "batch_write_item",
        {
            "RequestItems": {
                "GameScores": [
                    {"PutRequest": {"Item": key("own-items")}},
                    {"DeleteRequest": {"Key": key("other")}},
                ]
            }
        },
        False,
    ),
    (
        "own-items",
        "transact_write_items",
        {"TransactItems": [{"Put": scores(Item=key("own-items", "go"))}]},
        True,
    ),
    (
        "own-items",
        "transact_write_items",
        {"TransactItems": [{"Put": scores(Item=key("own-items"))}, {"Delete": scores(Key=key("other"))}]},
        False,
    ),
    ("read-own", "get_item", scores(Key=key("read-own")), True),
    ("read-own", "put_item", scores(Item=key("read-own")), False),
    ("attributes", "scan", scores(ProjectionExpression="UserId, TopScore"), True),
    ("attributes", "scan", scores(), False),
    (
        "attributes",
        "scan",
        scores(
            ProjectionExpression="UserId",
            FilterExpression="Secret = :v",
            ExpressionAttributeValues={":v": {"N": "1"}},
        ),
        False,
    ),
    ("attributes", "update_item", update("TopScore", Key=key("x")), True),
    ("attributes", "update_item", update("TopScore", Key=key("x"), ReturnValues="UPDATED_NEW"), True),
    ("attributes", "update_item", update("TopScore", Key=key("x"), ReturnValues="ALL_NEW"), False),
    (
        "attributes",
        "update_item",
        update("TopScore", Key=key("x"), ReturnValuesOnConditionCheckFailure="ALL_OLD"),
        False,
    ),
    ("attributes", "update_item", update("Wins", Key=key("x")), False),
    (
        "attributes",
        "update_item",
        scores(Key=key("x"), AttributeUpdates={"Wins": {"Action": "DELETE"}}),
        False,
    ),
    ("no-updates-of", "update_item", update("Wins", Key=key("x")), True),
    ("no-updates-of", "update_item", update("BossLevelUnlocked", Key=key("x")), False),
    ("no-updates-of", "update_item", update("FreeGamesAvailable", Key=key("x")), False),
    ("no-updates-of", "update_item", update("Wins", Key=key("x"), ReturnValues="ALL_OLD"), False),
    (
        "projected",
        "query",
        query("x", IndexName="TopScoreDateTimeIndex", ProjectionExpression="TopScoreDateTime, Wins"),
        True,
    ),
    ("projected", "query", query("x", IndexName="TopScoreDateTimeIndex"), False),
    ("projected", "query", query("x", ProjectionExpression="Wins"), False),
    ("all-projected", "query", query("x", IndexName="TopScoreDateTimeIndex"), True),
    ("all-projected", "query", query("x", IndexName="TopScoreDateTimeIndex", Select="COUNT"), False),
    (
        "keys-and-attributes",
        "query",
        query("keys-and-attributes", IndexName="TopScoreDateTimeIndex", ProjectionExpression="Wins"),
        True,
    ),
    (
        "keys-and-attributes",
        "query",
        query("other", IndexName="TopScoreDateTimeIndex", ProjectionExpression="Wins"),
        False,
    ),
    (
        "keys-and-attributes",
        "query",
        query("keys-and-attributes", ProjectionExpression="TopScore"),
        False,
    ),
    ("hidden", "scan", {"TableName": "CustomerData", "ProjectionExpression": "Id, City"}, True),
    ("hidden", "scan", {"TableName": "CustomerData", "ProjectionExpression": "Id, SSN"}, False),
    ("hidden", "scan", {"TableName": "CustomerData", "AttributesToGet": ["SSN"]}, False),
    ("hidden", "scan", {"TableName": "CustomerData"}, False),
    ("hidden", "get_item", {"TableName": "CustomerData", "Key": {"Id": {"S": "1"}}}, False),
    ("transactions-only", "get_item", scores(Key=key("x")), False),
    (
        "transactions-only",
        "transact_get_items",
        {"TransactItems": [{"Get": scores(Key=key("x"))}]},
        True,
    ),
    (
        "transactions-only",
        "transact_write_items",
        {"TransactItems": [{"Put": scores(Item=key("x"))}]},
        False,
    ),
    (
        "transactions-only",
        "execute_transaction",
        sqls("SELECT * FROM GameScores WHERE UserId = 'x' AND GameTitle = 'go'"),
        True,
    ),
    ("transactions-only", "execute_statement", sql("SELECT * FROM GameScores"), False),
    ("no-full-scans", "execute_statement", sql("SELECT * FROM GameScores WHERE UserId = 'x'"), True),
    ("no-full-scans", "execute_statement", sql("SELECT * FROM GameScores WHERE Wins = 1"), False),
    (
        "no-full-scans",
        "execute_statement",
        sql("SELECT * FROM GameScores.TopScoreDateTimeIndex WHERE UserId = 'x'"),
        True,
    ),
    ("no-full-scans", "execute_statement", sql("DELETE FROM GameScores WHERE UserId = 'x'"), False),
    ("carlos", "list_tables", {}, True),
    ("carlos", "describe_table", {"TableName": "carlos"}, True),
    ("carlos", "describe_table", {"TableName": "carlos-log"}, False),
    ("carlos", "describe_table", {"TableName": "GameScores"}, False),
    ("carlos", "get_item", {"TableName": "carlos", "Key": {"Id": {"S": "1"}}}, True),
    ("lister", "list_tables", {}, True),
    ("lister", "describe_table", {"TableName": "carlos"}, False),
    ("not-actions", "get_item", {"TableName": "carlos", "Key": {"Id": {"S": "1"}}}, True),
    ("not-actions", "delete_item", {"TableName": "carlos", "Key": {"Id": {"S": "1"}}}, False),
    ("not-actions", "describe_table", {"TableName": "log"}, False),
]


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    rights = {name: Rights(policy=text) for name, text in EXAMPLES.items()}
    rights["reader"] = Rights(["*"])
    with serving(tmp_path_factory.mktemp("policies"), rights) as clients:
        admin = clients["admin"]
        index = {"TopScoreDateTimeIndex": "UserId:S TopScoreDateTime:S"}
        admin.create_table(**table_request("GameScores", "UserId:S", "GameTitle:S", gsi=index))
        for name in ("CustomerData", "carlos", "carlos-log", "log", "shared"):
            admin.create_table(**table_request(name, "Id:S"))
        yield clients


@pytest.mark.guarantee("SEC5")
@pytest.mark.parametrize(
    ("key_id", "operation", "request_", "allowed"),
    CASES,
    ids=[f"{nth} {case[0]} {case[1]}" for nth, case in enumerate(CASES)],
)
def test_an_example_allows_exactly_its_requests(
    clients: Clients, key_id: str, operation: str, request_: dict[str, Any], allowed: bool
) -> None:
    assert allowed == (not clients.refusal(key_id, operation, request_))


def test_a_refusal_says_which_kind_of_policy_denies(clients: Clients) -> None:
    explicit = clients.refusal("carlos", "describe_table", {"TableName": "carlos-log"})
    implicit = clients.refusal("carlos", "describe_table", {"TableName": "shared"})

    assert explicit.endswith(
        "user/carlos is not authorized to perform: dynamodb:DescribeTable on resource: "
        f"{TABLE}carlos-log with an explicit deny in an identity-based policy"
    )
    assert implicit.endswith(
        f"{TABLE}shared because no identity-based policy allows the dynamodb:DescribeTable action"
    )


SHARED = {"TableName": "shared", "Key": {"Id": {"S": "1"}}}
# The statement of the table's policy; the answers to GetItem for keys without and with a right of their own.
RESOURCE_CASES = {
    "a key": (statement("Allow", "dynamodb:GetItem", Principal=user("lister")), True, True),
    "another key": (statement("Allow", "dynamodb:GetItem", Principal=user("carlos")), False, True),
    "the account": (statement("Allow", "dynamodb:GetItem", Principal={"AWS": "000000000000"}), False, True),
    "another action": (statement("Allow", "dynamodb:Scan", Principal=user("lister")), False, True),
    "another table": (
        statement("Allow", "dynamodb:GetItem", f"{TABLE}carlos", Principal=user("lister")),
        False,
        True,
    ),
    "a bounded *": (
        statement(
            "Allow",
            "dynamodb:*",
            Principal="*",
            Condition={"StringEquals": {"aws:PrincipalArn": user("lister")["AWS"]}},
        ),
        True,
        True,
    ),
    "deny all": (statement("Deny", "dynamodb:Get*", Principal="*"), False, False),
    "deny the account": (
        statement("Deny", "dynamodb:GetItem", Principal={"AWS": "000000000000"}),
        False,
        False,
    ),
    "deny a key": (statement("Deny", "dynamodb:GetItem", Principal=user("reader")), False, False),
    "deny another": (statement("Deny", "dynamodb:GetItem", Principal=user("carlos")), False, True),
}


@pytest.mark.guarantee("SEC5")
@pytest.mark.parametrize("case", RESOURCE_CASES)
def test_a_table_policy_adds_to_the_policies_of_keys(clients: Clients, case: str) -> None:
    element, without, with_right = RESOURCE_CASES[case]
    clients["admin"].put_resource_policy(ResourceArn=f"{TABLE}shared", Policy=document(element))

    assert without == (not clients.refusal("lister", "get_item", SHARED))
    assert with_right == (not clients.refusal("reader", "get_item", SHARED))


def test_a_deny_of_a_table_names_the_table_policy(clients: Clients) -> None:
    denied = statement("Deny", "dynamodb:GetItem", Principal="*")
    clients["admin"].put_resource_policy(ResourceArn=f"{TABLE}shared", Policy=document(denied))

    said = clients.refusal("admin", "get_item", SHARED)

    assert said.endswith("with an explicit deny in a resource-based policy")


def test_a_read_of_the_past_cannot_avoid_a_deny(clients: Clients) -> None:
    denied = statement("Deny", "dynamodb:GetItem", Principal="*")
    clients["admin"].put_resource_policy(ResourceArn=f"{TABLE}shared", Policy=document(denied))

    assert clients.refusal("admin", "get_item", SHARED | {"TableName": "shared@-0s"})


def test_a_policy_cannot_lock_out_its_author(clients: Clients) -> None:
    denied = document(statement("Deny", "dynamodb:PutResourcePolicy", Principal=user("admin")))
    request = {"ResourceArn": f"{TABLE}log", "Policy": denied}

    refused = clients.refusal("admin", "put_resource_policy", request)
    confirmed = clients.refusal(
        "admin", "put_resource_policy", request | {"ConfirmRemoveSelfResourceAccess": True}
    )
    then = clients.refusal("admin", "put_resource_policy", request)

    assert (
        refused == "The new resource policy will not allow you to update the resource policy in the future."
    )
    assert not confirmed
    assert "not authorized to perform: dynamodb:PutResourcePolicy" in then


def test_a_stream_has_a_policy_of_its_own(clients: Clients) -> None:
    admin, name = clients["admin"], "streamed"
    stream = {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}
    table = admin.create_table(**table_request(name, "Id:S", StreamSpecification=stream))["TableDescription"]
    of_table = statement("Deny", "dynamodb:GetItem", Principal="*")
    of_stream = statement("Deny", "dynamodb:GetShardIterator", table["LatestStreamArn"], Principal="*")
    for arn, element in ((table["TableArn"], of_table), (table["LatestStreamArn"], of_stream)):
        admin.put_resource_policy(ResourceArn=arn, Policy=document(element))

    read = admin.get_resource_policy(ResourceArn=table["LatestStreamArn"])["Policy"]

    assert "GetShardIterator" in read
    assert "GetItem" not in read
    assert clients.refusal("admin", "get_item", {"TableName": name, "Key": {"Id": {"S": "1"}}})
    assert not clients.refusal("admin", "scan", {"TableName": name})
