from tests.broker import kafka

__all__ = ["kafka"]
