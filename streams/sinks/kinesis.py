"""A Kinesis data stream as a destination of a table's changes: a topic of Kafka, or a folder where there is none.

    {"Kind": "kinesis", "StreamArn": "arn:aws:kinesis:us-east-1:000000000000:stream/orders"}

    topic     <prefix>.kinesis.orders, keyed as the kind kafka does, in Kinesis's JSON or in Avro
    folder    <data>/kinesis/orders/date=2026-11-20/..., JSON Lines

What EnableKinesisStreamingDestination makes is a subscription with this sink. Several tables may share a stream.
"""

import re
from typing import Any, Final

from ...model.errors import ValidationError
from ..formats import avro, kinesis
from ..formats.lines import KinesisLines
from ..formats.table_view import Delivery
from .dated_folders import DatedFolders
from .file import FolderSink, data_folder
from .sink import Sink, SinkContext
from .sink_settings import Members

PRECISIONS: Final[tuple[kinesis.Precision, ...]] = ("MILLISECOND", "MICROSECOND")
FORMATS: Final = ("json", "avro")

_ARN: Final = re.compile(r"arn:aws[a-z-]*:kinesis:[a-z0-9-]+:\d{12}:stream/(?P<name>[A-Za-z0-9_.-]{1,128})")


def check(settings: dict[str, Any]) -> None:
    """Refuse what names no stream."""
    members = Members(settings, "kinesis")
    stream_name(members.text("StreamArn"))
    members.choice("ApproximateCreationDateTimePrecision", PRECISIONS, PRECISIONS[0])
    members.choice("Format", FORMATS, FORMATS[0])
    members.end()


def stream_name(arn: str) -> str:
    """The name of the stream.

    >>> stream_name("arn:aws:kinesis:us-east-1:000000000000:stream/orders")
    'orders'
    """
    match = _ARN.fullmatch(arn)
    if match is None or match["name"] in (".", ".."):
        raise ValidationError("Sink.StreamArn must be like arn:aws:kinesis:REGION:ACCOUNT:stream/NAME")
    return match["name"]


def make(settings: dict[str, Any], surroundings: SinkContext) -> Sink:
    """A sink for the stream, wherever streams are kept here."""
    name = stream_name(settings["StreamArn"])
    precision: kinesis.Precision = settings.get("ApproximateCreationDateTimePrecision", PRECISIONS[0])
    if surroundings.destinations is None:
        root = data_folder(surroundings) / "kinesis" / name
        lines = KinesisLines(precision)
        folders = DatedFolders(surroundings.disk, root, lines, surroundings.instance, by_table=False)
        return FolderSink(settings, surroundings, folders)
    # Kafka's client takes an eighth of a second to load, and a folder needs none.
    from .kafka import PARTITIONS, TopicSink, headers, key
    from .topics import Message

    is_avro = settings.get("Format") == "avro"

    def message(prefix: str, delivery: Delivery, *, replay: bool) -> Message:
        value = avro.message(delivery) if is_avro else kinesis.record(delivery, precision)
        told = headers(delivery, replay=replay)
        return Message(f"{prefix}.kinesis.{name}", key(delivery), value, told, delivery.change.time)

    return TopicSink(settings, surroundings, message, PARTITIONS)
