"""PutResourcePolicy, GetResourcePolicy, DeleteResourcePolicy and CreateTable's ResourcePolicy.

The texts are those of DynamoDB in October 2026.
"""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.tables import MakeTable, table_request

pytestmark = [pytest.mark.spec("X12"), pytest.mark.divided]

ALLOWED = {"AWS": "arn:aws:iam::000000000000:user/KEY"}
INVALID = "One or more parameter values were invalid: "
DOCUMENT = f"{INVALID}Invalid policy document: "
NOT_FOUND = "Resource-based policy not found for the provided ResourceArn: "


def element(**changes: Any) -> dict[str, Any]:
    whole = {
        "Effect": "Allow",
        "Principal": ALLOWED,
        "Action": "dynamodb:GetItem",
        "Resource": "*",
        **changes,
    }
    return {name: value for name, value in whole.items() if value is not None}


def document(*elements: dict[str, Any], **more: Any) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(elements or [element()]), **more})


def refused(call: Any, **request: Any) -> tuple[str, str]:
    """The code and the message of the error."""
    with pytest.raises(ClientError) as caught:
        call(**request)
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


@pytest.fixture
def arn(make_table: MakeTable) -> str:
    return str(make_table("pk:S").table_arn)


def test_a_policy_is_stored_in_canonical_form(client: Any, arn: str) -> None:
    given = {
        "Statement": {
            "Resource": [arn],
            "Action": ["dynamodb:GetItem", "dynamodb:Scan"],
            "Principal": {"AWS": ["000000000000", "arn:aws:iam::000000000000:root"]},
            "Effect": "allow",
            "Sid": "one",
        },
        "Version": "2012-10-17",
    }
    revision = client.put_resource_policy(ResourceArn=arn, Policy=json.dumps(given, indent=2))["RevisionId"]

    read = client.get_resource_policy(ResourceArn=arn)

    assert revision == read["RevisionId"]
    assert read["Policy"] == (
        '{"Version":"2012-10-17","Statement":[{"Sid":"one","Effect":"Allow","Principal":'
        '{"AWS":"arn:aws:iam::000000000000:root"},"Action":["dynamodb:GetItem","dynamodb:Scan"],'
        f'"Resource":"{arn}"}}]}}'
    )


def test_an_equal_policy_keeps_its_revision(client: Any, arn: str) -> None:
    first = client.put_resource_policy(ResourceArn=arn, Policy=document(element(Action=["dynamodb:Scan"])))
    again = client.put_resource_policy(ResourceArn=arn, Policy=document(element(Action="dynamodb:Scan")))
    other = client.put_resource_policy(ResourceArn=arn, Policy=document(element(Action="dynamodb:Query")))

    assert first["RevisionId"] == again["RevisionId"]
    assert int(other["RevisionId"]) > int(first["RevisionId"])


def test_an_expected_revision_is_compared(client: Any, arn: str) -> None:
    name = arn.rpartition("/")[2]
    put, other = client.put_resource_policy, document(element(Action="dynamodb:Scan"))
    revision = put(ResourceArn=arn, Policy=document(), ExpectedRevisionId="NO_POLICY")["RevisionId"]

    none = refused(put, ResourceArn=arn, Policy=other, ExpectedRevisionId="NO_POLICY")
    wrong = refused(client.delete_resource_policy, ResourceArn=arn, ExpectedRevisionId="unknown")
    right = put(ResourceArn=arn, Policy=other, ExpectedRevisionId=revision)

    assert none == (
        "PolicyNotFoundException",
        f"{NOT_FOUND}Requested policy update expecting none to be present for table {name}, "
        f"but a policy exists with revision id {revision}.",
    )
    assert wrong == (
        "PolicyNotFoundException",
        f"{NOT_FOUND}Requested update for policy with revision id unknown, but the policy associated to "
        f"target table {name} has revision id {revision}.",
    )
    assert right["RevisionId"] != revision


def test_a_deleted_policy_is_not_found(client: Any, arn: str) -> None:
    revision = client.put_resource_policy(ResourceArn=arn, Policy=document())["RevisionId"]

    deleted = client.delete_resource_policy(ResourceArn=arn)
    again = client.delete_resource_policy(ResourceArn=arn)

    assert revision == deleted["RevisionId"]
    assert "RevisionId" not in again
    assert refused(client.get_resource_policy, ResourceArn=arn) == (
        "PolicyNotFoundException",
        NOT_FOUND + arn,
    )


def test_a_table_is_created_with_a_policy_and_loses_it(client: Any, arn: str) -> None:
    name = f"{arn.rpartition('/')[2]}-new"
    request = table_request(name, "pk:S")
    made = client.create_table(**request, ResourcePolicy=document())["TableDescription"]["TableArn"]
    client.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 1})
    read = client.get_resource_policy(ResourceArn=made)["Policy"]
    client.delete_table(TableName=name)
    client.get_waiter("table_not_exists").wait(TableName=name, WaiterConfig={"Delay": 1})
    gone = refused(client.get_resource_policy, ResourceArn=made)
    client.create_table(**request)
    client.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 1})

    assert '"dynamodb:GetItem"' in read
    assert gone == ("ResourceNotFoundException", f"Requested resource not found: Table: {name} not found")
    assert refused(client.get_resource_policy, ResourceArn=made)[0] == "PolicyNotFoundException"
    client.delete_table(TableName=name)


ARNS = {
    "a name": ("Cars", f"{INVALID}ARNs must start with 'arn:': Cars"),
    "another account": (
        "arn:aws:dynamodb:us-east-1:123456789012:table/Cars",
        "This action is only supported by accounts that match the resource owner\u2019s account.",
    ),
    "another region": (
        "arn:aws:dynamodb:eu-west-1:000000000000:table/Cars",
        f"{INVALID}Invalid resource Arn: arn:aws:dynamodb:eu-west-1:000000000000:table/Cars",
    ),
    "an index": (
        "arn:aws:dynamodb:us-east-1:000000000000:table/Cars/index/one",
        f"{INVALID}Invalid resource arn provided, only table or stream is accepted. Provided resource arn: "
        "arn:aws:dynamodb:us-east-1:000000000000:table/Cars/index/one",
    ),
    "a backup": (
        "arn:aws:dynamodb:us-east-1:000000000000:table/Cars/backup/01",
        f"{INVALID}Provided Arn is not a DynamoDB resource arn: "
        "arn:aws:dynamodb:us-east-1:000000000000:table/Cars/backup/01",
    ),
}


@pytest.mark.parametrize("case", ARNS)
def test_another_resource_is_refused(client: Any, case: str) -> None:
    arn, text = ARNS[case]

    assert refused(client.get_resource_policy, ResourceArn=arn) == ("ValidationException", text)
    assert refused(client.put_resource_policy, ResourceArn=arn, Policy=document())[1] == text


def test_an_unknown_stream_is_not_found(client: Any, arn: str) -> None:
    stream = f"{arn}/stream/2000-01-01T00:00:00.000"

    assert refused(client.get_resource_policy, ResourceArn=stream) == (
        "ResourceNotFoundException",
        "Requested resource not found: Stream: 2000-01-01T00:00:00.000 not found for Table: "
        + arn.rpartition("/")[2],
    )


DOCUMENTS = {
    "no JSON": ("{not json", f"{DOCUMENT}This policy contains invalid Json"),
    "a member twice": (
        document().replace('"Effect"', '"Effect": "Deny", "Effect"'),
        f"{DOCUMENT}This policy contains invalid Json",
    ),
    "no statement": (
        '{"Version":"2012-10-17","Statement":[]}',
        f"{DOCUMENT}Could not parse the policy: Statement is empty!",
    ),
    "no resource": (document(element(Resource=None)), f"{DOCUMENT}Missing required field Resource"),
    "a Sid twice": (
        document(element(Sid="one"), element(Sid="one")),
        f"{DOCUMENT}The Statement Ids in the policy are not unique",
    ),
    "actions of streams": (
        document(element(Action=["dynamodb:GetRecords", "dynamodb:GetItem", "dynamodb:DescribeStream"])),
        f'{DOCUMENT}The following action names are invalid: "dynamodb:GetRecords", "dynamodb:DescribeStream"',
    ),
    "a stream": (
        document(element(Resource="arn:aws:dynamodb:us-east-1:000000000000:table/Cars/stream/one")),
        f'{DOCUMENT}The relative-id "table/Cars/stream/one" is invalid for ARN '
        '"arn:aws:dynamodb:us-east-1:000000000000:table/Cars/stream/one"',
    ),
    "everybody": (
        document(element(Principal={"AWS": "*"})),
        "Resource-based policy grants unbounded access in one or more elements. "
        "Please revise the policy to ensure least-privilege form of access",
    ),
    "a wrong principal": (
        document(element(Principal={"AWS": "arn:aws:iam::000000000000:user/*"})),
        f"{INVALID}Invalid principal in policy document.",
    ),
    "too long": (
        document() + " " * 20_480,
        f"{INVALID}Maximum policy size of 20480 bytes exceeded",
    ),
    "another condition": (
        document(element(Condition={"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}})),
        f"{DOCUMENT}foldb does not support the condition operator IpAddress",
    ),
}


@pytest.mark.parametrize("case", DOCUMENTS)
def test_an_invalid_document_is_refused(client: Any, arn: str, case: str) -> None:
    policy, text = DOCUMENTS[case]

    assert refused(client.put_resource_policy, ResourceArn=arn, Policy=policy) == (
        "ValidationException",
        text,
    )
    assert refused(client.get_resource_policy, ResourceArn=arn)[0] == "PolicyNotFoundException"


def test_a_policy_that_locks_out_its_author_is_confirmed(client: Any, arn: str) -> None:
    locked = document(element(Effect="Deny", Principal="*", Action="dynamodb:PutResourcePolicy"))
    put = client.put_resource_policy

    assert refused(put, ResourceArn=arn, Policy=locked) == (
        "AccessDeniedException",
        "The new resource policy will not allow you to update the resource policy in the future.",
    )
    assert put(ResourceArn=arn, Policy=locked, ConfirmRemoveSelfResourceAccess=True)["RevisionId"]


def test_a_restored_table_has_no_policy(client: Any, arn: str) -> None:
    name = arn.rpartition("/")[2]
    client.put_resource_policy(ResourceArn=arn, Policy=document())
    backup = client.create_backup(TableName=name, BackupName="nightly")["BackupDetails"]["BackupArn"]

    restored = client.restore_table_from_backup(TargetTableName=f"{name}-restored", BackupArn=backup)
    made = restored["TableDescription"]["TableArn"]

    assert refused(client.get_resource_policy, ResourceArn=made)[0] == "PolicyNotFoundException"
    client.get_waiter("table_exists").wait(TableName=f"{name}-restored", WaiterConfig={"Delay": 1})
    client.delete_table(TableName=f"{name}-restored")
