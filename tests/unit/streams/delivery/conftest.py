"""Coroutines of these tests run on virtual time."""

import pytest

from tests.conftest import RunAsync
from tests.unit.streams.delivery.virtual import run


@pytest.fixture
def run_async() -> RunAsync:
    return run
