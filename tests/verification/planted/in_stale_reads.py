"""Bugs in reads of an earlier state."""

from tests.verification.planted.bug import bug

MODEL = "tests/unit/materializer/test_lagging_partition.py"
SERVED = "tests/behaviour/spec/test_stale_reads.py"

BUGS = [
    bug(
        "a consistent read is stale",
        """
@ materializer/lagging_partition.py
-        if consistent or not self.of_tables.limit_ms:
-            super().get(table, pk, sk, consistent, done)
+        if not self.of_tables.limit_ms:
+            super().get(table, pk, sk, consistent, done)
""",
        MODEL,
    ),
    bug(
        "a page at a position is stale",
        """
@ materializer/lagging_partition.py
-        if request.consistent or request.fresh or not lag.limit_ms:
+        if request.consistent or not lag.limit_ms:
""",
        SERVED,
    ),
    bug(
        "a page over several partitions is never stale",
        """
@ server/routing/router.py
-        self._instant_of_any = None if lags else instant  # of pages that need not be current
+        self._instant_of_any = instant
""",
        SERVED,
    ),
    bug(
        "one partition has no lag",
        """
@ server/partitions/replica.py
-        if not settings.lags:
+        if not settings.lags or self.count == 1:
""",
        SERVED,
    ),
    bug(
        "indexes have the lag of tables",
        """
@ materializer/lagging_partition.py
-        lag = self.of_indexes if self._reads_global_index(request) else self.of_tables
+        lag = self.of_tables
""",
        MODEL,
    ),
    bug(
        "a wait does not wait for the lag",
        """
@ server/api/admin/wait.py
-        if lag_ms:
+        if not lag_ms:
""",
        SERVED,
    ),
    bug(
        "a read goes back too far",
        """
@ materializer/recent_images.py
-    return next((image for image in images if image.number > moment.number), None)
+    return next((image for image in images if image.number >= moment.number), None)
""",
        MODEL,
    ),
    bug(
        "a read shows the image before the last write",
        """
@ materializer/recent_images.py
-    return next((image for image in images if image.number > moment.number), None)
+    return next((image for image in reversed([*images]) if image.number > moment.number), None)
""",
        MODEL,
    ),
    bug(
        "images are forgotten that a read needs",
        """
@ materializer/recent_images.py
-        while len(moments) > 1 and moments[1].time_ms <= until_ms:
+        while len(moments) > 1 and moments[0].time_ms <= until_ms:
""",
        MODEL,
    ),
    bug(
        "a new index is filled before the eyes of its readers",
        """
@ materializer/recent_images.py
-            if not index.definition.backfilling:
+            if True or not index.definition.backfilling:
""",
        MODEL,
    ),
    bug(
        "a dropped store keeps its images",
        """
@ materializer/recent_images.py
-        for number in self._stores.keys() - readable.keys():
+        for number in set[int]():
""",
        MODEL,
    ),
    bug(
        "a page of a local index shows items of now",
        """
@ materializer/fold/reads.py
-        return [self._store] if self._items is None else [self._store, self._table.items]
+        return [self._store]
""",
        MODEL,
    ),
]
