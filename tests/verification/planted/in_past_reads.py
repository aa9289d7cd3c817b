"""Bugs in reads of the past."""

from tests.verification.planted.bug import bug

PAST = "tests/behaviour/spec/test_past.py"
STORED = "tests/verification/histories/test_stored_answers.py"
WAITS = "tests/unit/server/test_past_reads.py"
NAMES = "tests/unit/server/test_as_of.py"

BUGS = [
    bug(
        "an age is resolved on every page",
        """
@ server/api/as_of.py
     start = body.get(_START_KEY)
-    if start is None:
-        return AtTime(max(0, now_ms - cut.age_ms))
-    return _time_in(start, now_ms)
+    if start is not None:
+        _time_in(start, now_ms)
+    return AtTime(max(0, now_ms - cut.age_ms))
""",
        NAMES,
    ),
    bug(
        "a page of an age does not carry its time",
        """
@ server/api/as_of.py
-                page.last = page.last[:-1] + member
+                assert member
""",
        PAST,
    ),
    bug(
        "a reader of the present may read the past",
        """
@ server/api/dispatch.py
-    if reply.bearer is not None and not _is_admitted(node, check_history, demands(body), reply):
+    if reply.bearer is not None and not _is_admitted(node, check, demands(body), reply):
""",
        "tests/behaviour/auth/test_served.py::test_the_past_is_a_right_of_its_own",
    ),
    bug(
        "a past table has the definition of today",
        """
@ server/api/as_of.py
-            definition = each.definition
+            definition = live.table(each.definition.name).definition
""",
        PAST,
    ),
    bug(
        "a table that was created again under the same name is read in place of the older one",
        """
@ server/api/as_of.py
-            state.names[past.past(definition.name)] = definition.id
+            state.names[past.past(definition.name)] = live.state.names.get(definition.name, definition.id)
""",
        PAST,
    ),
    bug(
        "a clock that was set back keeps the present open",
        """
@ server/partitions/past_reads.py
-        elif self._waited < _CLOCK_PASSES_S or not self._may_advance():
+        elif True:
""",
        WAITS,
    ),
    bug(
        "an age counts from a clock that was set back",
        """
@ server/api/dispatch.py
-                    past = as_of.past_request(name, body, latest_time(node))
+                    past = as_of.past_request(name, body, node.clock())
""",
        "tests/verification/crash/test_clock.py::test_the_present_is_history_after_a_step_back",
    ),
    bug(
        "a position of a partition means its log time there too",
        """
@ materializer/history/requests.py
-        return self.positions.get(partition_id) or TimeCut(self.time_ms)
+        return TimeCut(self.time_ms)
""",
        STORED,
    ),
    bug(
        "a position is the end of its entry",
        """
@ server/api/min_position.py
-        positions.append(Position(each.partition or 0, each.offset, each.index))
+        positions.append(Position(each.partition or 0, each.offset))
""",
        "tests/behaviour/spec/test_past.py::test_a_position_in_an_entry_hides_later_commands",
    ),
    bug(
        "a time is read before the log has passed it",
        """
@ server/partitions/past_reads.py
-            if worker.state.log_time <= cut.time_ms:
+            if worker.state.log_time < cut.time_ms:
""",
        WAITS,
    ),
    bug(
        "a time of the future is waited for",
        """
@ server/api/as_of.py
         if cut.time_ms > now_ms:
-            raise ValidationError(f"{time_text(cut.time_ms)} is in the future: a cut is a point of history")
+            return AtTime(now_ms)
""",
        PAST,
    ),
    bug(
        "the counts of a past table are those of one partition",
        """
@ server/api/as_of.py
-        counted = [table for each in found for table in each.tables]
+        counted = found[0].tables
""",
        STORED,
    ),
    bug(
        "a write to a past table is made to the present one",
        """
@ server/api/as_of.py
-    if operation not in READS:
+    if operation not in (*READS, "PutItem"):
         raise ValidationError(
""",
        PAST,
    ),
]
