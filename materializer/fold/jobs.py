"""Jobs: exports, imports and bulk operations, from the command that begins one to its last progress.

The fold does not read files and not the past. The catalog's owner does the work (materializer/owner/jobs.py) and
proposes a JobProgress after each portion. An import creates its table as a restore does: the items follow as Loads.
"""

from dataclasses import replace
from typing import Any

import orjson

from ...log.commands import DefineTable
from ...model import jobs
from ...model.errors import RequestError, ResourceNotFoundError
from ...model.jobs import CANCEL, JOB, KINDS, PROGRESS, START_IMPORT, Job
from ...model.slots import CATALOG
from ...model.tables import TableDefinition
from . import definitions, restores
from .outcomes import Completed, JobDefined, Outcome, Refused, Skipped, TableDefined
from .state import PartitionState


def define_job(state: PartitionState, command: DefineTable, sequence_number: int) -> Outcome:
    """Fold a command that begins a job, cancels one, or reports its progress."""
    if state.partition != CATALOG:
        return Skipped("not the catalog")
    request = orjson.loads(command.request)
    if command.operation == PROGRESS:
        return _progress(state, request, sequence_number)
    if command.operation == CANCEL:
        return _cancel(state, request["Arn"])
    return _start(state, command, request, sequence_number)


def _start(
    state: PartitionState, command: DefineTable, request: dict[str, Any], sequence_number: int
) -> Outcome:
    wanted, kind = request[JOB], KINDS[command.operation]
    try:
        same = jobs.repeated(state.jobs.values(), kind, wanted["Request"], wanted["Token"], state.log_time)
        if same is not None:
            return JobDefined(same)
        jobs.check_running(state.jobs.values(), kind)
    except RequestError as error:
        return Refused(error)
    if command.operation == START_IMPORT:
        made = definitions.define(state, command, sequence_number)
        if not isinstance(made, TableDefined):
            return made
        definition: TableDefinition = made.definition
    else:
        table = state.tables.get(command.table)
        if table is None:
            return Skipped("no such table")
        definition = table.definition
    job = Job(
        arn=jobs.job_arn(definition.arn, kind, uuid=command.uuid, time_ms=state.log_time),
        kind=kind,
        table_id=definition.id,
        table_arn=definition.arn,
        table_uuid=definition.uuid,
        key=definition.key,
        request=wanted["Request"],
        token=wanted["Token"],
        started_ms=state.log_time,
        cut_ms=wanted.get("TimeMs"),
        since_ms=wanted.get("SinceMs"),
    )
    for old in [old for old in state.jobs.values() if not jobs.is_kept(old, state.log_time)]:
        del state.jobs[old.arn]
    state.jobs[job.arn] = job
    return JobDefined(job)


def _cancel(state: PartitionState, arn: str) -> Outcome:
    """Mark a job as CANCELLING, unless it has ended: its owner ends it."""
    job = state.jobs.get(arn)
    if job is None:
        return Refused(ResourceNotFoundError(f"Bulk operation not found: {arn}"))
    if job.is_running:
        job = state.jobs[arn] = replace(job, status="CANCELLING")
    return JobDefined(job)


def _progress(state: PartitionState, request: dict[str, Any], sequence_number: int) -> Outcome:
    job = state.jobs.get(request["Arn"])
    changed = None if job is None else job.after(request, state.log_time)
    if changed is None:
        return Completed(progressed=False)
    state.jobs[changed.arn] = changed
    table = state.tables.get(changed.table_id)
    if not changed.is_running and table is not None and _is_being_imported(table.definition, changed):
        restores.finish(state, table.definition, sequence_number)
    return Completed(progressed=True)


def _is_being_imported(definition: TableDefinition, job: Job) -> bool:
    return (
        definition.is_restoring
        and definition.restore is not None
        and definition.restore.source_arn == job.arn
    )
