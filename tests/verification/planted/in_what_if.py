"""Bugs in `foldb whatif` and `foldb cost`."""

from tests.verification.planted.bug import bug

SERVED = "tests/behaviour/cli/test_whatif.py"
COST = "tests/behaviour/cli/test_cost.py"
PLANNED = "tests/unit/cli/test_planned_table.py"

BUGS = [
    bug(
        "a transaction is refolded without its other tables",
        """
@ cli/lib/item_writes.py
-        self._kept = None if only is None else {only.id, *surveyed.in_transactions}
+        self._kept = None if only is None else {only.id}
""",
        SERVED,
    ),
    bug(
        "a refused write costs nothing",
        """
@ cli/lib/item_writes.py
-            yield [_refused(command, outcome.units)]
+            yield []
""",
        SERVED,
    ),
    bug(
        "an expiry costs a write unit",
        """
@ cli/lib/item_writes.py
-            yield [ItemWrite(command.table, command.pk, command.sk, stored, None, None)]
+            yield [ItemWrite(command.table, command.pk, command.sk, stored, None, Units(1))]
""",
        SERVED,
    ),
    bug(
        "writes before the period count",
        """
@ cli/lib/item_writes.py
-        return first is None or (position.offset, position.index or 0) >= (first.offset, first.index or 0)
+        return True
""",
        SERVED,
    ),
    bug(
        "an item that leaves a shared key takes the other item with it",
        """
@ cli/lib/planned_table.py
-        if stored is None and self._hidden[key]:
+        if stored is None and self._hidden[key] < 0:
""",
        SERVED,
    ),
    bug(
        "every write counts in the table of the moved attributes",
        """
@ cli/lib/planned_table.py
-        if old == new and (write.old != write.new or not self._has_rest):
+        if False:
""",
        SERVED,
    ),
    bug(
        "free amounts do not reduce the total",
        """
@ cli/commands/cost.py
-    return Charge("free", -both - units, -both)
+    return Charge("free", Decimal(), Decimal())
""",
        COST,
    ),
    bug(
        "an unknown price is ignored",
        """
@ cli/lib/prices.py
-        if name not in known:
+        if False:
""",
        COST,
    ),
    bug(
        "an index that is full does not throttle",
        """
@ cli/lib/planned_table.py
-        if units and part.write.limit_at(part.at(*key).write, now_ms) is not None:
+        if units < 0:
""",
        PLANNED,
    ),
    bug(
        "a hot key of an index has the throughput of the index",
        """
@ cli/lib/planned_table.py
-        if units and part.write.limit_at(part.at(*key).write, now_ms) is not None:
+        if units and part.write.limit_at(None, now_ms) is not None:
""",
        PLANNED,
    ),
    bug(
        "a throttled write uses capacity",
        """
@ cli/lib/planned_table.py
-            refusing.throttled += 1
-            return
+            refusing.throttled += 1
""",
        PLANNED,
    ),
]
