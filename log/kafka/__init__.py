"""The log in Apache Kafka: one topic, its clients, and what is checked before either is trusted."""

from .client import Clients
from .log import KafkaLog
from .reader import KafkaReader
from .settings import Address, Security

__all__ = ["Address", "Clients", "KafkaLog", "KafkaReader", "Security"]
