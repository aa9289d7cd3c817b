"""Fixtures of the tests of sinks."""

from tests.support.broker import kafka

__all__ = ["kafka"]
