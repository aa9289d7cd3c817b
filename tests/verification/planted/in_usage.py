"""Bugs in the counters, the metrics and the alarms."""

from tests.verification.planted.bug import bug

COUNTS = "tests/unit/server/usage/test_counts.py"

BUGS = [
    bug(
        "a throttled batch counts twice",
        """
@ server/usage/counted_partition.py
-            elif len(keys) == 1:  # BatchGetItem reads each of several throttled items again
+            else:
""",
        COUNTS,
    ),
    bug(
        "a read of a position counts as a consistent one",
        """
@ server/usage/usage.py
-            self._read_sizes[consistent][size] += 1
+            self._read_sizes[True][size] += 1
""",
        COUNTS,
    ),
    bug(
        "a write counts the item after it alone",
        """
@ server/usage/usage.py
-                if before and before[1] > size:
-                    size = before[1]
""",
        COUNTS,
    ),
    bug(
        "a page of a global index counts for its table",
        """
@ server/usage/counted_partition.py
-            index = request.index if self._is_global(request) else None
+            index = None
""",
        COUNTS,
    ),
    bug(
        "a minute that ends leaves its samples",
        """
@ server/usage/usage.py
-        self._closed_samples += closed.samples
-        self.samples.clear()
+        self._closed_samples += closed.samples
""",
        COUNTS,
    ),
    bug(
        "sizes count again when they are settled",
        """
@ server/usage/usage.py
-        self._written_sizes.clear()
""",
        COUNTS,
    ),
]
