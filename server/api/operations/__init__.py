"""The operations of DynamoDB. A file holds one, or a few of one subject, and declares each with its name and right."""

from ..operation import operations_in
from . import (
    account,
    backups,
    batch_get_item,
    batch_write_item,
    continuous_backups,
    delete_item,
    get_item,
    kinesis,
    put_item,
    query,
    restore_table,
    scan,
    tables,
    tags,
    time_to_live,
    transact_get_items,
    transact_write_items,
    update_item,
)

# An X-Amz-Target with another name is answered with an UnknownOperationException.
OPERATIONS = operations_in(
    account,
    backups,
    batch_get_item,
    batch_write_item,
    continuous_backups,
    delete_item,
    get_item,
    kinesis,
    put_item,
    query,
    restore_table,
    scan,
    tables,
    tags,
    time_to_live,
    transact_get_items,
    transact_write_items,
    update_item,
)
