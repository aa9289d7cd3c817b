"""Every released history of several partitions folds to its recorded states."""

from pathlib import Path

import pytest

from foldb.log.codec import schema_files
from foldb.log.commands import Relay
from foldb.log.local import LocalLog
from tests.unit.log.generate_golden import number
from tests.unit.materializer.partitions.generate_golden import GOLDEN, digests


def test_every_schema_with_partitions_has_a_golden_history() -> None:
    released = [number(known) for known in schema_files()]

    assert released[1:] == sorted(path.name for path in GOLDEN.iterdir())


@pytest.mark.parametrize("folder", sorted(GOLDEN.iterdir()), ids=lambda folder: folder.name)
@pytest.mark.parametrize("reloads", [0, 3])
def test_a_golden_history_folds_to_its_recorded_digest(folder: Path, reloads: int) -> None:
    """Also with dumps and loads in between."""
    assert (folder / "digests").read_text() == digests(LocalLog.open_reader(folder), reloads)


@pytest.mark.parametrize("folder", sorted(GOLDEN.iterdir()), ids=lambda folder: folder.name)
def test_a_golden_history_has_messages_of_every_kind(folder: Path) -> None:
    log = LocalLog.open_reader(folder)
    records = (record for partition in range(log.genesis(0).partitions) for record in log.read(partition))
    relays = (
        command for record in records for command in record.entry.commands if isinstance(command, Relay)
    )

    expected = {
        "Defined",
        "DefinitionApplied",
        "IndexEntry",
        "IndexSent",
        "IndexFilled",
        "Prepare",
        "Vote",
        "Decide",
        "Decided",
    } | ({"Commit"} if folder.name >= "003" else set())
    assert expected <= {type(relay.message).__name__ for relay in relays}
