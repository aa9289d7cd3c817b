"""All planted bugs, and known ones that cannot be planted yet."""

from tests.verification.planted import (
    at_the_gate,
    in_clusters,
    in_commands,
    in_exports,
    in_history,
    in_isolation,
    in_jobs,
    in_partitions,
    in_past_reads,
    in_policies,
    in_snapshots,
    in_table_commands,
    in_the_feed,
    in_the_fold,
    in_the_log,
    in_throttling,
    in_transactions,
    in_trims,
    in_undo,
    in_usage,
    in_values,
    in_workers,
    under_faults,
)

BUGS = [
    *in_the_log.BUGS,
    *in_snapshots.BUGS,
    *in_the_fold.BUGS,
    *in_values.BUGS,
    *in_transactions.BUGS,
    *in_throttling.BUGS,
    *in_trims.BUGS,
    *in_undo.BUGS,
    *in_usage.BUGS,
    *in_table_commands.BUGS,
    *in_exports.BUGS,
    *in_workers.BUGS,
    *in_partitions.BUGS,
    *in_clusters.BUGS,
    *in_commands.BUGS,
    *in_the_feed.BUGS,
    *in_history.BUGS,
    *in_isolation.BUGS,
    *in_jobs.BUGS,
    *in_past_reads.BUGS,
    *in_policies.BUGS,
    *at_the_gate.BUGS,
    *under_faults.BUGS,
]

# Bugs of parts that do not exist yet.
NOT_YET = {
    "an index that is written outside the partition's own step": "each index is written with its item",
}
