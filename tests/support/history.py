"""Histories of servers in the process of pytest: their processes are forks, as those of served processes are."""

from collections.abc import Iterator

import pytest

from foldb.server.history import process
from tests.support.forks import start_history


@pytest.fixture(scope="module", autouse=True)
def forked_history() -> Iterator[None]:
    """For a folder's conftest.py. A start of the program takes 0.28 s of processor time, nearly all for imports."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "start_helper", start_history)
        yield
