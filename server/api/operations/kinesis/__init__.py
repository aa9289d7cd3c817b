"""The operations that send a table's changes on to a Kinesis data stream, one a file.

    Enable ──► a subscription with a sink of the kind kinesis      Update ──► its precision      Disable ──► it pauses

What DynamoDB calls a destination is such a subscription; destinations.py tells which ones there are.
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
