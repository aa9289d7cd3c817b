"""Bugs in the heat of tables: the sketch, its layers, and the operation and commands that show it."""

from tests.verification.planted.bug import bug

SKETCH = "tests/unit/server/usage/test_sketch.py"
COMMANDS = "tests/behaviour/cli/test_heat.py"
SERVED = "tests/behaviour/spec/test_heat.py"

BUGS = [
    bug(
        "old traffic keeps its weight",
        """
@ server/usage/sketch.py
-        self.counts = {key: count >> shift for key, count in self.counts.items() if count >> shift}
+        self.counts = {key: count for key, count in self.counts.items() if count >> shift}
""",
        SKETCH,
    ),
    bug(
        "rounding at a half-life is no part of the error",
        """
@ server/usage/sketch.py
-        self.error = (self.error + 2 * (1 << shift) - 2) >> shift  # counts were rounded down
+        self.error >>= shift
""",
        SKETCH,
    ),
    bug(
        "a merge takes the larger error",
        """
@ server/usage/sketch.py
-        self.error += other.error
+        self.error = max(self.error, other.error)
""",
        SKETCH,
    ),
    bug(
        "a merge counts the counters alone",
        """
@ server/usage/sketch.py
-        self.total += other.total - sum(other.counts.values())
""",
        SKETCH,
    ),
    bug(
        "the counters are reduced without an error",
        """
@ server/usage/sketch.py
-        self.error += least
+        self.error = least
""",
        SKETCH,
    ),
    bug(
        "a sample counts only the keys whose slot is computed",
        """
@ server/usage/sketch.py
-                rows[row] = rows.get(row, 0) + sum_of_sample
+                rows[row] = rows.get(row, 0) + value
                 sum_of_sample = 0
""",
        SKETCH,
    ),
    bug(
        "long keys take more than the memory of a sketch",
        """
@ server/usage/sketch.py
-            room -= len(key) + _ENTRY_BYTES
+            room -= _ENTRY_BYTES
""",
        SKETCH,
    ),
    bug(
        "a grid keeps all time buckets",
        """
@ server/usage/sketch.py
-            if each <= bucket - COLUMNS or len(self.cells) > COLUMNS:
+            if each < bucket - 10 * COLUMNS:
""",
        SKETCH,
    ),
    bug(
        "throttled requests count as reads",
        """
@ server/usage/heat.py
-            part.throttle(pk, 1)
+            part.read(pk, 1)
""",
        SERVED,
    ),
    bug(
        "a write to an index counts for the new key alone",
        """
@ server/usage/heat.py
-        images = [load(stored[0]) for stored in (applied.old, applied.new) if stored is not None]
+        images = [load(stored[0]) for stored in (applied.new,) if stored is not None]
""",
        SERVED,
    ),
    bug(
        "insights for throttled keys count all keys",
        """
@ server/usage/heat.py
-        accessed = self._every or (insights is not None and insights.mode != "THROTTLED_KEYS")
+        accessed = True
""",
        SERVED,
    ),
    bug(
        "the heat of a table has half units",
        """
@ server/api/admin/heat.py
-    is_halved = layer is not Layer.THROTTLES
+    is_halved = False
""",
        SERVED,
    ),
    bug(
        "the heat of one node is that of all",
        """
@ server/usage/cluster_heat.py
-    nodes = cluster.nodes_of(CATALOG)
+    nodes = cluster.nodes_of(CATALOG)[:1]
""",
        "tests/behaviour/cluster/test_cluster.py",
    ),
    bug(
        "the map of a hot key has no bright line",
        """
@ cli/lib/heat.py
-    return _SHADES[1 + bisect_right(_SHADE_BOUNDS, value * 16 / largest)]
+    return _SHADES[1 + bisect_right(_SHADE_BOUNDS, 16)]
""",
        COMMANDS,
    ),
    bug(
        "a divided key keeps its share",
        """
@ cli/lib/heat.py
-        loads[own] = max(Decimal(), loads[own] - share)
""",
        COMMANDS,
    ),
    bug(
        "a key that is throttled to the limit fits",
        """
@ cli/lib/heat.py
-    return rate <= limit and not (was_throttled and rate >= limit * _NEAR_LIMIT)
+    return rate <= limit
""",
        COMMANDS,
    ),
]
