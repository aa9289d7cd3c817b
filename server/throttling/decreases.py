"""How often UpdateTable may lower provisioned throughput: four times a day (UTC), and then once an hour.

So a table is lowered at most 27 times a day: four times in its first hour, and once in each of the other 23. The table
and each global index have a limit of their own, and one request that exceeds any of them changes nothing. The log holds
the decreases, as NumberOfDecreasesToday and LastDecreaseDateTime, so a restart does not forget them.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from ...model.errors import LimitExceededError
from ...model.tables import TableDefinition, Throughput
from ...model.throughput import decreases_today

_FIRST: Final = 4
_INTERVAL_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _INTERVAL_MS


def check_decreases(before: TableDefinition, after: TableDefinition, time_ms: int) -> None:
    """Check the decreases of one UpdateTable.

    Raises:
        LimitExceededError: The table or an index was lowered too often.
    """
    if "PAY_PER_REQUEST" in (before.billing_mode, after.billing_mode):
        return
    for old, new in _throughputs(before, after):
        count = decreases_today(old, time_ms)
        last_ms = old.decreased_ms
        if last_ms is None or count < _FIRST or (new.read >= old.read and new.write >= old.write):
            continue
        next_ms = min(last_ms + _INTERVAL_MS, (last_ms // _DAY_MS + 1) * _DAY_MS)
        if time_ms < next_ms:
            raise LimitExceededError(
                "Subscriber limit exceeded: Provisioned throughput decreases are limited within a given UTC day. "
                f"After the first {_FIRST} decreases, each subsequent decrease in the same UTC day can be performed at "
                f"most once every {_INTERVAL_MS // 1000} seconds. Number of decreases today: {count}. "
                f"Last decrease at {_time(last_ms)}. Next decrease can be made at {_time(next_ms)}"
            )


def _throughputs(before: TableDefinition, after: TableDefinition) -> Iterator[tuple[Throughput, Throughput]]:
    """Return the former and the new throughput of the table, and of each index that has both."""
    yield before.throughput, after.throughput
    for index in before.indexes:
        kept = after.index(index.name)
        if kept is not None:
            yield index.throughput, kept.throughput


def _time(time_ms: int) -> str:
    """Return a time as DynamoDB writes it in this error."""
    time = datetime.fromtimestamp(time_ms // 1000, UTC)
    return f"{time:%A, %B} {time.day}, {time.year} at {time:%I:%M:%S %p} Coordinated Universal Time".replace(
        " at 0", " at "
    )
