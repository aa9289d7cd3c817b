"""Fixtures of the tests of local logs."""

import pytest


@pytest.fixture(params=[False, True], ids=["the thread writes", "the disk process writes"])
def both_writers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test twice: with a log that writes itself, and with one that has a disk process."""
    monkeypatch.setattr("tests.unit.log.local_logs.has_disk_writer", request.param)
