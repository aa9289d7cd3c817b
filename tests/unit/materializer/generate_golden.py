"""Makes the golden history of a new schema, once, when it is released: python
tests/unit/materializer/generate_golden.py

    golden/<number>/00000000000000000000.avro, mark      a log of all kinds of commands, as this version writes it
    golden/<number>/digest                               of the state that it folds to

A golden history is never removed: it verifies that later versions fold this version's log to the same state.
"""

import sys
from dataclasses import replace
from pathlib import Path

from foldb.log.codec import CURRENT
from foldb.log.local import LocalLog

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.unit.log.generate_golden import number, ticks
from tests.unit.log.local_logs import Inline
from tests.unit.materializer.random_log import fold_all, random_log

GOLDEN = Path(__file__).parent / "golden"
ENTRIES = 400
SALT = b"salt of an entry"


def main() -> None:
    folder = GOLDEN / number(CURRENT)
    if folder.exists():
        raise SystemExit(f"{folder} is there already: a golden history is never made again")
    log = LocalLog(
        folder,
        clock=ticks().__next__,
        deliver=lambda callback: callback(),
        random_bytes=lambda size: b"golden history  "[:size],
        on_fatal=lambda error: None,
        background=Inline(),
    )
    for record in random_log(seed=0, length=ENTRIES).records[1:]:  # the log has its own Genesis
        entry = record.entry
        log.append(0, replace(entry, entry_number=entry.entry_number - 1, salt=SALT), lambda result: None)
    (folder / "digest").write_text(fold_all(list(log.read(0)))[0] + "\n")
    log.close()
    (folder / "lock").unlink()


if __name__ == "__main__":
    main()
