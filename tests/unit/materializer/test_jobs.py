"""Jobs in the catalog's state: their commands, in one partition and in several."""

from dataclasses import replace
from typing import Any

import orjson
import pytest

from foldb.log.commands import DefineTable
from foldb.materializer.fold.dump import digest, dump
from foldb.materializer.fold.load import load
from foldb.materializer.fold.outcomes import Completed, JobDefined, Outcome, Refused, Skipped
from foldb.materializer.trim import bounds_of
from foldb.model.jobs import Job
from tests.unit.materializer.ledger import START, Ledger, define, table_request

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
REQUEST = {"S3Bucket": "b"}


def begin(operation: str = "StartBulkPutItems", table: int = 1, **job: Any) -> DefineTable:
    return define(operation, table, {"Job": {"Request": REQUEST, "Token": None, **job}})


def imported(name: str = "Made", **job: Any) -> DefineTable:
    made = {"Request": REQUEST, "Token": None, **job}
    return define("ImportTable", 0, {**table_request(name, "pk:S"), "Job": made})


def progress(job: Job, cursor: Any, **members: Any) -> DefineTable:
    request = {"Arn": job.arn, "After": job.cursor, "Cursor": cursor, "Counts": {"items": 1}, **members}
    return define("JobProgress", 0, request)


class Jobs:
    """A ledger with a table."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.made = 0
        self.ledger.create("T")

    def job(self, command: DefineTable, time: int = START) -> Job:
        outcome = self.fold(command, time)
        assert isinstance(outcome, JobDefined)
        return self.now(outcome.job)

    def fold(self, command: DefineTable, time: int = START) -> Outcome:
        self.made += 1
        self.ledger.now = time
        return self.ledger.fold(replace(command, uuid=f"{self.made:08d}-uuid"))

    def now(self, job: Job) -> Job:
        return self.ledger.state.jobs[job.arn]


def test_a_job_begins_continues_and_ends() -> None:
    jobs = Jobs()
    job = jobs.job(begin())

    outcomes = [jobs.fold(progress(job, "a", Files=[{"n": 1}]))]
    middle = jobs.now(job)
    outcomes.append(jobs.fold(progress(middle, "b", Files=[{"n": 2}])))
    files = jobs.now(job).files
    outcomes.append(jobs.fold(progress(jobs.now(job), "c", Status="FAILED", Failure=["Code", "Text."])))
    ended = jobs.now(job)

    assert [Completed(progressed=True)] * 3 == outcomes
    assert ("IN_PROGRESS", "a", {"items": 1}, True) == (
        middle.status,
        middle.cursor,
        middle.counts,
        middle.is_running,
    )
    assert ({"n": 1}, {"n": 2}) == files
    assert ("FAILED", ("Code", "Text."), (), False) == (
        ended.status,
        ended.failure,
        ended.files,
        ended.is_running,
    )
    assert Completed(progressed=False) == jobs.fold(progress(ended, "d"))


def test_a_portion_that_two_owners_report_counts_once() -> None:
    jobs = Jobs()
    job = jobs.job(begin("ExportTableToPointInTime", TimeMs=START))
    report = progress(job, "a", Files=[{"n": 1}])

    outcomes = [jobs.fold(report), jobs.fold(report)]

    assert [Completed(progressed=True), Completed(progressed=False)] == outcomes
    assert 1 == len(jobs.now(job).files)


def test_a_token_begins_one_job_in_eight_hours() -> None:
    jobs = Jobs()
    first = jobs.job(begin(Token="t"))

    again = jobs.job(begin(Token="t"), START + 8 * HOUR_MS - 1)
    other = jobs.fold(begin(Token="t", Request={}))
    export = jobs.job(begin("ExportTableToPointInTime", Token="t", TimeMs=START))
    later = jobs.job(begin(Token="t"), START + 8 * HOUR_MS)

    assert first == again
    assert isinstance(other, Refused)
    assert "IdempotentParameterMismatchException" == other.error.wire_name
    assert 3 == len({first.arn, export.arn, later.arn})


def test_an_import_makes_its_table_active_at_its_end() -> None:
    jobs = Jobs()
    job = jobs.job(imported())
    table = jobs.ledger.state.tables[job.table_id]
    statuses = [table.definition.status]

    jobs.fold(progress(job, "a"))
    statuses.append(table.definition.status)
    jobs.fold(progress(jobs.now(job), "a", Status="COMPLETED"))
    statuses.append(table.definition.status)

    assert ["CREATING", "CREATING", "ACTIVE"] == statuses
    assert job.arn == table.definition.restore.source_arn if table.definition.restore else False


def test_an_import_into_an_existing_table_begins_no_job() -> None:
    jobs = Jobs()

    outcome = jobs.fold(imported("T"))

    assert isinstance(outcome, Refused)
    assert "ResourceInUseException" == outcome.error.wire_name
    assert {} == jobs.ledger.state.jobs


def test_the_deletion_of_its_table_cancels_an_import() -> None:
    jobs = Jobs()
    job, other = jobs.job(imported()), jobs.job(begin())

    jobs.fold(define("DeleteTable", job.table_id, {"TableName": "Made"}))

    assert ("CANCELLED", "IN_PROGRESS") == (jobs.now(job).status, jobs.now(other).status)
    assert Completed(progressed=False) == jobs.fold(progress(job, "a"))


def test_a_cancelled_job_runs_until_its_owner_ends_it() -> None:
    jobs = Jobs()
    job = jobs.job(begin())

    cancelled = jobs.job(define("CancelBulkOperation", 0, {"Arn": job.arn}))
    jobs.fold(progress(cancelled, "a", Status="CANCELLED"))
    again = jobs.job(define("CancelBulkOperation", 0, {"Arn": job.arn}))

    assert ("CANCELLING", True) == (cancelled.status, cancelled.is_running)
    assert ("CANCELLED", False) == (again.status, again.is_running)
    assert isinstance(jobs.fold(define("CancelBulkOperation", 0, {"Arn": "lost"})), Refused)


def test_jobs_that_ended_are_kept_for_90_days() -> None:
    jobs = Jobs()
    ended, runs = jobs.job(begin()), jobs.job(begin())
    jobs.fold(progress(ended, "a", Status="COMPLETED"))

    jobs.job(begin(), START + 90 * DAY_MS - 1)
    assert ended.arn in jobs.ledger.state.jobs
    jobs.job(begin(), START + 91 * DAY_MS)

    assert ended.arn not in jobs.ledger.state.jobs
    assert runs.arn in jobs.ledger.state.jobs


@pytest.mark.parametrize(
    ("operation", "limit"), [("ExportTableToPointInTime", 300), ("StartBulkPutItems", 50)]
)
def test_the_jobs_that_run_are_limited(operation: str, limit: int) -> None:
    jobs = Jobs()
    first = jobs.job(begin(operation))
    for _ in range(limit - 1):
        jobs.job(begin(operation))

    refused = jobs.fold(begin(operation))
    jobs.fold(progress(first, "a", Status="COMPLETED"))
    jobs.job(begin(operation))

    assert isinstance(refused, Refused)
    assert "LimitExceededException" == refused.error.wire_name


def test_a_dump_has_the_jobs_in_their_order() -> None:
    jobs = Jobs()
    made = [jobs.job(begin("ExportTableToPointInTime", TimeMs=START, SinceMs=1)), jobs.job(imported())]
    jobs.fold(progress(made[0], [1, None], Files=[{"key": "a"}]))
    jobs.fold(progress(made[1], "b", Status="FAILED", Failure=["C", "T"]))
    state = jobs.ledger.state

    loaded = load(dump(state))

    assert state.jobs == loaded.jobs
    assert list(state.jobs) == list(loaded.jobs)
    assert digest(state) == digest(loaded)


def test_a_running_export_keeps_the_history_that_it_reads() -> None:
    jobs = Jobs()
    full = jobs.job(begin("ExportTableToPointInTime", TimeMs=START - 10))
    jobs.job(begin("ExportTableToPointInTime", TimeMs=START, SinceMs=START - 50))
    running = bounds_of(jobs.ledger.state, 0)
    jobs.fold(progress(full, "a", Status="COMPLETED"))

    after = bounds_of(jobs.ledger.state, 0)

    assert [START - 10, START - 50] == [bound.cut.time_ms for bound in running]
    assert [START - 50] == [bound.cut.time_ms for bound in after]
    assert f"the export {full.id} of T reads the items of" in running[0].reason


def test_a_job_of_no_table_is_skipped() -> None:
    assert Skipped("no such table") == Jobs().fold(begin(table=99))


def test_a_request_of_a_job_is_written_without_its_token() -> None:
    job = Jobs().job(begin(Token="t"))

    assert "t" == job.token
    assert b'"t"' not in orjson.dumps(job.request)
