"""Foundations of earlier releases are read for ever."""

import shutil
from hashlib import blake2b
from pathlib import Path

import pytest

from foldb.log.local.filesystem import SystemFilesystem
from foldb.log.local.foundation import FOLDERS, Foundation
from foldb.log.local.reader import LogReader
from foldb.model.errors import NewerVersionError
from tests.unit.log.local_logs import open_log
from tests.unit.materializer.trim.trims import digest_of

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("golden", sorted(GOLDEN.iterdir()), ids=lambda path: path.name)
def test_a_golden_foundation_gives_its_state(golden: Path, tmp_path: Path) -> None:
    """Its second copy is missing; a start writes it."""
    folder = tmp_path / "data"
    shutil.copytree(golden, folder)
    (folder / "digest").unlink()
    expected = (golden / "digest").read_text().strip()

    assert digest_of(LogReader(folder, SystemFilesystem())) == expected
    log = open_log(SystemFilesystem(), path=folder)
    assert digest_of(log) == expected
    log.close()
    copies = [{each.name: each.read_bytes() for each in (folder / copy).iterdir()} for copy in FOLDERS]
    assert copies[0] == copies[1]


def test_a_foundation_of_a_later_form_is_refused() -> None:
    [head] = (GOLDEN / "1" / FOLDERS[0]).glob("*.head")
    later = head.read_bytes().replace(b"foldb foundation 1\n", b"foldb foundation 2\n")
    check = blake2b(later[:-16], digest_size=16).digest()

    with pytest.raises(NewerVersionError, match="later format"):
        Foundation.decode(later[:-16] + check)
    with pytest.raises(ValueError, match="check does not match"):
        Foundation.decode(later)
