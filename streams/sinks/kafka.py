"""A sink that writes to topics of Kafka, a message a change.

    {"Kind": "kafka", "Topic": "orders", "Format": "plain"}

    topic     <prefix>.<Topic>, or <prefix>.feed.<table> where none is named; it is made if it is not there
    key       the item's key in DynamoDB JSON, so the changes of an item stand in one partition, in order
    value     plain, Kinesis's JSON, Debezium's envelope, or Avro
    headers   id, number, position, table, op; tx where it is part of a transaction, replay where it is told again

The brokers and the prefix are the operator's (`foldb serve --kafka-sink`), never a subscription's. A change is there
once, or again after a failure; it has the same id and number each time.
"""

from collections.abc import Callable
from typing import Any, Final

import orjson

from ...log.kafka import Address, Security
from ...model.errors import LogError, ValidationError
from ..formats import avro, debezium, kinesis
from ..formats.plain import plain
from ..formats.table_view import Delivery, event_id, operation
from .daemon_executor import apart
from .sink import Batch, DeliveryResult, Failure, PartialFailure, Sink, SinkContext, Success
from .sink_settings import Members, version_of
from .topics import NAME, Headers, Message, TopicError, Topics

FORMATS: Final = ("plain", "kinesis", "debezium", "avro")
PARTITIONS: Final = 8

# The log itself: a prefix may be a log's namespace.
_LOG: Final = "log"


def check(settings: dict[str, Any]) -> None:
    """Refuse what is no topic."""
    members = Members(settings, "kafka")
    if "Topic" in settings:
        _check_topic(members.text("Topic"))
    members.choice("Format", FORMATS, "plain")
    members.integer("Partitions", 1, 1000, PARTITIONS)
    members.end()


def make(settings: dict[str, Any], surroundings: SinkContext) -> Sink:
    """A sink for the brokers that the operator named."""
    kind, topic = settings.get("Format", "plain"), settings.get("Topic")

    def message(prefix: str, delivery: Delivery, *, replay: bool) -> Message:
        name = f"{prefix}.{topic}" if topic else f"{prefix}.feed.{delivery.table.name}"
        match kind:
            case "kinesis":
                value = kinesis.record(delivery)
            case "debezium":
                value = debezium.envelope(delivery, surroundings.clock())
            case "avro":
                value = avro.message(delivery)
            case _:
                value = plain(delivery, replay=replay)
        return Message(name, key(delivery), value, headers(delivery, replay=replay), delivery.change.time)

    return TopicSink(settings, surroundings, message, settings.get("Partitions", PARTITIONS))


class TopicSink:
    """Writes what `message` makes of each change of a batch."""

    def __init__(
        self,
        settings: dict[str, Any],
        surroundings: SinkContext,
        message: Callable[..., Message],
        partitions: int,
    ) -> None:
        if surroundings.destinations is None:
            raise ValidationError(
                "no brokers to write to: `foldb serve --kafka-sink kafka://HOST:PORT/PREFIX`"
            )
        self.version = version_of(settings)
        address = Address.of(surroundings.destinations)
        security = Security.read(surroundings.kafka, surroundings.kafka_variables)
        self._prefix = address.namespace
        self._topics = Topics(address, security, partitions)
        self._message = message
        self._timeout_s = surroundings.timeout_s
        self._loop = surroundings.loop

    async def start(self) -> None:
        """Reach the brokers."""
        await apart(self._loop, self._topics.open)

    async def deliver(self, batch: Batch) -> DeliveryResult:
        """Write the batch in a thread: neither its making nor a broker is waited for on the loop."""
        return await apart(self._loop, lambda: self._write(batch))

    async def close(self) -> None:
        """Leave the brokers."""
        await apart(self._loop, self._topics.close)

    def _write(self, batch: Batch) -> DeliveryResult:
        messages = [self._message(self._prefix, delivery, replay=batch.replay) for delivery in batch.changes]
        try:
            self._topics.write(messages, self._timeout_s)
        except TopicError as error:
            if error.refused is None:
                return Failure(str(error))
            refused = batch.changes[error.refused]
            return PartialFailure(refused.partition, refused.change.sequence_number, str(error))
        except LogError as error:
            return Failure(str(error))
        return Success()


def key(delivery: Delivery) -> bytes:
    """What brings the changes of an item into one partition of a topic."""
    change, table = delivery.change, delivery.table
    return table.key.write(change.pk, change.sk)


def headers(delivery: Delivery, *, replay: bool) -> Headers:
    """By which a reader knows a change, whatever its value is written in."""
    change = delivery.change
    told = [
        ("id", event_id(delivery).encode()),
        ("number", b"%d" % delivery.sequence_number),
        ("position", delivery.position.encode()),
        ("table", delivery.table.name.encode()),
        ("op", operation(change).encode()),
    ]
    if change.tx is not None:
        told.append(("tx", orjson.dumps(change.tx._asdict())))
    if replay:
        told.append(("replay", b"true"))
    return told


def _check_topic(topic: str) -> None:
    if not NAME.fullmatch(topic) or topic == _LOG:
        raise ValidationError(
            f"Sink.Topic must be letters, digits, '.', '_' and '-', at most 200, and not {_LOG!r}"
        )
