"""The operations of DynamoDB Streams, which is a service of its own beside DynamoDB. Each has a file of its own.

    ListStreams ──► stream ──► DescribeStream ──► shard ──► GetShardIterator ──► iterator ──► GetRecords ──┐
                                                                                    └─── next iterator ◄───┘

stream_arns.py finds streams by ARN; iterators.py reads and writes shard iterators.
"""

from ...operation_modules import OperationModules

# By module, and by name behind `DynamoDBStreams_20120810.` in X-Amz-Target.
STREAMS = OperationModules(
    __name__,
    {
        "describe_stream": ("DescribeStream",),
        "get_records": ("GetRecords",),
        "get_shard_iterator": ("GetShardIterator",),
        "list_streams": ("ListStreams",),
    },
)
