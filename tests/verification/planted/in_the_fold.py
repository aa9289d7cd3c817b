"""Bugs of the fold, the worker and the server: effects of commands, reads, and queues."""

from tests.verification.planted.bug import bug

FOLDED, WORKED = "tests/unit/materializer/test_fold.py", "tests/unit/materializer/test_worker.py"
WINDOWS, SUBSCRIBED = (
    "tests/unit/materializer/feed/test_capture.py",
    "tests/unit/materializer/feed/test_subscriptions.py",
)
DETERMINISM = "tests/unit/materializer/snapshots/test_determinism.py"
PORTIONS = "tests/unit/materializer/test_portions.py"


BUGS = [
    bug(
        "the insights of a deleted index stay in the definition",
        """
@ model/tables.py
-    insights = {name: each for name, each in definition.insights.items() if name in names}
+    insights = definition.insights
""",
        "tests/unit/server/operations/test_contributor_insights.py",
    ),
    bug(
        "an index key that an expression computes is like one of the request",
        """
@ materializer/fold/writes.py
-            raise _of_computed_key(table, plan, item) or error
+            raise error
""",
        "tests/unit/server/operations/test_error_order.py",
    ),
    bug(
        "a portion of a page takes the rest of its collection",
        """
@ materializer/fold/view.py
-        live = _placed(hashed, pk, self._store.range(pk, low, high, reverse))
+        live = iter([*_placed(hashed, pk, self._store.range(pk, low, high, reverse))])
""",
        "tests/unit/materializer/test_reads.py",
    ),
    bug(
        "a compiled module keeps a generator expression, which mypyc makes a list",
        """
@ materializer/fold/view.py
-        live = _placed(hashed, pk, self._store.range(pk, low, high, reverse))
+        live = ((hashed, pk, sk, stored) for sk, stored in self._store.range(pk, low, high, reverse))
""",
        "tests/unit/project/test_compiled.py::test_a_generator_expression_is_consumed_where_it_stands",
    ),
    # Once, in order, the same on every refold
    bug(
        "a repeated entry is folded again",
        """
@ materializer/fold/state.py
-        if self.origins.get(origin, 0) != entry_number:
+        if self.origins.get(origin, 0) < entry_number:
""",
        FOLDED,
    ),
    bug(
        "an entry after a gap is folded",
        """
@ materializer/fold/state.py
-        if self.origins.get(origin, 0) != entry_number:
+        if self.origins.get(origin, 0) > entry_number:
""",
        FOLDED,
    ),
    bug(
        "an entry that found no space uses up its number",
        """
@ materializer/worker.py
+            self._next_entry_number += 1
             self._answer_failed(self._take_in_flight(), ServiceUnavailableError(_FULL))
""",
        WORKED,
    ),
    bug(
        "the fold reads the wall clock",
        """
@ materializer/fold/fold_record.py
+    import time as clock
+
-    state.log_time = max(state.log_time, time)
+    state.log_time = max(state.log_time, clock.time_ns() // 1_000_000)
""",
        "tests/unit/project/test_purity.py",
        FOLDED,
    ),
    bug(
        "log time goes back in the fold",
        """
@ materializer/fold/fold_record.py
-    state.log_time = max(state.log_time, time)
+    state.log_time = time
""",
        FOLDED,
    ),
    bug(
        "sequence numbers come from the clock",
        """
@ materializer/fold/fold_record.py
-    next_sequence_number = sequence_number(record.offset, 0, 0)
+    next_sequence_number = sequence_number(state.log_time, 0, 0)
""",
        FOLDED,
    ),
    bug(
        "the dump has the order of a set",
        """
@ materializer/fold/dump.py
-    tokens = list(state.tokens.items())
+    tokens = list(set(state.tokens.items()))
""",
        DETERMINISM,
        "tests/unit/project/test_purity.py",
        "tests/unit/materializer/snapshots/test_dump.py",
    ),
    bug(
        "a set of strings is stored in the order of a set",
        """
@ model/values.py
-    value["SS"] = sorted(content)
+    value["SS"] = list(set(content))
""",
        "tests/unit/project/test_purity.py",
        "tests/unit/model/test_canonical_values.py",
    ),
    bug(
        "the dump leaves out which entries were folded",
        """
@ materializer/fold/dump.py
-    origins = list(state.origins.items())
+    origins: list[tuple[bytes, int]] = []
""",
        "tests/unit/materializer/snapshots/test_dump.py",
    ),
    bug(
        "commands of a later level are folded as if they were ours",
        """
@ materializer/fold/fold_record.py
-    if level > LEVEL:
+    if False:
""",
        FOLDED,
    ),
    # One write
    bug(
        "a condition is judged on a stale item",
        """
@ materializer/fold/writes.py
+    here = (table, action.pk, action.sk)
-    old = table.items.get(action.pk, action.sk)
+    old = _seen.setdefault(here, table.items.get(action.pk, action.sk))
     try:
@ materializer/fold/writes.py
+_seen: dict = {}
+
+
 @dataclass(slots=True)
 class Decision:
""",
        FOLDED,
    ),
    bug(
        "a condition that does not hold stops no put",
        """
@ materializer/fold/writes.py
-    _require(put.expression, old, before, put.show_refused, limits, level)
""",
        FOLDED,
    ),
    bug(
        "a conditional put takes the short way of one without",
        """
@ materializer/fold/fold_record.py
-    if type(command) is Put and command.expression is None and not table.indexes:
+    if type(command) is Put and not table.indexes:
""",
        FOLDED,
    ),
    bug(
        "a put into a table with indexes takes the short way of one without",
        """
@ materializer/fold/fold_record.py
-    if type(command) is Put and command.expression is None and not table.indexes:
+    if type(command) is Put and command.expression is None:
""",
        FOLDED,
    ),
    bug(
        "an index follows one write late",
        """
@ materializer/fold/writes.py
         if state.partitions == 1:
-            apply_index_updates(decision.index_updates)
+            _late.append(decision.index_updates)
+            if len(_late) > 1:
+                apply_index_updates(_late.pop(0))
@ materializer/fold/writes.py
+_late: list = []
+
+
 @dataclass(slots=True)
 class Decision:
""",
        FOLDED,
    ),
    bug(
        "an index that is being filled takes no writes meanwhile",
        """
@ materializer/fold/index_entries.py
         source = target = None if old is None else entry_key(index, old[0], pk, sk)
+        if index.definition.backfilling:
+            continue
""",
        "tests/unit/materializer/test_definitions.py",
    ),
    bug(
        "an index keeps the entry of an item that moved",
        """
@ materializer/fold/index_entries.py
-        if update.old_key is not None and update.old_key != update.new_key:
+        if update.old_key is not None and update.new_key is None:
""",
        FOLDED,
        "tests/unit/materializer/test_rebuild.py",
    ),
    bug(
        "an expiry is not judged again in the fold",
        """
@ materializer/fold/fold_record.py
-    if value.get("N") != command.at or not due:
+    if not due:
""",
        FOLDED,
        "tests/unit/materializer/test_timers.py",
    ),
    # Changes
    bug(
        "a write that changes nothing publishes a change",
        """
@ materializer/fold/outcomes.py
-    if not changes_item(old, new):
-        return None
""",
        FOLDED,
    ),
    bug(
        "a change is lost: that of an expiry",
        """
@ materializer/fold/fold_record.py
-        change=change(
+        change=None and change(
""",
        FOLDED,
    ),
    bug(
        "a change has no old image",
        """
@ materializer/fold/outcomes.py
-        table, pk, sk, before, after, sequence_number, time, context, None, 0, False, old_size, new_size
+        table, pk, sk, None, after, sequence_number, time, context, None, 0, False, old_size, new_size
""",
        FOLDED,
    ),
    # Transactions
    bug(
        "TransactGetItems reads key by key, not at one position",
        """
@ server/api/operations/transact_get_items.py
-    database.counted.get_isolated(keys, None, partial(_answer, body, reply, gets, limits))
+    found: list[Any] = []
+
+    def read() -> None:
+        database.counted.get_all(keys[len(found) :][:1], True, one)
+
+    def one(stored: list[Any], position: Any) -> None:
+        found.extend(stored)
+        if len(found) < len(keys):
+            database.loop.call_later(0.001, read)
+        else:
+            _answer(body, reply, gets, limits, found, position)
+
+    read()
""",
        "tests/unit/server/test_one_position.py",
    ),
    # The worker
    bug(
        "the fold runs ahead of the disk, and reads show it",
        """
@ materializer/worker.py
+        self._early = fold_record(
+            self.state, Record(self._partition, self.state.next_offset, self.state.log_time, entry)
+        )
         try:
             self._log.append(self._partition, entry, lambda result: self.entry_appended(entry, result))
@ materializer/worker.py
-                outcomes = fold_record(self.state, record, dispose=self._dispose)
+                outcomes = self._early
""",
        WORKED,
    ),
    bug(
        "a write that found no space is answered as done",
        """
@ server/api/write_requests.py
-    if not isinstance(outcome, Applied):
+    if isinstance(outcome, Failed):
+        reply.ok(EMPTY, position)
+    elif not isinstance(outcome, Applied):
""",
        "tests/verification/crash/test_full_disk.py",
    ),
    bug(
        "the queue has no limit",
        """
@ materializer/worker.py
-            self._queued_bytes
+            False
""",
        WORKED,
    ),
    bug(
        "answered commands still count as queued",
        """
@ materializer/worker.py
-        self._queued_bytes -= sum(one.size for one in settled)
""",
        WORKED,
    ),
    bug(
        "a worker continues after an append of unknown fate",
        """
@ materializer/worker.py
+            self._answer_failed(self._take_in_flight(), InternalServerError())
+            self._continue()
-            self._stop(error)

     def _fold(self, record: Record, *, own: bool) -> bool:
""",
        WORKED,
    ),
    bug(
        "a record that cannot be folded is skipped at the start",
        """
@ materializer/refold.py
+            try:
-            outcomes = fold_record(state, record, void)
+                outcomes = fold_record(state, record, void)
+            except FoldError:
+                outcomes = []
+                state.next_offset = record.offset + 1
             if capture is not None:
                 capture.folded(outcomes)
             folded += len(record.entry.commands)
""",
        WORKED,
    ),
    # Capture periods, subscriptions and checkpoints
    bug(
        "a window begins one command too early",
        """
@ materializer/fold/feed/capture.py
-                        begun=sequence_number,
+                        begun=sequence_number - 10**4 - 1,
""",
        WINDOWS,
    ),
    bug(
        "a window ends one command too late",
        """
@ materializer/fold/feed/capture.py
-        replace(period, ended=sequence_number, ended_ms=time_ms)
+        replace(period, ended=sequence_number + 2 * 10**4, ended_ms=time_ms)
""",
        WINDOWS,
    ),
    bug(
        "a deleted table's window stays open",
        """
@ materializer/fold/state.py
-            update_periods(self.periods, table_id, None, sequence_number, self.log_time)
""",
        WINDOWS,
    ),
    bug(
        "a stream that is enabled again in the same millisecond has the label it had",
        """
@ materializer/fold/definitions.py
-    while label in labels:
-        label += 1
""",
        WINDOWS,
    ),
    bug(
        "windows are missing from a dump",
        """
@ materializer/fold/feed/frames.py
-        for period in state.periods[table_id]:
-            yield PERIOD, period.to_json()
+        del table_id
""",
        WINDOWS,
    ),
    bug(
        "an update reads the key of a new item at every level",
        """
@ materializer/fold/writes.py
-        new_item = key if level >= EXPRESSION_LEVEL else {}
+        new_item = key
""",
        "tests/unit/materializer/test_levels.py",
    ),
    bug(
        "an older log gets a setting of a later level",
        """
@ materializer/fold/definitions.py
-    if state.level >= FEED_LEVEL:
+    if True:
""",
        "tests/unit/materializer/feed/test_levels.py",
    ),
    bug(
        "a checkpoint of an older epoch counts",
        """
@ materializer/fold/feed/subscriptions.py
-    if subscription is None or subscription.epoch != command.epoch:
+    if subscription is None:
""",
        SUBSCRIBED,
    ),
    bug(
        "a mark goes back",
        """
@ model/subscriptions/subscription.py
-            partition: max(sequence_number, self.checkpoints.get(partition, sequence_number))
+            partition: sequence_number for partition, sequence_number in checkpoints.items()
""",
        SUBSCRIBED,
    ),
    bug(
        "a subscription that is removed leaves its tables captured",
        """
@ materializer/fold/feed/subscriptions.py
-        definitions.watch(state, table_id, table_id in named, sequence_number)
+        definitions.watch(state, table_id, True, sequence_number)
""",
        SUBSCRIBED,
    ),
    bug(
        "a reset keeps the marks",
        """
@ materializer/fold/feed/subscriptions.py
-            return replace(after, settings=settings, epoch=before.epoch + 1, checkpoints={})
+            return replace(after, settings=settings, epoch=before.epoch + 1)
""",
        SUBSCRIBED,
    ),
    # Reads in portions
    bug(
        "an item that is put between two portions of a page shows in it",
        """
@ materializer/fold/storage.py
             self.size += stored[1] - old[1]
-        for view in self.views:
-            view.keep(pk, sk, old)
""",
        PORTIONS,
    ),
    bug(
        "an item that is removed between two portions of a page is missing from it",
        """
@ materializer/fold/storage.py
             self.size -= old[1]
-            for view in self.views:
-                view.keep(pk, sk, old)
""",
        PORTIONS,
    ),
    bug(
        "a view keeps the last old item of a place and not the first",
        """
@ materializer/fold/view.py
-            self._old.setdefault((self._store.hash_of(pk), pk, sk), old)
+            self._old[self._store.hash_of(pk), pk, sk] = old
""",
        PORTIONS,
    ),
    bug(
        "a view forgets that there was no item",
        """
@ materializer/fold/view.py
-        if self._pk is None or self._pk == pk:
+        if old is not None and (self._pk is None or self._pk == pk):
""",
        PORTIONS,
    ),
    bug(
        "a long page keeps its turn until it has ended",
        """
@ materializer/long_reads.py
-            self._pages.append(go_on)
+            self._pages.appendleft(go_on)
""",
        PORTIONS,
    ),
    bug(
        "verify compares no digests",
        """
@ cli/commands/verify.py
-            if each.digest != ours:
+            if False:
""",
        "tests/behaviour/cli/test_history.py",
    ),
    bug(
        "a stop does not wait for accepted commands",
        """
@ materializer/worker.py
-        if not self._is_scheduled:
-            self._drained()
+        self._drained()
""",
        WORKED,
    ),
]
