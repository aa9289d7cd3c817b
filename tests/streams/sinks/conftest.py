"""What tests of sinks ask for."""

from tests.broker import kafka

__all__ = ["kafka"]
