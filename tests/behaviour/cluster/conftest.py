from tests.support.broker import kafka

__all__ = ["kafka"]
