"""Bugs of reads over partitions: at one instant of a process, or twice on a shared log."""

from tests.verification.planted.bug import bug

ONE_PROCESS = (
    "tests/verification/histories/several/test_one_process.py::"
    "test_reads_at_an_instant_are_strictly_serializable"
)
TWO_READS = "tests/verification/histories/several/test_one_process.py::test_items_read_twice_are_strictly_serializable"
SIMULATED = "tests/verification/simulator/test_simulator.py::test_no_history_of_contending_reads_is_wrong"
INSTANTS = "tests/unit/server/routing/test_instant_reads.py"
ROUTER = "tests/unit/server/routing/test_router.py"
HOLDS = "tests/unit/materializer/several_partitions/test_write_holds.py"
WAITING = "tests/unit/materializer/several_partitions/test_waiting.py"
PORTIONS = "tests/unit/materializer/test_portions.py"

_IGNORED = """
@ server/routing/instant_reads.py
-        if state.transactions.held and (decided := decided_effect(self.states, partition, key)):
+        if False and (decided := decided_effect(self.states, partition, key)):
"""
_UNDECIDED = """
@ materializer/fold/transactions/decided.py
-    return under_way is not None and under_way.commit is True
+    return under_way is not None and under_way.commit is not False
"""
_LATE = """
@ server/routing/instant_reads.py
         for part in self._parts:
-            part.reader.open_views()
+            pass
"""
_UNCHECKED = """
@ server/routing/isolated_read.py
-            self._read({partition: seen[partition] for partition in self._parts}, self._finish)
+            self._finish(first, positions)
"""
_UNNOTICED = """
@ materializer/recent_writes.py
-        return after < self._known_after or self._recent.get(key, self._older.get(key, -1)) > after
+        return False
"""

BUGS = [
    # One instant
    bug("the item of a decided transaction is not read before it is applied", _IGNORED, INSTANTS),
    bug("the item of a decided transaction is not read (histories)", _IGNORED, ONE_PROCESS),
    bug("an undecided transaction counts", _UNDECIDED, INSTANTS),
    bug("an undecided transaction counts (histories)", _UNDECIDED, ONE_PROCESS),
    bug("a page reads each partition when it reaches it", _LATE, INSTANTS),
    bug("a page reads each partition when it reaches it (histories)", _LATE, ONE_PROCESS),
    bug(
        "a page lacks what is decided and not applied",
        """
@ server/routing/instant_reads.py
-        if request.consistent and states[partition].transactions.prepared:
+        if False:
""",
        ONE_PROCESS,
    ),
    bug(
        "a decided item leaves its old entry in a local index",
        """
@ materializer/fold/reads.py
-                if update.old_key is not None:
-                    self._view.lay(*update.old_key, None)
""",
        PORTIONS,
    ),
    bug(
        "the position of a decided item lacks its coordinator",
        """
@ server/routing/instant_reads.py
             coordinator, effect = decided
-            partitions.add(coordinator)
""",
        INSTANTS,
    ),
    # Two reads
    bug("the second read is not made", _UNCHECKED, ROUTER),
    bug("the second read is not made (histories)", _UNCHECKED, TWO_READS),
    bug("the second read is not made (simulated)", _UNCHECKED, SIMULATED),
    bug("an item that changed between two reads is not noticed (simulated)", _UNNOTICED, SIMULATED),
    bug(
        "a conflict is not retried",
        """
@ server/routing/isolated_read.py
-        if error is None and any(map(_has_conflict, results)) and self._attempts < ATTEMPTS:
+        if False:
""",
        ROUTER,
    ),
    bug(
        "the writes of a read that met a conflict are not released",
        """
@ server/routing/isolated_read.py
-        if read:  # the second read releases the writes
+        if False:
""",
        ROUTER,
    ),
    bug(
        "a write is kept back until the deadline",
        """
@ materializer/write_holds.py
-            if hold.offset == offset and hold.keys == keys:
+            if False:
""",
        WAITING,
    ),
    bug(
        "no write is kept back",
        """
@ materializer/write_holds.py
-            if not self._held.keys().isdisjoint(keys):
+            if False:
""",
        HOLDS,
        WAITING,
    ),
    bug(
        "reads can keep a write back one after the other",
        """
@ materializer/write_holds.py
-        if all(set(keys).isdisjoint(each.keys) for each in self._kept_back):
+        if True:
""",
        HOLDS,
    ),
    bug(
        "entries that are folded without outcomes have no writes",
        """
@ materializer/consistent_partition.py
-        is_noted = self._noted == self._state.next_offset - 1
+        is_noted = True
""",
        WAITING,
    ),
    bug(
        "a first read does not wait for the writes in flight",
        """
@ materializer/consistent_partition.py
-        self._wait(lambda: self._worker.folded_commands >= accepted, read, refuse)
+        self._wait(lambda: True, read, refuse)
""",
        WAITING,
    ),
]
