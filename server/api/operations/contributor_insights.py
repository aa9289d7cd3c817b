"""DescribeContributorInsights, ListContributorInsights and UpdateContributorInsights: a setting of tables and indexes.

The setting is described with the names of the rules that DynamoDB would make in CloudWatch. The operation Heat returns
the measured keys (usage/heat.py). DynamoDB lists only settings that are not DISABLED.
"""

from collections.abc import Iterator
from typing import Any

import orjson

from ....materializer.fold.state import HISTORY_LEVEL, Table
from ....model.descriptions import describe_insights, summarize_insights
from ....model.errors import ResourceNotFoundError, ValidationError
from ....model.tables import TableDefinition
from ...auth.rights import EVERYTHING, Demand, Right
from ...database import Database
from .. import table_commands
from ..operation import operation
from ..reply import Reply

_PAGE = 100


@operation("UpdateContributorInsights", Right.ADMIN)
def update_contributor_insights(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Change the setting, and reply with the status that DynamoDB has while it does so."""
    table = database.table_in_any_status(body["TableName"])
    if database.state.level < HISTORY_LEVEL:
        raise ValidationError(
            f"Contributor Insights need a log of level {HISTORY_LEVEL}: run `foldb upgrade` once every node is of this "
            "release"
        )
    name = body.get("IndexName", "")
    before = table.definition.insights.get(name)

    def answer(definition: TableDefinition) -> dict[str, Any]:
        summary = summarize_insights(definition, name)
        if definition.insights.get(name) != before:
            is_enabled = summary["ContributorInsightsStatus"] == "ENABLED"
            summary["ContributorInsightsStatus"] = "ENABLING" if is_enabled else "DISABLING"
        return summary

    table_commands.change(database, "UpdateContributorInsights", table, body, reply, answer)


@operation("DescribeContributorInsights", Right.READ)
def describe_contributor_insights(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Reply with the setting of the table or of a global index."""
    definition = database.table_in_any_status(body["TableName"]).definition
    name = body.get("IndexName", "")
    if name and all(index.name != name for index in definition.gsis):
        raise ResourceNotFoundError(f"Index: {name} not found for table: {definition.name}")
    reply.ok(orjson.dumps(describe_insights(definition, name)))


def _demands(body: dict[str, Any]) -> Iterator[Demand]:
    yield "dynamodb:ListContributorInsights", Right.READ, body.get("TableName", EVERYTHING)


@operation("ListContributorInsights", _demands)
def list_contributor_insights(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Reply with the page after NextToken, the names of the last entry of the previous page."""
    if "TableName" in body:
        tables = [database.table_in_any_status(body["TableName"])]
    else:
        tables = [database.state.tables[table] for _, table in sorted(database.state.names.items())]
    entries = [
        entry for table in tables for entry in _enabled(table) if _token(entry) > body.get("NextToken", "")
    ]
    page = entries[: max(body.get("MaxResults", _PAGE), 1)]
    answer: dict[str, Any] = {"ContributorInsightsSummaries": page}
    if len(page) < len(entries):
        answer["NextToken"] = _token(page[-1])
    reply.ok(orjson.dumps(answer))


def _enabled(table: Table) -> Iterator[dict[str, Any]]:
    definition = table.definition
    for name, insights in sorted(definition.insights.items()):
        if insights.enabled:
            yield summarize_insights(definition, name)


def _token(entry: dict[str, Any]) -> str:
    """Return a text that sorts like the entries: no name has a space."""
    return f"{entry['TableName']} {entry.get('IndexName', '')}"
