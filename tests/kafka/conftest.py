"""What the tests of the log on Kafka ask for."""

from tests.broker import kafka

__all__ = ["kafka"]
