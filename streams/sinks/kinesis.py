"""A Kinesis data stream as a table's destination: a topic of Kafka, or a folder if the server has no brokers.

    {"Kind": "kinesis", "StreamArn": "arn:aws:kinesis:us-east-1:000000000000:stream/orders"}

    topic     <prefix>.kinesis.orders, with the keys of the kind kafka, in Kinesis's JSON or in Avro
    folder    <data>/kinesis/orders/date=2026-11-20/..., JSON Lines

EnableKinesisStreamingDestination creates a subscription with this sink. Several tables may share a stream.
"""

import re
from typing import Any, Final

from ...model.errors import ValidationError
from ...model.subscriptions.setting_types import OneOf, Text
from ...model.subscriptions.settings import BYTES_MAX
from ..formats import avro, kinesis
from ..formats.lines import KinesisLines
from ..formats.table_view import Delivery
from .dated_folders import DatedFolders
from .file import FolderSink, data_folder
from .kafka import PARTITIONS
from .kind import SinkKind, SinkSetting
from .sink import Sink, SinkContext

PRECISIONS: Final[tuple[kinesis.Precision, ...]] = ("MILLISECOND", "MICROSECOND")
FORMATS: Final = ("json", "avro")

_ARN: Final = re.compile(r"arn:aws[a-z-]*:kinesis:[a-z0-9-]+:\d{12}:stream/(?P<name>[A-Za-z0-9_.-]{1,128})")
_PRECISION: Final = "ApproximateCreationDateTimePrecision"


def stream_name(arn: str) -> str:
    """Return the name of a stream.

    >>> stream_name("arn:aws:kinesis:us-east-1:000000000000:stream/orders")
    'orders'

    Raises:
        ValidationError: The ARN is not a stream's.
    """
    match = _ARN.fullmatch(arn)
    if match is None or match["name"] in (".", ".."):
        raise ValidationError("Sink.StreamArn must be like arn:aws:kinesis:REGION:ACCOUNT:stream/NAME")
    return match["name"]


def make(settings: dict[str, Any], context: SinkContext) -> Sink:
    """Return a sink that writes the stream's topic, or its folder."""
    name = stream_name(settings["StreamArn"])
    precision: kinesis.Precision = KIND.value(settings, _PRECISION)
    if context.destinations is None:
        root = data_folder(context) / "kinesis" / name
        folders = DatedFolders(context.disk, root, KinesisLines(precision), context.instance, by_table=False)
        return FolderSink(settings, context, folders)
    # Kafka's client takes an eighth of a second to load, and a folder does not need it.
    from .topics import TopicMessage, TopicSink, headers, key

    is_avro = KIND.value(settings, "Format") == "avro"

    def message(prefix: str, delivery: Delivery, *, replay: bool) -> TopicMessage:
        value = avro.message(delivery) if is_avro else kinesis.record(delivery, precision)
        topic = f"{prefix}.kinesis.{name}"
        return TopicMessage(
            topic, key(delivery), value, headers(delivery, replay=replay), delivery.change.time
        )

    return TopicSink(settings, context, message, PARTITIONS)


KIND: Final = SinkKind(
    name="kinesis",
    help="Kinesis data stream; EnableKinesisStreamingDestination creates it.",
    settings=(
        SinkSetting("StreamArn", Text(BYTES_MAX)),
        SinkSetting(_PRECISION, OneOf(PRECISIONS), PRECISIONS[0]),
        SinkSetting("Format", OneOf(FORMATS), FORMATS[0]),
    ),
    verify=lambda sink: stream_name(sink["StreamArn"]),
    make=make,
    acts_outside=True,
    writes="streams",
)
