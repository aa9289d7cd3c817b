"""Bugs of workers on a shared log, of owners, and of reads that have to wait."""

from tests.verification.planted.bug import bug

SHARED = "tests/unit/materializer/several_partitions/test_shared.py"
OWNER = "tests/unit/materializer/several_partitions/test_owner.py"
RELAYS = "tests/unit/materializer/several_partitions/test_relays.py"
WAITING = "tests/unit/materializer/several_partitions/test_waiting.py"

BUGS = [
    # Shared logs
    bug(
        "an entry is folded on acknowledgement where others stand before it",
        """
@ materializer/replicated/worker.py
-        elif result.offset == self.state.next_offset and self._may_be_ahead():
+        elif self._may_be_ahead():
""",
        SHARED,
    ),
    bug(
        "received records are not compared with folded ones",
        """
@ materializer/replicated/worker.py
-        if (received.offset, received.time, received.body) != (folded.offset, folded.time_ms, folded.body):
+        if False:
""",
        SHARED,
    ),
    bug(
        "a gap in the received records is ignored",
        """
@ materializer/replicated/worker.py
         elif received.offset > self.state.next_offset:
-            self._stop(self._corruption(received.offset, "the records before it were not received"))
+            self.state.next_offset = received.offset
+            self._fold_received(received)
""",
        SHARED,
    ),
    bug(
        "an entry of a dropped origin is answered although it had no effect",
        """
@ materializer/replicated/worker.py
-        stale = self.state.origins.get(entry.origin, 0) != entry.entry_number
+        stale = False
""",
        SHARED,
    ),
    bug(
        "an append of unknown fate is appended as another entry",
        """
@ materializer/replicated/worker.py
         self._answer_failed(under_way, InternalServerError())
+        self._origin, self._next_entry_number = self._new_origin(), 0
+        entry, self._entry_in_flight = self._entry_in_flight, None
+        self.append_entry(Entry(self._origin, 0, entry.commands))
""",
        SHARED,
    ),
    bug(
        "a client of a silent log waits forever",
        """
@ materializer/replicated/worker.py
-            self._silence_timer = self._scheduler.call_later(self._silence, self._answer_after_silence)
-        super().append_entry(entry)
+            pass
+        super().append_entry(entry)
""",
        SHARED,
    ),
    bug(
        "a standby and a leader answer each other's entries",
        """
@ materializer/replicated/worker.py
-            and record.entry.origin == entry.origin
             and record.entry.entry_number == entry.entry_number
""",
        SHARED,
    ),
    # Owners
    bug(
        "messages are sent on from where the last owner seemed to be",
        """
@ materializer/owner/relays.py
-        self._next = 0  # number of the next message to send
+        self._next = outbox.next_message_number  # number of the next message to send
""",
        OWNER,
        RELAYS,
    ),
    bug(
        "after a doubt messages go on from the newest",
        """
@ materializer/owner/relays.py
-        self._next = self._acknowledged_through + 1
-        if self._timer is not None:
+        if self._timer is not None:
""",
        RELAYS,
    ),
    bug(
        "a message is acknowledged when it was sent",
        """
@ materializer/owner/relays.py
             self._bytes += size
+            self._record_progress(relay.message_number, 0)
""",
        RELAYS,
    ),
    bug(
        "messages in flight have no limit",
        """
@ materializer/owner/relays.py
-        room, size = WINDOW_MESSAGES - len(self._in_flight), self._bytes
+        room, size = len(waiting), self._bytes
""",
        RELAYS,
    ),
    bug(
        "messages between partitions are throttled with the clients",
        """
@ materializer/worker.py
-        if self.state.unacknowledged_bytes > UNACKNOWLEDGED_BYTES and type(command) in _REFUSABLE:
+        if self.state.unacknowledged_bytes > UNACKNOWLEDGED_BYTES:
""",
        OWNER,
    ),
    bug(
        "clients are not throttled however much others have to acknowledge",
        """
@ materializer/worker.py
-        if self.state.unacknowledged_bytes > UNACKNOWLEDGED_BYTES and type(command) in _REFUSABLE:
+        if False:
""",
        OWNER,
    ),
    bug(
        "an undecided transaction is never aborted",
        """
@ materializer/owner/owner.py
-            self._relays.send()
-            self._aborts.schedule()
+            self._relays.send()
""",
        OWNER,
    ),
    bug(
        "log time stays where a clock that was set back has left it",
        """
@ materializer/owner/owner.py
-        if due and self._state.log_time == self._proposed_at_ms:
+        if False:
""",
        OWNER,
    ),
    bug(
        "an idle log is written to",
        """
@ materializer/owner/owner.py
-        if undecided and not self._closed:
-            left_ms = undecided[0][1] + ABANDON_AFTER_MS - now_ms
-            self._later(now_ms, max(_RETRY_MS, left_ms))
+        if not self._closed:
+            self._worker.submit(Abandon(0, _OWNER), _PROPOSAL_BYTES, _ignore)
+            self._later(now_ms, _RETRY_MS)
""",
        OWNER,
    ),
    # Reads
    bug(
        "a read with ConsistentRead from a worker that lags",
        """
@ materializer/consistent_partition.py
-        if index is None or (not consistent and not fresh and index.is_fresh(self._stale_ms)):
+        if index is None or index.is_fresh(self._stale_ms):
""",
        WAITING,
    ),
    bug(
        "a state of any age answers reads that need not be consistent",
        """
@ materializer/replicated/read_index.py
-        return self._fresh_at >= 0 and age <= within_ms
+        return True
""",
        WAITING,
    ),
    bug(
        "a read shares a question that was asked before it arrived",
        """
@ materializer/replicated/read_index.py
-        self._queued.append(callback)
-        if self._round is None:
+        if self._round is not None:
+            self._round.waiting.append(callback)
+        else:
+            self._queued.append(callback)
+        if self._round is None:
""",
        WAITING,
    ),
    bug(
        "a consistent read looks past the keys that are held",
        """
@ materializer/consistent_partition.py
-            elif consistent and self._held and (transactions := holders()):
+            elif False and (transactions := holders()):
""",
        WAITING,
    ),
    bug(
        "absent, present and absent again between two looks is no change",
        """
@ materializer/consistent_partition.py
-            if since is not None and (not is_noted or recent.changed(key, since.offset)):
+            if False:
""",
        WAITING,
    ),
    bug(
        "a forgotten item counts as unchanged",
        """
@ materializer/recent_writes.py
-        return after < self._known_after or self._recent.get(key, self._older.get(key, -1)) > after
+        return self._recent.get(key, self._older.get(key, -1)) > after
""",
        WAITING,
    ),
    bug(
        "a position is reached before its messages are folded",
        """
@ materializer/consistent_partition.py
-            not outbox.unacknowledged or outbox.unacknowledged[0].offset > offset for outbox in outboxes
+            True for outbox in outboxes
""",
        WAITING,
    ),
    bug(
        "triggers that a request used before the start never run",
        """
@ server/node.py
-            self.triggers.start(on_running)
+            pass
""",
        "tests/unit/server/test_lazy_triggers.py",
    ),
]
