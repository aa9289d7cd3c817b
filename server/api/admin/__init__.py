"""foldb's own operations, behind `Foldb_20261121.` in X-Amz-Target. Related ones share a file."""

from ..operation_modules import OperationModules

# By module.
ADMIN = OperationModules(
    __name__,
    {
        "alarms": ("DeleteAlarm", "DescribeAlarms", "PutAlarm"),
        "capacity_partitions": ("CapacityPartitions",),
        "changes": ("Changes",),
        "cluster": ("Cluster",),
        "dead_letters": ("DropDeadLetters", "EditDeadLetter", "ListDeadLetters", "RetryDeadLetters"),
        "digest": ("Digest",),
        "heat": ("Heat",),
        "history": ("ItemHistory", "TableDifferences"),
        "index_progress": ("IndexProgress",),
        "metrics": ("Metrics",),
        "partition": ("Partition",),
        "rebuild": ("Rebuild",),
        "restores": ("Fork", "Restore", "RestoreItems"),
        "status": ("Status",),
        "streams": ("Streams",),
        "subscriptions": (
            "CreateSubscription",
            "DescribeSubscription",
            "ListSubscriptions",
            "PauseSubscription",
            "RemoveSubscription",
            "ReplaySubscription",
            "ResetSubscription",
            "ResumeSubscription",
            "UpdateSubscription",
            "WaitForTriggers",
        ),
        "trim": ("Trim",),
        "undo": ("Undo",),
        "upgrade": ("Upgrade",),
        "wait": ("Wait",),
    },
)
