"""The operations that send a table's changes to a Kinesis data stream. Each has a file of its own.

    Enable ──► creates a subscription with a Kinesis sink    Update ──► changes its precision    Disable ──► pauses it

DynamoDB's "destination" is such a subscription; destinations.py finds them.
"""

from .describe_kinesis_streaming_destination import describe_kinesis_streaming_destination
from .disable_kinesis_streaming_destination import disable_kinesis_streaming_destination
from .enable_kinesis_streaming_destination import enable_kinesis_streaming_destination
from .update_kinesis_streaming_destination import update_kinesis_streaming_destination

__all__ = [
    "describe_kinesis_streaming_destination",
    "disable_kinesis_streaming_destination",
    "enable_kinesis_streaming_destination",
    "update_kinesis_streaming_destination",
]
