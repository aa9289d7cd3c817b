"""Bugs in the counters, the metrics and the alarms."""

from tests.verification.planted.bug import bug

COUNTS = "tests/unit/server/usage/test_counts.py"

MINUTES = "tests/unit/server/usage/test_minutes.py"
ALARMS = "tests/unit/server/usage/test_alarms.py"
FAILOVER = "tests/behaviour/cluster/test_failover.py"

BUGS = [
    bug(
        "an alarm evaluates the period that is open",
        """
@ server/usage/alarms.py
-        return now_ms - now_ms % self.period_ms - self.periods * self.period_ms
+        return now_ms - now_ms % self.period_ms - (self.periods - 1) * self.period_ms
""",
        ALARMS,
    ),
    bug(
        "an alarm of two owners changes its state twice",
        """
@ server/usage/alarm_service.py
-            condition="StateValue = :before",
+            condition="attribute_exists(AlarmName) AND NOT StateReason = :before",
""",
        ALARMS,
    ),
    bug(
        "the next evaluator of alarms skips the minute of a failover",
        """
@ server/usage/alarm_service.py
-        last_ms = end_ms - (_CATCH_UP_MS if self._leads() else MINUTE_MS)
+        last_ms = end_ms - (_CATCH_UP_MS if self._leads() else 0)
""",
        FAILOVER,
    ),
    bug(
        "an alarm writes its state each minute",
        """
@ server/usage/alarm_service.py
-        if state == before:
-            return
""",
        ALARMS,
    ),
    bug(
        "an alarm on a table counts its indexes",
        """
@ server/usage/alarms.py
-            and (self.index == series.gsi or not self.table)
+            and self.index in ("", series.gsi)
""",
        ALARMS,
    ),
    bug(
        "a removed alarm leaves its trigger",
        """
@ server/usage/alarm_service.py
         if self._has_trigger(name):
-            await self._triggers().remove(trigger_name(name), context)
+            pass
""",
        ALARMS,
    ),
    bug(
        "a clock that is set back closes a minute",
        """
@ server/usage/metrics.py
-        if begin_ms > self._begin_ms:  # a clock that is set back continues the minute
+        if begin_ms != self._begin_ms:
""",
        MINUTES,
    ),
    bug(
        "a minute that is read ends with the next one",
        """
@ server/usage/minutes.py
-        return (each for each in self._minutes if begin_ms <= each.begin_ms < end_ms)
+        return (each for each in self._minutes if begin_ms <= each.begin_ms <= end_ms)
""",
        MINUTES,
    ),
    bug(
        "the latencies of a minute are those of the start",
        """
@ server/usage/operations.py
-        self.durations.clear()
""",
        MINUTES,
    ),
    bug(
        "the name of a missing table takes memory",
        """
@ server/api/dispatch.py
-    return node.metrics.operations[operation, table if table in node.state.names else ""]
+    return node.metrics.operations[operation, table]
""",
        MINUTES,
    ),
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
