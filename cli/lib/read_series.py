"""The reads of tables in a file: the answer of a server that measures them, by time.

{"BucketMs": 60000, "Parts": [{"TableName": "Orders", "IndexName"?: "states",
                               "Reads": {"Buckets": [{"Time": 1795000000000, "Rows": [12.5, 3]}]}}]}

A part is a table or an index, and the rows of a bucket are the read units of its key ranges. Reads are not in the log,
and a server measures them in a bounded sketch: so all figures from them are estimates.
"""

import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from .errors import CommandError, ExitCode


class ReadSeries(NamedTuple):
    """The reads of a table or an index.

    Attributes:
        bucket_ms: The length of a bucket.
        units: The read units of each bucket by the time of its begin, in this order.
    """

    bucket_ms: int
    units: Mapping[int, Decimal]


Reads: TypeAlias = Mapping[tuple[str, str | None], ReadSeries]
"""The series by the names of the table and the index; None for the table itself."""


def read_series(path: Path) -> Reads:
    """Read a file.

    Raises:
        CommandError: The file has another form.
    """
    try:
        found = json.loads(path.read_text("utf-8", errors="replace"), parse_float=Decimal)
        bucket_ms = int(found["BucketMs"])
        reads = {
            (str(part["TableName"]), part.get("IndexName")): ReadSeries(bucket_ms, _units(part["Reads"]))
            for part in found["Parts"]
        }
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError) as error:
        raise CommandError(
            f"{path} has no reads of tables: it is JSON with BucketMs and Parts", ExitCode.USAGE
        ) from error
    if bucket_ms < 1000:
        raise CommandError(f"{path}: BucketMs is less than 1000", ExitCode.USAGE)
    return reads


def _units(reads: Mapping[str, Any]) -> dict[int, Decimal]:
    each = {int(bucket["Time"]): sum(map(Decimal, bucket["Rows"]), Decimal()) for bucket in reads["Buckets"]}
    return dict(sorted(each.items()))
