"""TagResource, UntagResource and ListTagsOfResource: the tags of a table."""

from bisect import bisect_right
from typing import Any

import orjson

from ....model.errors import AccessDeniedError
from ...auth.rights import Right
from ...database import Database
from .. import table_commands
from ..operation import operation
from ..reply import Reply


@operation("TagResource", Right.ADMIN, member="ResourceArn")
def tag_resource(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Set the tags, and reply with an empty body."""
    table = table_commands.table_to_tag(database, body["ResourceArn"])
    table_commands.change(database, "TagResource", table, body, reply, lambda _: None)


@operation("UntagResource", Right.ADMIN, member="ResourceArn")
def untag_resource(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Remove the tags, and reply with an empty body. Unknown keys are no error."""
    table = table_commands.table_to_tag(database, body["ResourceArn"])
    table_commands.change(database, "UntagResource", table, body, reply, lambda _: None)


@operation("ListTagsOfResource", Right.READ, member="ResourceArn")
def list_tags_of_resource(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Reply with the page after NextToken, the last key of the previous page."""
    arn = body["ResourceArn"]
    table = table_commands.tagged_table(database, arn)
    if table is None:
        # DynamoDB does not reveal whether a table exists.
        raise AccessDeniedError(
            "User: arn:aws:iam::000000000000:root is not authorized to perform: "
            f"dynamodb:ListTagsOfResource on resource: {arn}"
        )
    tags = table.definition.tags
    keys = sorted(tags)
    start = bisect_right(keys, body.get("NextToken", ""))
    end = start + database.state.limits.tags_page
    answer: dict[str, Any] = {"Tags": [{"Key": key, "Value": tags[key]} for key in keys[start:end]]}
    if end < len(keys):
        answer["NextToken"] = keys[end - 1]
    reply.ok(orjson.dumps(answer))
