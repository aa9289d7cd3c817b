"""Bugs in throttling."""

from tests.verification.planted.bug import bug

METERS = "tests/unit/server/throttling/test_meters.py"
DECREASES = "tests/unit/server/throttling/test_decreases.py"
LEASES = "tests/unit/server/throttling/test_leases.py"
METERED = "tests/unit/server/throttling/test_metered_partition.py"
SERVED = "tests/behaviour/spec/test_throttling.py"

BUGS = [
    bug(
        "a bucket keeps all unused capacity",
        """
@ server/throttling/buckets.py
-            self.balance = self._level = min(self._depth - self.leased, self.balance + added)
+            self.balance = self._level = self.balance + added
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
-            added = self._rate * (now_ms - self.time_ms)
+            added = self._rate * abs(now_ms - self.time_ms)
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
        "the fifth decrease of a day waits for no hour",
        """
@ server/throttling/decreases.py
-        if time_ms < next_ms:
+        if time_ms < last_ms:
""",
        DECREASES,
    ),
    bug(
        "decreases of yesterday count",
        """
@ server/throttling/decreases.py
-        count = decreases_today(old, time_ms)
+        count = old.decreases_today
@ server/throttling/decreases.py
-        next_ms = min(last_ms + _INTERVAL_MS, (last_ms // _DAY_MS + 1) * _DAY_MS)
+        next_ms = last_ms + _INTERVAL_MS
""",
        DECREASES,
    ),
    bug(
        "a split gives each child all of the balance",
        """
@ server/throttling/meters.py
-        self.write.balance = parent.write.balance >> generations
+        self.write.balance = parent.write.balance
""",
        METERS,
    ),
    bug(
        "a divided collection has one capacity partition",
        """
@ server/throttling/meters.py
-            if pk not in (partition.low.pk, partition.high.pk):  # no boundary divides the item collection
+            if len(pk) < 99:
""",
        METERS,
    ),
    bug(
        "a hot key of an index refuses no write",
        """
@ server/throttling/metered_partition.py
-                limit = Limit.KEY_RANGE
+                pass
""",
        METERED,
    ),
    bug(
        "an index never pays its debt",
        """
@ server/throttling/meters.py
-                bucket.refill(now_ms)
+                pass
""",
        METERED,
    ),
    bug(
        "a write costs the least that it can",
        """
@ server/throttling/metered_partition.py
-                (old is not None and old[1] > paid)
-                or (new is not None and new[1] > paid)
+                paid == 0
""",
        METERED,
    ),
    bug(
        "an index entry is taken before the refill of an idle time",
        """
@ server/throttling/meters.py
-            bucket.refill(now_ms)
-        self.write.take(amount, bucket)
+            pass
+        self.write.take(amount, bucket)
""",
        METERED,
    ),
    bug(
        "refused large writes enlarge the next lease",
        """
@ server/throttling/meters.py
-        half_units = min(_LARGEST_LEASE, partition.sampled_at - partition.unsampled)
+        half_units = partition.sampled_at - partition.unsampled
""",
        LEASES,
    ),
    bug(
        "an index ends the leases of a table that was not refilled",
        """
@ server/throttling/metered_partition.py
-                    meters.own.write.refill(self._now_ms())
+                    pass
""",
        LEASES,
    ),
    bug(
        "leased capacity is filled again",
        """
@ server/throttling/buckets.py
-            self.balance = self._level = min(self._depth - self.leased, self.balance + added)
+            self.balance = self._level = min(self._depth, self.balance + added)
""",
        LEASES,
    ),
    bug(
        "a lease ends before its capacity could fill the bucket",
        """
@ server/throttling/meters.py
-        self.refill(now_ms)
-        self.end_lease(partition)
+        self.end_lease(partition)
""",
        LEASES,
    ),
    bug(
        "an empty bucket does not end its leases",
        """
@ server/throttling/meters.py
-        if self.bucket.balance <= 0:
-            self.end_leases()
-        if partition is not None:
+        if partition is not None:
""",
        LEASES,
    ),
    bug(
        "an index without capacity does not end the leases of its table",
        """
@ server/throttling/metered_partition.py
-                if part.lacks_capacity:
+                if part is meters.own:
""",
        LEASES,
    ),
]
