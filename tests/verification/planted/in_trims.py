"""Bugs of trims: acknowledged records that are lost, and removed ones that are not."""

from tests.verification.planted.bug import bug

TRIM = "tests/unit/materializer/trim/test_trim.py"
CRASHES = "tests/unit/materializer/trim/test_crash.py"
CHANGES = "tests/unit/streams/feed/test_change_store.py"

BUGS = [
    bug(
        "the foundation in force is removed with the earlier ones",
        """
@ log/local/foundation.py
     for copy in FOLDERS:
-        remove_unused(disk, folder / copy, foundation.sequence)
+        remove_unused(disk, folder / copy, None)
     return removed
""",
        TRIM,
    ),
    bug(
        "a fold of a trimmed log begins without its base",
        """
@ materializer/foundation.py
             with no_collections():
                 state = load_state(read_head(file))
+            state = PartitionState(partition=partition, next_offset=begin)
""",
        TRIM,
    ),
    bug(
        "segments are removed before the names of the foundation are synced",
        """
@ log/local/foundation.py
         disk.rename(_unnamed_head(folder, copy, foundation.sequence), named)
-        disk.sync_folder(folder / copy)
""",
        CRASHES,
    ),
    bug(
        "a segment is removed that the archive does not have",
        """
@ materializer/trim.py
         if job.archive is not None:
-            _archive(disk, part, header, job.archive)
+            pass
""",
        TRIM,
    ),
    bug(
        "a record that was voided after the cut is in the base",
        """
@ materializer/trim.py
-    voids = [frozenset(state.voided) for state in ends]
+    voids: Voids = [frozenset() for state in ends]
""",
        TRIM,
    ),
    bug(
        "a history looks for a trim before it looks at the log",
        """
@ materializer/history/epochs.py
-        return has_more or self._log.begin(self._partition) != self._begin
+        return has_more
""",
        "tests/behaviour/cli/test_trim.py::test_a_deleted_token_is_in_no_part_after_a_trim",
    ),
    bug(
        "a server does not announce its trim to the histories",
        """
@ server/partitions/retention.py
-        self._on_removed()
+        assert self._on_removed
""",
        "tests/behaviour/cli/test_trim.py::test_a_deleted_token_is_in_no_part_after_a_trim",
    ),
    bug(
        "a trim passes the checkpoint of a subscription",
        """
@ materializer/trim.py
-        bounds.append(Bound(TrimCut(time_ms, offsets), reason))
     return bounds
""",
        "tests/unit/materializer/trim/test_bounds.py",
    ),
    bug(
        "the newest file of changes keeps those of trimmed records",
        """
@ streams/feed/segments.py
-        if not blocks:
+        if not blocks or count + 1 == len(self._segments):
             return self._removal(count, None)
""",
        CHANGES,
    ),
    bug(
        "changes are removed before the durable offset is written",
        """
@ streams/feed/change_store.py
                 extents[table] = each.extent_without(removals[table])
+                each.remove(removals.pop(table))
""",
        CHANGES,
    ),
    bug(
        "a start does not know the shard of removed changes",
        """
@ streams/feed/segments.py
         shard = () if begun is None else (begun.sequence_number, begun.stream, begun.period)
-        return Extent(oldest.after, newest.after, newest.size, self.last, *shard)
+        return Extent(oldest.after, newest.after, newest.size, self.last, *shard[:0])
""",
        CHANGES,
    ),
]
