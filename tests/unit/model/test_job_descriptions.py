"""What the client of an import sees of its job."""

from dataclasses import replace

import pytest

from foldb.model import table_requests
from foldb.model.job_descriptions import describe_import, import_as_seen
from foldb.model.jobs import Job
from foldb.model.limits import MODERN
from foldb.model.tables import settled
from tests.support.tables import table_request

NOW = 1_700_000_000_123
CREATING = table_requests.create(
    table_request("Music", "Artist:S"), table_id=7, uuid="u", time_ms=NOW, limits=MODERN
)
ENDED = Job(
    arn=f"{CREATING.arn}/import/01700000000123-00000000",
    kind="import",
    table_id=7,
    table_arn=CREATING.arn,
    table_uuid="u",
    key=CREATING.key,
    request={},
    token=None,
    started_ms=NOW,
    status="COMPLETED",
    ended_ms=NOW + 5,
)
FAILED = replace(ENDED, status="FAILED", failure=("ItemValidationError", "spoiled"))


@pytest.mark.parametrize("job", [ENDED, FAILED])
def test_an_import_has_not_ended_until_every_partition_serves_its_table(job: Job) -> None:
    described = describe_import(import_as_seen(job, CREATING))

    assert described["ImportStatus"] == "IN_PROGRESS"
    assert not {"EndTime", "FailureCode", "FailureMessage"} & set(described)


@pytest.mark.parametrize("job", [ENDED, FAILED])
def test_an_ended_import_is_seen_as_it_is_once_its_table_is_settled_or_deleted(job: Job) -> None:
    assert [job, job] == [import_as_seen(job, settled(CREATING)), import_as_seen(job, None)]
