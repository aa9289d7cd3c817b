"""A sink that writes one message per change to topics of Kafka.

    {"Kind": "kafka", "Topic": "orders", "Format": "plain"}

    topic     <prefix>.<Topic>, or <prefix>.feed.<table> without a Topic; created if it does not exist
    key       the item's key in DynamoDB JSON, so all changes of an item are in one partition, in order
    value     plain, Kinesis's JSON, Debezium's envelope, or Avro
    headers   id, number, position, table, op; tx for a change of a transaction, replay for a replayed change

Brokers and prefix are the operator's choice (`foldb serve --kafka-sink`), never a subscription's. A change is written
at least once, each time with the same id and sequence number.
"""

import re
from typing import Any, Final

from ...model.errors import ValidationError
from ...model.subscriptions.setting_types import Int, OneOf, Text
from ...model.subscriptions.settings import BYTES_MAX
from ..formats import avro, debezium, kinesis
from ..formats.plain import plain
from ..formats.table_view import Delivery
from .kind import SinkKind, SinkSetting
from .sink import Sink, SinkContext

FORMATS: Final = ("plain", "kinesis", "debezium", "avro")
PARTITIONS: Final = 8

_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,200}")
# The topic of the log: the prefix may be a log's namespace.
_LOG: Final = "log"


def make(settings: dict[str, Any], context: SinkContext) -> Sink:
    """Return a sink for the operator's brokers.

    Raises:
        ValidationError: The server has no brokers.
    """
    # Kafka's client takes an eighth of a second to load; the declaration below does not need it.
    from .topics import TopicMessage, TopicSink, headers, key

    form, topic = KIND.value(settings, "Format"), settings.get("Topic")

    def message(prefix: str, delivery: Delivery, *, replay: bool) -> TopicMessage:
        name = f"{prefix}.{topic}" if topic else f"{prefix}.feed.{delivery.table.name}"
        match form:
            case "kinesis":
                value = kinesis.record(delivery)
            case "debezium":
                value = debezium.envelope(delivery, context.clock())
            case "avro":
                value = avro.message(delivery)
            case _:
                value = plain(delivery, replay=replay)
        return TopicMessage(
            name, key(delivery), value, headers(delivery, replay=replay), delivery.change.time
        )

    return TopicSink(settings, context, message, KIND.value(settings, "Partitions"))


def _verify(sink: dict[str, Any]) -> None:
    topic = sink.get("Topic")
    if topic is not None and (not _TOPIC.fullmatch(topic) or topic == _LOG):
        raise ValidationError(
            f"Sink.Topic must be letters, digits, '.', '_' and '-', at most 200, and not {_LOG!r}"
        )


KIND: Final = SinkKind(
    name="kafka",
    flag="--kafka",
    metavar="TOPIC",
    help="Topic of Kafka, in the brokers of `foldb serve --kafka-sink`.",
    example="orders",
    flag_member="Topic",
    settings=(
        SinkSetting("Topic", Text(BYTES_MAX), None),
        SinkSetting("Format", OneOf(FORMATS), FORMATS[0]),
        SinkSetting("Partitions", Int(1, 1000), PARTITIONS),
    ),
    verify=_verify,
    make=make,
    acts_outside=True,
    writes="topics",
)
