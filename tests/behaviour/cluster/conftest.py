import pytest

from tests.behaviour.cluster.peers import run
from tests.conftest import RunAsync
from tests.support.broker import kafka

__all__ = ["kafka"]


@pytest.fixture
def run_async() -> RunAsync:
    """Run a test on the server's event loop, for at most 20 seconds."""
    return run
