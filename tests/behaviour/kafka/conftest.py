"""Fixtures of the tests of the log on Kafka."""

from tests.support.broker import kafka

__all__ = ["kafka"]
