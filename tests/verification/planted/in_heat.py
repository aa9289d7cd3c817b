"""Bugs in the heat of tables: the sketch, its layers, and the operation and commands that show it."""

from tests.verification.planted.bug import bug

SKETCH = "tests/unit/server/usage/test_sketch.py"

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
]
