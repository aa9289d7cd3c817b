"""What the tests of the log on Kafka ask for."""

from tests.support.broker import kafka

__all__ = ["kafka"]
