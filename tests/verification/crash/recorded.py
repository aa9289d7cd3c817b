"""Records a long run in the reliability ledger, whether it succeeded or failed."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.write_ledger import Ledger
from tests.verification.reliability import record


@contextmanager
def recorded(test: str, seed: int, ledger: Ledger) -> Iterator[Counter[str]]:
    """Record the faults of a block, which counts them by kind in the yielded counter."""
    faults: Counter[str] = Counter()
    failures = 1
    try:
        yield faults
        failures = 0
    finally:
        record(
            test=test,
            seeds=str(seed),
            cycles=faults.total(),
            faults=faults,
            acknowledged=ledger.answers["acknowledged"],
            checked=ledger.answers.total(),
            failures=failures,
        )
