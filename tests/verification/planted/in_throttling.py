"""Bugs in throttling."""

from tests.verification.planted.bug import bug

METERS = "tests/unit/server/throttling/test_meters.py"
SERVED = "tests/behaviour/spec/test_throttling.py"

BUGS = [
    bug(
        "a bucket keeps all unused capacity",
        """
@ server/throttling/buckets.py
-            self.balance = self._level = min(self._depth, self.balance + self._rate * (now_ms - self.time_ms))
+            self.balance = self._level = self.balance + self._rate * (now_ms - self.time_ms)
""",
        METERS,
    ),
    bug(
        "a clock that is set back adds capacity",
        """
@ server/throttling/buckets.py
-        if now_ms > self.time_ms:  # a clock that is set back adds nothing
+        if now_ms != self.time_ms:
@ server/throttling/buckets.py
-            self.balance = self._level = min(self._depth, self.balance + self._rate * (now_ms - self.time_ms))
+            self.balance = self._level = min(self._depth, self.balance + self._rate * abs(now_ms - self.time_ms))
""",
        METERS,
    ),
    bug(
        "a peak counts at once",
        """
@ server/throttling/buckets.py
-        oldest = now_ms // _MINUTE_MS - _DOUBLING_MINUTES
+        oldest = now_ms // _MINUTE_MS
""",
        METERS,
    ),
    bug(
        "a hot key has the throughput of its table",
        """
@ server/throttling/meters.py
-        return rates.partition * 1000, _SECOND_MS
+        return (rates.provisioned or rates.account) * 1000, _SECOND_MS
""",
        METERS,
    ),
    bug(
        "an index without capacity refuses no write",
        """
@ server/throttling/metered_partition.py
-            limit = part.write.limit_at(None, now_ms)
+            limit = None
""",
        SERVED,
    ),
    bug(
        "a throttled part of a batch fails all of it",
        """
@ server/api/operations/batch_get_item.py
-        if isinstance(found, RequestError) and is_throttled(found) and len(keys) > 1:
+        if isinstance(found, RequestError) and is_throttled(found) and not keys:
""",
        SERVED,
    ),
    bug(
        "a write costs the least that it can",
        """
@ server/throttling/metered_partition.py
-                    or outcome.local is not None
-                    or outcome.glob is not None
+                    or outcome.local is None
""",
        SERVED,
    ),
]
