"""What tests of sinks ask for."""

from tests.support.broker import kafka

__all__ = ["kafka"]
