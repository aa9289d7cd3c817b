"""Makes the golden trimmed log, once, when the form of foundations is released: python
tests/unit/materializer/trim/generate_golden.py

    golden/1/00000000000000000NNN.avro, mark     the kept segments
    golden/1/foundation/                         one copy of the foundation; the other has the same bytes
    golden/1/digest                              of the state at the end

It is never removed: it verifies that later versions read the foundations of this one.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[4]))

from foldb.log.local.foundation import FOLDERS
from tests.unit.log.fake_disk import FakeDisk
from tests.unit.log.local_logs import FOLDER
from tests.unit.materializer.trim.trims import ENTRIES, digest_of, filled, trim

GOLDEN = Path(__file__).parent / "golden" / "1"


def main() -> None:
    if GOLDEN.exists():
        raise SystemExit(f"{GOLDEN} is there already: a golden log is never made again")
    (GOLDEN / FOLDERS[0]).mkdir(parents=True)
    disk = FakeDisk()
    log = filled(disk)
    trim(log, disk, len(ENTRIES))
    (GOLDEN / "digest").write_text(digest_of(log) + "\n")
    log.close()
    for path, node in disk.names_cached.items():
        if path.parent in (FOLDER, FOLDER / FOLDERS[0]) and path.name != "lock":
            (GOLDEN / path.relative_to(FOLDER)).write_bytes(node.cached)


if __name__ == "__main__":
    main()
