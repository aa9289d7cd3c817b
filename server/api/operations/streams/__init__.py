"""The operations of DynamoDB Streams, which is a service of its own beside DynamoDB. Each has a file of its own.

    ListStreams ──► stream ──► DescribeStream ──► shard ──► GetShardIterator ──► iterator ──► GetRecords ──┐
                                                                                    └─── next iterator ◄───┘

stream_arns.py finds streams by ARN; iterators.py reads and writes shard iterators.
"""

from ...operation import operations_in

# By name behind `DynamoDBStreams_20120810.` in X-Amz-Target.
STREAMS = operations_in(__name__, __path__)
