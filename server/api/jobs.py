"""Exports, imports and bulk operations in the API: their commands, their ARNs, and pages of their lists."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

import orjson

from ...log.commands import Context, DefineTable
from ...materializer.fold.outcomes import JobDefined, Outcome
from ...materializer.partition import ResultPosition
from ...model import jobs
from ...model.errors import RequestError, ValidationError
from ...model.jobs import JOB, Job, JobKind
from ...model.tables import name_of
from ..async_calls import call
from ..buckets.bucket_folders import NOT_CONFIGURED
from ..database import Database
from . import table_commands
from .operation import Answer

# The service model has tokens of hexadecimal digits, 16 at a time and at least 112.
_TOKEN_STEP: Final = 8
_TOKEN_BYTES_MIN: Final = 56


def check_buckets(database: Database) -> None:
    """Check that the server has a folder for buckets.

    Raises:
        ValidationError: The server runs without --buckets.
    """
    if database.settings.buckets is None:
        raise ValidationError(NOT_CONFIGURED)


def without_token(body: dict[str, Any]) -> dict[str, Any]:
    """Return the members of a request that two requests with one token must share."""
    return {name: value for name, value in body.items() if name != "ClientToken"}


def find_repeated(database: Database, kind: JobKind, body: dict[str, Any]) -> Job | None:
    """Return the job that the same request has begun before; see `jobs.repeated`."""
    known = database.state.jobs.values()
    return jobs.repeated(known, kind, without_token(body), body.get("ClientToken"), database.clock())


async def begin(
    database: Database,
    operation: str,
    body: dict[str, Any],
    context: Context,
    *,
    table: int = 0,
    uuid: str | None = None,
    job: dict[str, Any] | None = None,
    **members: Any,
) -> tuple[Job, ResultPosition]:
    """Submit the command that begins a job, and return the job, or the one that the same request began before.

    Args:
        table: The id of the table; 0 for an import.
        uuid: The random id of the command; drawn by default.
        job: Members of the job in the command in addition to the request.
        members: Members of the command in addition to the job.

    Raises:
        RequestError: The fold refuses the job.
    """
    wanted = {"Request": without_token(body), "Token": body.get("ClientToken"), **(job or {})}
    return await submit(
        database,
        operation,
        {**members, JOB: wanted},
        context,
        table,
        uuid or table_commands.new_uuid(database),
    )


async def submit(
    database: Database,
    operation: str,
    request: dict[str, Any],
    context: Context,
    table: int = 0,
    uuid: str = "",
) -> tuple[Job, ResultPosition]:
    """Submit a command about a job, and return the job after it.

    Raises:
        RequestError: The fold refuses the command.
    """
    data = orjson.dumps(request, option=orjson.OPT_SORT_KEYS)
    command = DefineTable(operation, table, data, uuid, context)

    def begin_call(done: Callable[[tuple[Outcome, ResultPosition]], None]) -> None:
        database.partition.submit(command, len(data), lambda *result: done(result))

    outcome, position = await call(begin_call)
    if not isinstance(outcome, JobDefined):
        raise table_commands.refusal(outcome)
    return outcome.job, position


def answer(member: str, content: dict[str, Any], position: ResultPosition | None = None) -> Answer:
    """Return an answer with one member."""
    return Answer(orjson.dumps({member: content}), position)


async def find_job(database: Database, kind: JobKind, arn: str, error: type[RequestError]) -> Job:
    """Return the job with an ARN. Another node may have begun it: so the catalog is caught up before it is missing.

    Raises:
        RequestError: No job of this kind has the ARN; the error is of the given type.
    """
    if arn not in database.state.jobs and database.router is not None:

        def catch_up(done: Callable[[bool], None]) -> None:
            database.catch_up(partial(done, True))

        await call(catch_up)
    job = database.state.jobs.get(arn)
    if job is None or job.kind != kind:
        raise error(f"No {kind.replace('-', ' ')} has the ARN {arn}")
    return job


def page_of(
    found: Iterable[Job], kind: JobKind, body: dict[str, Any], limit: int
) -> tuple[list[Job], dict[str, str]]:
    """Return a page of the jobs of a kind, the newest first, and the NextToken if more follow.

    Raises:
        ValidationError: The NextToken is not one of an answer.
    """
    table = name_of(body["TableArn"]) if "TableArn" in body else None
    after = _decode_token(body["NextToken"]) if "NextToken" in body else None
    listed = sorted(
        (
            job
            for job in found
            if job.kind == kind
            and (table is None or name_of(job.table_arn) == table)
            and (after is None or _order(job.arn) < _order(after))
        ),
        key=lambda job: _order(job.arn),
        reverse=True,
    )
    page = listed[:limit]
    return page, {"NextToken": _encode_token(page[-1].arn)} if len(listed) > limit else {}


def _order(arn: str) -> tuple[str, str]:
    """Return the time and the random part of an ARN, and the ARN."""
    return arn.rpartition("/")[2], arn


def _encode_token(arn: str) -> str:
    data = arn.encode()
    length = max(_TOKEN_BYTES_MIN, -(-len(data) // _TOKEN_STEP) * _TOKEN_STEP)
    return data.ljust(length).hex()


def _decode_token(token: str) -> str:
    try:
        return bytes.fromhex(token).decode().rstrip()
    except ValueError:
        raise ValidationError("NextToken is not one of an answer") from None
