"""The operations of DynamoDB. A file holds one, or a few small ones, and declares name, handler and rights of each."""

from ..operation import Operation
from .account import describe_endpoints, describe_limits
from .batch_get_item import batch_get_item
from .batch_write_item import batch_write_item
from .continuous_backups import describe_continuous_backups, update_continuous_backups
from .create_table import create_table
from .delete_item import delete_item
from .delete_table import delete_table
from .describe_table import describe_table
from .get_item import get_item
from .kinesis import (
    describe_kinesis_streaming_destination,
    disable_kinesis_streaming_destination,
    enable_kinesis_streaming_destination,
    update_kinesis_streaming_destination,
)
from .list_tables import list_tables
from .put_item import put_item
from .query import query
from .scan import scan
from .tags import list_tags_of_resource, tag_resource, untag_resource
from .time_to_live import describe_time_to_live, update_time_to_live
from .transact_get_items import transact_get_items
from .transact_write_items import transact_write_items
from .update_item import update_item
from .update_table import update_table

# An X-Amz-Target with another name is answered with an UnknownOperationException.
OPERATIONS: dict[str, Operation] = {
    each.name: each
    for each in (
        batch_get_item,
        batch_write_item,
        create_table,
        delete_item,
        delete_table,
        describe_continuous_backups,
        describe_endpoints,
        describe_kinesis_streaming_destination,
        describe_limits,
        describe_table,
        describe_time_to_live,
        disable_kinesis_streaming_destination,
        enable_kinesis_streaming_destination,
        get_item,
        list_tables,
        list_tags_of_resource,
        put_item,
        query,
        scan,
        tag_resource,
        transact_get_items,
        transact_write_items,
        untag_resource,
        update_continuous_backups,
        update_item,
        update_kinesis_streaming_destination,
        update_table,
        update_time_to_live,
    )
}
