"""Every released history folds to its recorded state."""

from pathlib import Path

import pytest

from foldb.log.codec import schema_files
from foldb.log.local import LocalLog
from tests.unit.log.generate_golden import number
from tests.unit.materializer.generate_golden import GOLDEN
from tests.unit.materializer.random_log import fold_all


def test_every_released_schema_has_a_golden_history() -> None:
    assert [number(known) for known in schema_files()] == sorted(path.name for path in GOLDEN.iterdir())


@pytest.mark.guarantee("G18")
@pytest.mark.parametrize("folder", sorted(GOLDEN.iterdir()), ids=lambda folder: folder.name)
@pytest.mark.parametrize("reloads", [0, 3])
def test_a_golden_history_folds_to_its_recorded_digest(folder: Path, reloads: int) -> None:
    """Also with dumps and loads in between."""
    records = list(LocalLog.open_reader(folder).read(0))

    assert (folder / "digest").read_text() == fold_all(records, reloads)[0] + "\n"
