"""The operations of DynamoDB Streams, a service of its own beside DynamoDB, one a file.

    ListStreams ──► a stream ──► DescribeStream ──► a shard ──► GetShardIterator ──► a place in it ──► GetRecords ──┐
                                                                                          └──────────── the next ◄──┘

known.py tells which streams there are, iterators.py what a place looks like on the wire.
"""

from ....node import Handler
from .describe_stream import describe_stream
from .get_records import get_records
from .get_shard_iterator import get_shard_iterator
from .list_streams import list_streams

# As X-Amz-Target names them behind `DynamoDBStreams_20120810.`.
STREAMS: dict[str, Handler] = {
    "DescribeStream": describe_stream,
    "GetRecords": get_records,
    "GetShardIterator": get_shard_iterator,
    "ListStreams": list_streams,
}
