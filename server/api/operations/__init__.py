"""The DynamoDB operations, one a file, each a function named like its file."""

from ...node import Handler
from .batch_get_item import batch_get_item
from .batch_write_item import batch_write_item
from .create_table import create_table
from .delete_item import delete_item
from .delete_table import delete_table
from .describe_continuous_backups import describe_continuous_backups
from .describe_endpoints import describe_endpoints
from .describe_limits import describe_limits
from .describe_table import describe_table
from .describe_time_to_live import describe_time_to_live
from .get_item import get_item
from .kinesis import (
    describe_kinesis_streaming_destination,
    disable_kinesis_streaming_destination,
    enable_kinesis_streaming_destination,
    update_kinesis_streaming_destination,
)
from .list_tables import list_tables
from .list_tags_of_resource import list_tags_of_resource
from .put_item import put_item
from .query import query
from .scan import scan
from .tag_resource import tag_resource
from .transact_get_items import transact_get_items
from .transact_write_items import transact_write_items
from .untag_resource import untag_resource
from .update_continuous_backups import update_continuous_backups
from .update_item import update_item
from .update_table import update_table
from .update_time_to_live import update_time_to_live

# The name that X-Amz-Target gives, and what answers to it. Any other name is an UnknownOperationException.
OPERATIONS: dict[str, Handler] = {
    "BatchGetItem": batch_get_item,
    "BatchWriteItem": batch_write_item,
    "CreateTable": create_table,
    "DeleteItem": delete_item,
    "DeleteTable": delete_table,
    "DescribeContinuousBackups": describe_continuous_backups,
    "DescribeEndpoints": describe_endpoints,
    "DescribeKinesisStreamingDestination": describe_kinesis_streaming_destination,
    "DescribeLimits": describe_limits,
    "DescribeTable": describe_table,
    "DescribeTimeToLive": describe_time_to_live,
    "DisableKinesisStreamingDestination": disable_kinesis_streaming_destination,
    "EnableKinesisStreamingDestination": enable_kinesis_streaming_destination,
    "GetItem": get_item,
    "ListTables": list_tables,
    "ListTagsOfResource": list_tags_of_resource,
    "PutItem": put_item,
    "Query": query,
    "Scan": scan,
    "TagResource": tag_resource,
    "TransactGetItems": transact_get_items,
    "TransactWriteItems": transact_write_items,
    "UntagResource": untag_resource,
    "UpdateContinuousBackups": update_continuous_backups,
    "UpdateItem": update_item,
    "UpdateKinesisStreamingDestination": update_kinesis_streaming_destination,
    "UpdateTable": update_table,
    "UpdateTimeToLive": update_time_to_live,
}
