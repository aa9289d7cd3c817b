"""The tables of a time series: one for each month, week or day, named after it.

    Events_2026_11        month
    Events_2026_W47       week: the ISO 8601 week, which belongs to the year of its Thursday
    Events_2026_11_23     day

The names of one kind of period sort as the periods do. Periods are in UTC.

    roll: the newest table up to now ──► a table for this period and for the next, if they are missing
          tables of past periods     ──► less throughput, if they have more
"""

import re
from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from ...model.lazy_dataclass import dataclass
from .definitions import index_units, provisioned, request_like, units_of
from .errors import CommandError, ExitCode

Every: TypeAlias = Literal["month", "week", "day"]

_FORMS: Final = {"month": "%Y_%m", "week": "%G_W%V", "day": "%Y_%m_%d"}
_NAMES: Final[dict[Every, re.Pattern[str]]] = {
    "month": re.compile(r"[0-9]{4}_[0-9]{2}"),
    "week": re.compile(r"[0-9]{4}_W[0-9]{2}"),
    "day": re.compile(r"[0-9]{4}_[0-9]{2}_[0-9]{2}"),
}


@dataclass(frozen=True, slots=True)
class Period:
    """The period of a kind that has a day.

    >>> Period("month", date(2026, 12, 31)).table("Events"), Period("month", date(2026, 12, 31)).next().table("Events")
    ('Events_2026_12', 'Events_2027_01')
    >>> Period("week", date(2026, 12, 31)).table("Events"), Period("week", date(2026, 12, 31)).next().table("Events")
    ('Events_2026_W53', 'Events_2027_W01')
    """

    every: Every
    day: date

    def table(self, series: str) -> str:
        """Return the name of the table of this period."""
        return f"{series}_{self.day.strftime(_FORMS[self.every])}"

    def next(self) -> "Period":
        """Return the period after this one."""
        days = {"day": 1, "week": 7}.get(self.every)
        if days is not None:
            return Period(self.every, self.day + timedelta(days=days))
        return Period(self.every, (self.day.replace(day=28) + timedelta(days=4)).replace(day=1))


class PastUnits(NamedTuple):
    """The most units that tables of past periods keep. None keeps the reads."""

    read: int | None
    write: int

    def lowered(self, units: tuple[int, int]) -> tuple[int, int]:
        """Return units that are at most these."""
        read, write = units
        return min(read, read if self.read is None else self.read), min(write, self.write)


def missing_tables(period: Period, series: str, names: list[str]) -> tuple[str, list[str]]:
    """Return the table whose definition new tables get, and the missing tables of the period and the next one."""
    current, following = period.table(series), period.next().table(series)
    source = max((name for name in names if name <= current), default=names[0])
    return source, [name for name in (current, following) if name not in names]


def no_series_error(period: Period, series: str, names: Iterable[str]) -> CommandError:
    """Return the error for a series without tables of the kind of period, with the likely mistake in a name."""
    everything = list(names)
    for every, form in _NAMES.items():
        if tables_of(series, every, everything):
            step = f"its tables are by {every}: give --every {every}"
            break
        if match := re.fullmatch(rf"(.+)_{form.pattern}", series):
            step = f"give the name before the period, `foldb table roll {match[1]} --every {every}`"
            break
    else:
        step = f"create the first one, `foldb table create {period.table(series)} KEY:TYPE`"
    return CommandError(
        f"there is no table of the series {series} by {period.every}: {step}", ExitCode.NOT_FOUND
    )


def table_like(description: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the CreateTable request for the next table of a series: the definition and settings of a described one."""
    request = request_like(description, name)
    for member in ("StreamSpecification", "DeletionProtectionEnabled", "OnDemandThroughput"):
        if member in description:
            request[member] = description[member]
    if "TableClassSummary" in description:
        request["TableClass"] = description["TableClassSummary"]["TableClass"]
    if "SSEDescription" in description:
        key = description["SSEDescription"]["KMSMasterKeyArn"]
        request["SSESpecification"] = {"Enabled": True, "SSEType": "KMS", "KMSMasterKeyId": key}
    return request


def lower_request(description: Mapping[str, Any], past: PastUnits) -> dict[str, Any]:
    """Return the UpdateTable request that lowers a table and its indexes. {} if none has more units."""
    request: dict[str, Any] = {}
    lowered = past.lowered(units_of(description))
    if lowered != units_of(description):
        request["ProvisionedThroughput"] = provisioned(lowered)
    updates = [
        index_units(index["IndexName"], past.lowered(units_of(index)))
        for index in description.get("GlobalSecondaryIndexes", ())
        if past.lowered(units_of(index)) != units_of(index)
    ]
    if updates:
        request["GlobalSecondaryIndexUpdates"] = updates
    return request


def tables_of(series: str, every: Every, names: Iterable[str]) -> list[str]:
    """Return the tables of a series, in the order of their periods.

    >>> tables_of("Events", "month", ["Events_2026_11", "Events_2026_09", "Events_2026_11_23", "Others_2026_10"])
    ['Events_2026_09', 'Events_2026_11']
    """
    start = f"{series}_"
    return sorted(
        name for name in names if name.startswith(start) and _NAMES[every].fullmatch(name[len(start) :])
    )
