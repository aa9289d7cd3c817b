"""The operations of DynamoDB. A file holds one, or a few of one subject, and declares each with its name and right."""

from ..operation_modules import OperationModules

# By module. An X-Amz-Target with another name is answered with an UnknownOperationException.
OPERATIONS = OperationModules(
    __name__,
    {
        "account": ("DescribeEndpoints", "DescribeLimits"),
        "backups": ("CreateBackup", "DeleteBackup", "DescribeBackup", "ListBackups"),
        "batch_execute_statement": ("BatchExecuteStatement",),
        "batch_get_item": ("BatchGetItem",),
        "batch_write_item": ("BatchWriteItem",),
        "bulk_operations": (
            "CancelBulkOperation",
            "DescribeBulkOperation",
            "ListBulkOperations",
            "StartBulkPutItems",
        ),
        "continuous_backups": ("DescribeContinuousBackups", "UpdateContinuousBackups"),
        "contributor_insights": (
            "DescribeContributorInsights",
            "ListContributorInsights",
            "UpdateContributorInsights",
        ),
        "execute_statement": ("ExecuteStatement",),
        "execute_transaction": ("ExecuteTransaction",),
        "exports": ("DescribeExport", "ExportTableToPointInTime", "ListExports"),
        "get_item": ("GetItem",),
        "global_tables": (
            "CreateGlobalTable",
            "DescribeGlobalTable",
            "DescribeGlobalTableSettings",
            "DescribeTableReplicaAutoScaling",
            "ListGlobalTables",
            "UpdateGlobalTable",
            "UpdateGlobalTableSettings",
            "UpdateTableReplicaAutoScaling",
        ),
        "imports": ("DescribeImport", "ImportTable", "ListImports"),
        "kinesis": (
            "DescribeKinesisStreamingDestination",
            "DisableKinesisStreamingDestination",
            "EnableKinesisStreamingDestination",
            "UpdateKinesisStreamingDestination",
        ),
        "put_item": ("PutItem",),
        "query": ("Query",),
        "resource_policies": ("DeleteResourcePolicy", "GetResourcePolicy", "PutResourcePolicy"),
        "restore_table": ("RestoreTableFromBackup", "RestoreTableToPointInTime"),
        "scan": ("Scan",),
        "tables": ("CreateTable", "DeleteTable", "DescribeTable", "ListTables", "UpdateTable"),
        "tags": ("ListTagsOfResource", "TagResource", "UntagResource"),
        "time_to_live": ("DescribeTimeToLive", "UpdateTimeToLive"),
        "transact_get_items": ("TransactGetItems",),
        "transact_write_items": ("TransactWriteItems",),
        "update_item": ("DeleteItem", "UpdateItem"),
    },
)
