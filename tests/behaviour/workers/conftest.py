from tests.unit.streams.workers.conftest import folder

__all__ = ["folder"]
