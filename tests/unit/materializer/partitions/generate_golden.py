"""Makes the golden history of a new schema, once, when it is released: python
tests/unit/materializer/partitions/generate_golden.py

    golden/<number>/00000000000000000000.avro, mark      a log of several partitions, as this version writes it
    golden/<number>/digests                              of the states that they fold to, by partition

A golden history is never removed: it verifies that later versions fold this version's log to the same states.
"""

import heapq
import sys
from dataclasses import replace
from pathlib import Path

from foldb.log.codec import CURRENT
from foldb.log.commands import Record
from foldb.log.local import LocalLog
from foldb.log.local.reader import LogReader

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[4]))

from tests.unit.log.generate_golden import number
from tests.unit.log.local_logs import Inline
from tests.unit.materializer.partitions.cluster import LOG_ID
from tests.unit.materializer.partitions.life import Life
from tests.unit.materializer.random_log import fold_all

GOLDEN = Path(__file__).parent / "golden"
SEED, STEPS = 17, 400
SALT = b"salt of an entry"


def digests(log: LocalLog | LogReader, reloads: int = 0) -> str:
    """Return the digest of each partition's state, one per line."""
    partitions = range(log.genesis(0).partitions)
    return "".join(fold_all(list(log.read(partition)), reloads)[0] + "\n" for partition in partitions)


def main() -> None:
    folder = GOLDEN / number(CURRENT)
    if folder.exists():
        raise SystemExit(f"{folder} is there already: a golden history is never made again")
    life = Life(SEED, skew_ms=0)
    life.live(STEPS)
    records = list(heapq.merge(*(records[1:] for records in life.cluster.records), key=_time))
    times = iter([*[records[0].time] * life.cluster.partitions, *map(_time, records)])
    log = LocalLog(
        folder,
        clock=lambda: next(times),
        deliver=lambda callback: callback(),
        random_bytes=lambda size: LOG_ID[:size],
        on_fatal=lambda error: None,
        background=Inline(),
        partitions=life.cluster.partitions,
    )
    for record in records:  # the log has its own Geneses
        entry = record.entry
        log.append(
            record.partition,
            replace(entry, entry_number=entry.entry_number - 1, salt=SALT),
            lambda result: None,
        )
    (folder / "digests").write_text(digests(log))
    log.close()
    (folder / "lock").unlink()


def _time(record: Record) -> int:
    return record.time


if __name__ == "__main__":
    main()
