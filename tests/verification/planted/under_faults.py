"""Bugs that the simulator must find without any other test.

Some are bugs of other modules, to be found again by the clients' answers and the final states.
"""

from tests.verification.planted import in_partitions, in_the_fold, in_transactions
from tests.verification.planted.bug import Bug, bug

HISTORIES = "tests/verification/simulator/test_simulator.py::test_no_history_is_wrong"

_AGAIN = (
    "a repeated entry is folded again",
    "messages are folded in any order",
    "a gap in the numbers is skipped",
    "unacknowledged messages are missing from a dump",
    "a commit before all votes are in",
    "a held key is released at the vote",
    "a checkpoint of an older epoch counts",
    "a window begins one command too early",
    "the catalog alone captures",
    "a subscription is answered before all partitions capture",
)

_OTHERS = (*in_the_fold.BUGS, *in_partitions.BUGS, *in_transactions.BUGS)

BUGS = [
    *(Bug(f"{each.what} (simulated)", each.edits, (HISTORIES,)) for each in _OTHERS if each.what in _AGAIN),
    bug(
        "an index entry is written twice, the second time late",
        """
@ materializer/fold/messages.py
     if not count_message(state, command):
+        if type(command.message) is IndexEntry and command.message_number < state.received.get(command.sender, 0):
+            fold_message(state, command.sender, (0, 0), command.message, sequence_number)
""",
        HISTORIES,
    ),
    bug(
        "a condition is judged before the append",
        """
@ materializer/worker.py
-        self._queue.append(Queued(command, size, done))
+        table = self.state.tables.get(getattr(command, "table", 0))
+        if type(command) is Put and command.expression is not None and table is not None:
+            from dataclasses import replace
+
+            from .fold.outcomes import Refused
+            from .fold.writes import decide
+
+            if not isinstance(decide(table, command, self.state.limits, self.state.level), Refused):
+                command = replace(command, expression=None)
+        self._queue.append(Queued(command, size, done))
""",
        HISTORIES,
    ),
    bug(
        "a write is acknowledged before it is folded",
        """
@ materializer/replicated/worker.py
         if entry is not self._entry_in_flight:
             return  # it was received in the meantime
+        if isinstance(result, Appended):
+            from ..fold.outcomes import Applied
+
+            for nth, one in enumerate(self._in_flight):
+                if type(one.command) is Put:
+                    done, self._in_flight[nth] = one.done, one._replace(done=_ignore)
+                    done(Applied(one.command, None, None, 0, 0), self.position)
@ materializer/replicated/worker.py
-from ...log.commands import Entry, Position, Record
+from ...log.commands import Entry, Position, Put, Record
""",
        HISTORIES,
    ),
    bug(
        "origins are forgotten by time",
        """
@ materializer/fold/state.py
-        if self.origins.get(origin, 0) != entry_number:
+        if self.log_time % 20 == 0:
+            self.origins.clear()
+        if self.origins.get(origin, 0) != entry_number:
""",
        HISTORIES,
    ),
]
