"""Bugs of messages between partitions (definitions, global indexes), and of routers."""

from tests.verification.planted.bug import bug

RANDOM = "tests/unit/materializer/partitions/test_random.py"
ROUTER, SCANNING = "tests/unit/server/routing/test_router.py", "tests/unit/server/routing/test_scanning.py"
FEED = "tests/unit/materializer/partitions/test_feed.py"
MESSAGES = "tests/unit/materializer/partitions/test_messages.py"
DEFINITIONS, INDEXES = (
    "tests/unit/materializer/partitions/test_definitions.py",
    "tests/unit/materializer/partitions/test_indexes.py",
)


BUGS = [
    # Messages: each once, in order
    bug(
        "a message that was folded is folded again",
        """
@ materializer/fold/messages.py
-    if state.received.get(command.sender, 0) != command.message_number:
+    if state.received.get(command.sender, 0) < command.message_number:
         return False
-    state.received[command.sender] = command.message_number + 1
+    state.received[command.sender] = max(state.received.get(command.sender, 0), command.message_number + 1)
""",
        RANDOM,
    ),
    bug(
        "a gap in the numbers is skipped",
        """
@ materializer/fold/messages.py
-    if state.received.get(command.sender, 0) != command.message_number:
+    if state.received.get(command.sender, 0) > command.message_number:
""",
        RANDOM,
    ),
    bug(
        "messages are folded in any order",
        """
@ materializer/fold/messages.py
-    if state.received.get(command.sender, 0) != command.message_number:
+    if state.received.get(command.sender, 0) > command.message_number + 2:
         return False
-    state.received[command.sender] = command.message_number + 1
+    state.received[command.sender] = max(state.received.get(command.sender, 0), command.message_number + 1)
""",
        RANDOM,
    ),
    bug(
        "unacknowledged messages are missing from a dump",
        """
@ materializer/fold/dump.py
-            _json(OUTBOX, [receiver, outbox.next_message_number - len(outbox.unacknowledged)]),
-            list(outbox.unacknowledged),
+            _json(OUTBOX, [receiver, outbox.next_message_number]),
+            [],
""",
        RANDOM,
    ),
    bug(
        "the count of received messages is missing from a dump",
        """
@ materializer/fold/dump.py
-    received = [_json(RECEIVED, [sender, state.received[sender]]) for sender in sorted(state.received)]
+    received: list[bytes] = []
""",
        RANDOM,
    ),
    bug(
        "an acknowledgement empties the whole outbox",
        """
@ materializer/fold/outbox.py
-    while waiting and waiting[0].message_number <= through:
+    while waiting:
""",
        RANDOM,
    ),
    bug(
        "acknowledged messages still count as unacknowledged",
        """
@ materializer/fold/outbox.py
-        state.unacknowledged_bytes -= size_of(waiting.popleft().message)
+        waiting.popleft()
""",
        RANDOM,
    ),
    bug(
        "an effect may be earlier than its cause",
        """
@ materializer/fold/fold_record.py
-        state.log_time = max(state.log_time, _latest_cause_time(entry) + 1)
+        pass
""",
        MESSAGES,
    ),
    # Definitions
    bug(
        "a table is ACTIVE before all partitions have it",
        """
@ materializer/fold/definitions.py
-        if pending.delayed or not state.is_applied_everywhere(pending.version):
+        if pending.delayed:
""",
        DEFINITIONS,
    ),
    bug(
        "a delay is over when all have applied the definition",
        """
@ materializer/fold/definitions.py
-        if pending.delayed or not state.is_applied_everywhere(pending.version):
+        if not state.is_applied_everywhere(pending.version):
""",
        DEFINITIONS,
    ),
    bug(
        "a partition takes writes of slots that others own",
        """
@ materializer/fold/fold_record.py
-        if table.items.slot_of(command.pk) not in state.slots:
-            return Skipped("not of this partition")
""",
        DEFINITIONS,
    ),
    # Global indexes
    bug(
        "an index entry that comes before its index is dropped",
        """
@ materializer/fold/messages.py
-        state.deferred.append((sender, message))
+        pass
""",
        RANDOM,
    ),
    bug(
        "an index entry that came early is forgotten in a dump",
        """
@ materializer/fold/dump.py
-        map(_deferred, list(state.deferred)),
""",
        RANDOM,
    ),
    bug(
        "an entry whose key moved stays where it was",
        """
@ materializer/fold/indexes.py
-            _write_entry(state, table, update.index, update.old_key, None, sequence_number)
+            pass
""",
        RANDOM,
    ),
    bug(
        "a part of an index is called whole before all have sent their entries",
        """
@ materializer/fold/indexes.py
-    if index.complete_senders == list(data_partitions(state.partitions)):
+    if len(index.complete_senders) == state.partitions - 2:
""",
        INDEXES,
    ),
    bug(
        "an index is ACTIVE when its first part is whole",
        """
@ materializer/fold/definitions.py
-    return state.rollout.filled.get(index_id) == list(data_partitions(state.partitions))
+    return bool(state.rollout.filled.get(index_id))
""",
        INDEXES,
    ),
    bug(
        "a backfill that was dumped counts as complete",
        """
@ materializer/fold/dump.py
-    if index.is_sent or index.complete_senders:
-        frame |= {"is_sent": index.is_sent, "heard": index.complete_senders}
+    frame |= {"is_sent": True, "heard": index.complete_senders}
""",
        RANDOM,
    ),
    bug(
        "a backfill skips entries of other partitions",
        """
@ materializer/fold/indexes.py
-        entered = _entry(index, pk, sk, stored, state.limits)
-        if entered is not None:
+        entered = _entry(index, pk, sk, stored, state.limits)
+        if entered is not None and index.store.slot_of(entered[0][0]) in state.slots:
""",
        RANDOM,
    ),
    # Streams, subscriptions, and the changes of transactions
    bug(
        "the catalog alone captures",
        """
@ materializer/fold/state.py
-        update_periods(self.periods, definition.id, definition, sequence_number, self.log_time)
+        if self.partition == 0:
+            update_periods(self.periods, definition.id, definition, sequence_number, self.log_time)
""",
        FEED,
    ),
    bug(
        "the end of a table's last subscription stays in the catalog",
        """
@ materializer/fold/definitions.py
-    if table is not None and table.definition.watched != watched:
+    if table is not None and table.definition.watched and not watched:
+        state.install(replace(table.definition, watched=False), sequence_number)
+    elif table is not None and table.definition.watched != watched:
""",
        FEED,
    ),
    bug(
        "a subscription is answered before all partitions capture",
        """
@ server/routing/router.py
-        if not isinstance(outcome, Subscribed) or self._catalog.is_applied_everywhere(outcome.version):
+        if True:
""",
        ROUTER,
    ),
    bug(
        "an action that changes nothing is counted among the changes of its transaction",
        """
@ materializer/fold/transactions/participant.py
-            one.changes = changes_item(decision.old, decision.new)
+            one.changes = True
""",
        FEED,
    ),
    bug(
        "a coordinator that does not know all changes names some",
        """
@ materializer/fold/transactions/coordinator.py
-            if one.changes is None:
-                return None
""",
        FEED,
    ),
    # Void commands
    bug(
        "a void message is not counted",
        """
@ materializer/fold/fold_record.py
-    if type(command) is not Relay or not messages.count_message(state, command):
+    if type(command) is not Relay:
""",
        MESSAGES,
    ),
    # Answers of several partitions
    bug(
        "a page that is full at the end of a partition says that it is the last",
        """
@ server/routing/routed_scan.py
         if part.full:  # the page ends before this partition
-            page.last = page.tail
             return True
""",
        SCANNING,
    ),
    bug(
        "a page has the limit of each partition",
        """
@ server/routing/routed_scan.py
-        limit = None if rest.limit is None else rest.limit - part.scanned
+        limit = rest.limit
""",
        SCANNING,
    ),
    bug(
        "a token is known to the partition of a transaction's first key",
        """
@ server/routing/router.py
-        if command.token is not None:
+        if False:
             return partition_of_key(0, command.token.encode(), self._count)
""",
        ROUTER,
    ),
    bug(
        "a command that sent messages can be declared void",
        """
@ cli/commands/log/skip.py
-    if whole != without:
+    if len(whole) != len(without):
         at = void.text(log.partitions)
""",
        "tests/behaviour/cli/admin/test_skip.py::test_a_command_that_sent_messages_cannot_be_void",
    ),
]
