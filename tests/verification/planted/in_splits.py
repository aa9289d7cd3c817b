"""Bugs in splits of capacity partitions, and in the shards that split with them."""

from tests.verification.planted.bug import bug

MAP = "tests/unit/model/test_capacity_partitions.py"
FOLD = "tests/unit/materializer/test_splits.py"
SHARDS = "tests/unit/streams/feed/test_shard_splits.py"
PROPOSALS = "tests/unit/server/throttling/test_splits.py"

BUGS = [
    bug(
        "a boundary may be at the edge of its partition",
        """
@ model/capacity_partitions.py
-        if not partition.low < split.boundary < partition.high:
+        if not partition.low <= split.boundary <= partition.high:
""",
        MAP,
    ),
    bug(
        "a key at a boundary belongs to the left",
        """
@ model/capacity_partitions.py
-from bisect import bisect_right
+from bisect import bisect_left, bisect_right
@ model/capacity_partitions.py
-        return self.partitions[bisect_right(self._lows, (hash_, pk, sk)) - 1]
+        return self.partitions[max(1, bisect_left(self._lows, (hash_, pk, sk))) - 1]
""",
        MAP,
    ),
    bug(
        "a local index does not keep a collection together",
        """
@ model/partition_splits.py
-    if part is definition and definition.lsis:
+    if part is not definition and definition.lsis:
""",
        FOLD,
    ),
    bug(
        "a partition of any age is split",
        """
@ model/partition_splits.py
-    if age_ms is not None and age_ms < request["MinimumAgeMs"]:
+    if age_ms is not None and age_ms < 0:
""",
        FOLD,
    ),
    bug(
        "an increase divides the partitions at once",
        """
@ model/table_requests.py
-    if request.get(KEEP_PARTITIONS):
+    if not request.get(KEEP_PARTITIONS):
""",
        FOLD,
    ),
    bug(
        "a split closes no shard",
        """
@ streams/feed/shards.py
-        ranges[present[index]] = parent._replace(last=split.sequence_number - 1)
+        ranges[present[index]] = parent._replace(last=split.sequence_number)
""",
        SHARDS,
    ),
    bug(
        "a child has all changes of its partition",
        """
@ streams/feed/shards.py
-range_.holds if range_id else None
+None
""",
        SHARDS,
    ),
    bug(
        "changes before the end of a divided shard are lost",
        """
@ streams/feed/shards.py
-    return range_.last if roll is None else roll.sequence_number - 1, range_.holds if range_id else None
+    return range_.first if range_.last else None, range_.holds if range_id else None
""",
        SHARDS,
    ),
    bug(
        "a shard does not end during the reading of segments",
        """
@ streams/feed/feed.py
-        request, holds = self._limited(asked)
-        table = self._tables.get(request.table)
+        request, holds = asked, self._limited(asked)[1]
+        table = self._tables.get(request.table)
""",
        SHARDS,
    ),
    bug(
        "the next page of a filtered shard begins one change too late",
        """
@ streams/feed/table_changes.py
-        return page, None if stop == end else recent[stop - 1].sequence_number
+        return page, None if stop == end else recent[stop].sequence_number
""",
        SHARDS,
    ),
    bug(
        "heat that pauses is counted on",
        """
@ server/throttling/splits.py
-        self._since = {condition: min(self._since.get(condition, now_ms), now_ms) for condition in found}
+        self._since |= {condition: min(self._since.get(condition, now_ms), now_ms) for condition in found}
""",
        PROPOSALS,
    ),
    bug(
        "a hot key is divided from its own requests",
        """
@ model/partition_splits.py
-            if divides_collections and sk and not first:
+            if divides_collections and sk:
""",
        PROPOSALS,
    ),
]
