"""PutResourcePolicy, GetResourcePolicy and DeleteResourcePolicy: the policy of a table or a stream.

    document ──► checked, in canonical form ──► DefineTable ──► definition of the table ──► auth/rights.py

With `--keys` a policy has its effect from the next request on, unlike in DynamoDB, where that takes minutes.
"""

import re
from typing import Any, Final, NamedTuple

import orjson

from ....materializer.fold.state import Table
from ....model.descriptions import stream_label
from ....model.errors import AccessDeniedError, PolicyNotFoundError, ResourceNotFoundError, ValidationError
from ....model.index_requests import INVALID
from ....model.table_requests import NO_SUCH_POLICY
from ....model.tables import ARN_PREFIX, TableDefinition, name_of, relative_id
from ...auth.policy_document import Holder
from ...auth.rights import EVERYTHING, Right, Rights, may_put_policy
from ...database import Database
from .. import table_commands
from ..operation import operation
from ..policy_rules import canonical_policy, check_level
from ..reply import Reply

_LOCKED_OUT: Final = "The new resource policy will not allow you to update the resource policy in the future."
_is_own = re.compile(rf"{ARN_PREFIX}[a-zA-Z0-9_.-]{{3,255}}(?:/.*)?", re.DOTALL).fullmatch
_is_of_account = re.compile("arn:[^:]*:dynamodb:[^:]*:000000000000:.*", re.DOTALL).fullmatch
_is_of_dynamodb = re.compile(
    "arn:[^:]*:dynamodb:[^:]*:[^:]*:table/[^/]*(?:/(?:index|stream)/.*)?", re.DOTALL
).fullmatch


class _Unverified(NamedTuple):
    """The sender of a request without `--keys`, who has all rights. A policy that locks it out is refused too."""

    id: str
    rights: Rights = Rights(admin=[EVERYTHING])


@operation("PutResourcePolicy", Right.ADMIN, member="ResourceArn")
def put_resource_policy(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Check the document, store it in canonical form, and reply with its revision."""
    table, slot = _resource(database, body["ResourceArn"])
    text = canonical_policy(database, body["Policy"], Holder.STREAM if slot else Holder.TABLE)
    confirms = body.get("ConfirmRemoveSelfResourceAccess", False) or reply.is_confirmed
    caller = reply.bearer or _Unverified(reply.context.principal or "")
    if not confirms and not may_put_policy(caller, body["ResourceArn"], text, database.state):
        raise AccessDeniedError(_LOCKED_OUT)
    request: dict[str, Any] = {"ResourceArn": body["ResourceArn"], "Policy": text}
    if "ExpectedRevisionId" in body:
        request["ExpectedRevisionId"] = body["ExpectedRevisionId"]

    def answer(definition: TableDefinition) -> dict[str, Any]:
        return {"RevisionId": str(definition.policies[slot].revision)}

    table_commands.change(database, "PutResourcePolicy", table, request, reply, answer)


@operation("GetResourcePolicy", Right.ADMIN, member="ResourceArn")
def get_resource_policy(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Reply with the document in canonical form, and its revision."""
    table, slot = _resource(database, body["ResourceArn"])
    policy = table.definition.policies.get(slot)
    if policy is None:
        raise PolicyNotFoundError(f"{NO_SUCH_POLICY}{body['ResourceArn']}")
    reply.ok(orjson.dumps({"Policy": policy.text, "RevisionId": str(policy.revision)}))


@operation("DeleteResourcePolicy", Right.ADMIN, member="ResourceArn")
def delete_resource_policy(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Remove the policy, and reply with its revision; with nothing, if there is none."""
    table, slot = _resource(database, body["ResourceArn"])
    check_level(database)
    policy = table.definition.policies.get(slot)
    answered = {} if policy is None else {"RevisionId": str(policy.revision)}
    table_commands.change(database, "DeleteResourcePolicy", table, body, reply, lambda _: answered)


def _resource(database: Database, arn: str) -> tuple[Table, str]:
    """Return the table of a ResourceArn, and the id of the resource relative to it.

    Raises:
        ValidationError: The text is not the ARN of a table or a stream of this account.
        ResourceNotFoundError: No table or no stream has the ARN.
    """
    if not arn.startswith("arn:"):
        raise ValidationError(f"{INVALID}ARNs must start with 'arn:': {arn}")
    if not _is_of_dynamodb(arn):
        raise ValidationError(f"{INVALID}Provided Arn is not a DynamoDB resource arn: {arn}")
    if not _is_of_account(arn):
        raise ValidationError(
            "This action is only supported by accounts that match the resource owner\u2019s account."
        )
    if not _is_own(arn):
        raise ValidationError(f"{INVALID}Invalid resource Arn: {arn}")
    name, slot = name_of(arn), relative_id(arn)
    if slot.startswith("index/"):
        raise ValidationError(
            f"{INVALID}Invalid resource arn provided, only table or stream is accepted. Provided resource arn: {arn}"
        )
    table = database.table_in_any_status(arn)
    label = slot.removeprefix("stream/")
    periods = database.state.periods.get(table.definition.id, ())
    if slot and all(not period.label or stream_label(period.label) != label for period in periods):
        raise ResourceNotFoundError(
            f"Requested resource not found: Stream: {label} not found for Table: {name}"
        )
    return table, slot
