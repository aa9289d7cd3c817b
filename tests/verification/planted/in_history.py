"""Bugs in the versions of the past, and in their effective times."""

from tests.verification.planted.bug import bug

HISTORIES = "tests/verification/simulator/test_simulator.py::test_no_history_is_wrong"
VERSIONS = "tests/unit/materializer/partitions/test_versions.py"
CUTS = "tests/unit/materializer/history/test_cuts.py"
STOPS = "tests/unit/materializer/history/test_follower.py"

ITEMS = "tests/unit/materializer/history/test_item_versions.py"
EPOCHS = "tests/unit/materializer/history/test_epochs.py"
STORES = "tests/unit/materializer/history/test_version_store.py"
DIFFERENCES = "tests/unit/materializer/history/test_differences.py"
CHANGES = "tests/unit/materializer/history/test_changes.py"

DEFINITIONS = "tests/unit/server/test_known_definitions.py"
DECIDED = "tests/unit/materializer/history/test_decided_parts.py"

BUGS = [
    bug(
        "definitions are taken for known beyond the folded records",
        """
@ materializer/history/version_history.py
-        return since, min(until, pack_position(history.next_offset, 0))
+        return since, until
""",
        DEFINITIONS,
    ),
    bug(
        "definitions are taken for known at times that are not closed",
        """
@ materializer/history/version_history.py
-            return since, min(until, history.closed_before)
+            return since, until
""",
        DEFINITIONS,
    ),
    bug(
        "a missing table is taken for known",
        """
@ server/partitions/known_definitions.py
-        if self._void != void or len(found.tables) < len(names):
+        if self._void != void:
""",
        DEFINITIONS,
    ),
    bug(
        "definitions that a void command gave are still known",
        """
@ server/partitions/known_definitions.py
-        if self._void != void:
-            self._clear()
-            self._void = list(void)
+        self._void = list(void)
""",
        DEFINITIONS,
    ),
    bug(
        "a decided transaction is missing from an instant of the past",
        """
@ server/api/as_of.py
-        self._partition.as_of(self._cut, at_instant(read, self._instant if consistent else ()), done)
+        self._partition.as_of(self._cut, read, done)
""",
        "tests/unit/server/test_as_of.py",
    ),
    bug(
        "an item laid over a page is missing from its local index",
        """
@ materializer/history/version_history.py
-        if update.index.definition.kind == "LSI":
+        if update.index.definition.kind == "GSI":
""",
        DECIDED,
    ),
    bug(
        "a transaction is shown that was decided after the positions",
        """
@ materializer/history/decided_parts.py
-        if prepared <= cut and decision <= decided.get(coordinator, -1):
+        if prepared <= cut and coordinator in decided:
""",
        DECIDED,
    ),
    bug(
        "a restore at positions misses a transaction that was decided there",
        """
@ materializer/owner/copy_sources.py
-            self._cuts.of(partition_id), at_instant(request, self._cuts.instant(partition_id)), on_answer
+            self._cuts.of(partition_id), request, on_answer
""",
        DECIDED,
    ),
    bug(
        "a restore from a log misses a transaction that was decided at the cut",
        """
@ cli/lib/table_from_log.py
-        _lay_decided(table, states, position.partition)
+        pass
""",
        "tests/unit/cli/test_table_from_log.py",
    ),
    bug(
        "a restore from a log keeps an item that a decided transaction deletes",
        """
@ cli/lib/table_from_log.py
-            table.items.remove(effect.pk, effect.sk)
+            pass
""",
        "tests/unit/cli/test_table_from_log.py",
    ),
    bug(
        "a difference misses an item that a decided transaction lays over the cut",
        """
@ materializer/history/differences.py
-                rows = chain(rows, _late(self._until, read.table, max(start[0], end)), self._laid())
+                rows = chain(rows, _late(self._until, read.table, max(start[0], end)))
""",
        DECIDED,
    ),
    bug(
        "an instant of the past does not wait for the decision",
        """
@ materializer/history/version_history.py
-            if coordinator in decided and prepared <= cut:
+            if False:
""",
        DECIDED,
    ),
    bug(
        "a page of the past that ends early has the items laid after its end",
        """
@ materializer/history/past_store.py
-    last = b"" if looks is None else looks.last_key
+    last = b""
""",
        DECIDED,
    ),
    bug(
        "the position of a Prepare is lost when a history is opened again",
        """
@ materializer/history/follower.py
-        self._parts = PartWriter(prepared)
+        self._parts = PartWriter(dict.fromkeys(prepared, 0))
""",
        DECIDED,
    ),
    bug(
        "a full disk counts as damage to a history",
        """
@ materializer/history/rocks_engine.py
-        if any(text in str(error) for text in _FULL):
+        if False:
""",
        "tests/verification/crash/test_full_history.py",
    ),
    bug(
        "the decision's time is ignored",
        """
@ materializer/fold/messages.py
-    return command.time if is_agreed else log_time
+    return log_time
""",
        HISTORIES,
    ),
    bug(
        "a version has the time of its record, not log time",
        """
@ materializer/fold/fold_record.py
-    state.log_time = max(state.log_time, time)
+    state.log_time = time
""",
        HISTORIES,
    ),
    bug(
        "the only participant writes at the time of the decision",
        """
@ materializer/fold/messages.py
-    is_agreed = type(message) is Commit and message.changing is not None
+    is_agreed = type(message) is Commit
""",
        VERSIONS,
    ),
    bug(
        "the chain ignores the salt",
        """
@ log/chain.py
-        salt = entry.salt or b""
+        salt = b""
""",
        "tests/unit/log/test_chain.py",
    ),
    bug(
        "a reason is lost on a shared log",
        """
@ log/context.py
-        if not self.encoded.endswith(NO_REASON) or first_end(self.encoded, 0) != len(first):
-            return None
+        first = self.encoded[: first_end(self.encoded, 0)]
""",
        "tests/unit/log/test_codec.py",
    ),
    bug(
        "a write that requires a digest is always done",
        """
@ materializer/fold/writes.py
-        if expression.condition != item_digest(old):
+        if expression.condition != item_digest(old) and old is None:
""",
        "tests/unit/materializer/test_digest_conditions.py",
    ),
    bug(
        "a restored table is ACTIVE before its items are loaded",
        """
@ model/tables.py
-    if definition.is_restoring:
-        return definition
""",
        "tests/unit/materializer/test_restores.py",
    ),
    bug(
        "an item is loaded into an ACTIVE table",
        """
@ materializer/fold/restores.py
-    if table is None or not table.definition.is_restoring:
+    if table is None:
""",
        "tests/unit/materializer/test_restores.py",
    ),
    bug(
        "the cursor of a restore is missing from a dump",
        """
@ materializer/fold/dump.py
-        [_json(RESTORE, [table, state.restores[table].hex()]) for table in sorted(state.restores)],
""",
        "tests/unit/materializer/test_restores.py",
    ),
    bug(
        "a backup goes with its table",
        """
@ materializer/fold/state.py
             self.restores.pop(table_id, None)
+            self.backups = {arn: one for arn, one in self.backups.items() if one.definition.id != table_id}
""",
        "tests/unit/materializer/test_restores.py",
    ),
    bug(
        "a backup is cut at the catalog's clock",
        """
@ model/backups.py
-        cut_ms=max(request["TimeMs"], time_ms),
+        cut_ms=time_ms,
""",
        "tests/unit/materializer/test_restores.py",
    ),
    bug(
        "a restart keeps the versions after the checkpoint",
        """
@ materializer/history/follower.py
-        roll_back(self._engine, batch, end)
""",
        STOPS,
    ),
    bug(
        "a skip is ignored",
        """
@ materializer/history/follower.py
-        outcomes = fold_record(self.state, announced_record, self.void)
+        outcomes = fold_record(self.state, announced_record)
""",
        STOPS,
    ),
    bug(
        "a skip is ignored until the history has folded it",
        """
@ materializer/history/epochs.py
-        self._declare_void(self._void.union(each for each in void if each[0] >= self._begin))
+        assert all(void)
""",
        STOPS,
    ),
    bug(
        "a tombstone is lost",
        """
@ materializer/history/version_store.py
         if old is not None:
-            self._write(pk, sk, self._keys.key(pk, sk), old, None)
+            self.count -= 1
""",
        CUTS,
    ),
    bug(
        "a key of a generation that memory has lost is taken for new",
        """
@ materializer/history/version_store.py
-        self._kept_through = -1 if self.count else writer.generation + 1
+        self._kept_through = -1 if self.count else writer.generation + 2
""",
        STORES,
    ),
    bug(
        "an item of the base is taken for new",
        """
@ materializer/history/version_store.py
-        self._kept_through = -1 if self.count else writer.generation + 1
+        self._kept_through = writer.generation + 1
""",
        STORES,
    ),
    bug(
        "a cut by position shows what was folded after it",
        """
@ materializer/history/version_keys.py
-    return version >= cut and version[POSITION_AT:] >= cut[POSITION_AT:]
+    return version >= cut
""",
        CUTS,
    ),
    bug(
        "a time is closed while a transaction holds keys",
        """
@ materializer/history/follower.py
-        history.closed_before = min([state.log_time, *(part.time for part in prepared)])
+        history.closed_before = state.log_time
""",
        CUTS,
    ),
    bug(
        "the count at a time lacks transactions that were folded later",
        """
@ materializer/history/past_store.py
-                items, size = items + late.items, size + late.size
+                assert late
""",
        CUTS,
    ),
    bug(
        "the count amid an entry is that after it",
        """
@ materializer/history/timeline.py
-    later = [version for version in versions if version.position > packed]
+    later: list[VersionWritten] = []
""",
        CUTS,
    ),
    bug(
        "a global index entry has the time of the decision in the version store",
        """
@ materializer/history/version_store.py
-        version = key + (writer.log_stamp if self.is_global_index else writer.stamp)
+        version = key + writer.stamp
""",
        CUTS,
    ),
    bug(
        "a local index is read at another time than its item",
        """
@ materializer/history/follower.py
-                    index.store.is_global_index = index.definition.kind == "GSI"
+                    index.store.is_global_index = True
""",
        CUTS,
    ),
    bug(
        "a range skips nothing behind a key with many versions",
        """
@ materializer/history/past_store.py
-                        at = cursor.seek(key + AFTER_OLDEST)
-                        steps, without_steps = 0, _KEYS_WITHOUT_STEPS  # they probably have many versions too
""",
        CUTS,
    ),
    bug(
        "a range by position shows what was folded after it",
        """
@ materializer/history/past_store.py
-        if written < cut or written[POSITION_AT:] < last_position:  # is_visible, without a call
+        if written < cut:
""",
        CUTS,
    ),
    bug(
        "an item without an entry in a new index is taken for one with an entry",
        """
@ materializer/fold/index_entries.py
-            old_entry = UNKNOWN if index.kept is not None or index.is_filling else old[1]
+            old_entry = UNKNOWN if index.kept is not None else old[1]
""",
        "tests/unit/materializer/partitions/test_versions.py",
    ),
    bug(
        "a page that looked at too many deleted keys ends the query",
        """
@ materializer/history/past_store.py
         if looks is not None and not looks.take(looked):
-            looks.stop(key, stored or _oldest(cursor, key))
-            return
-
-
-def walk_back(
+            return
+
+
+def walk_back(
""",
        "tests/unit/materializer/history/test_pages.py",
    ),
    bug(
        "a trim leaves the history's older versions",
        """
@ materializer/history/epochs.py
-        for epoch in [each for each in self._epochs if each.first < self._begin]:
+        for epoch in self._epochs[:0]:
""",
        STOPS,
    ),
    bug(
        "the foundation of a trimmed log is no version",
        """
@ materializer/history/base.py
-        target.extend(pks, sks, items)
+        assert len(pks) == len(sks) == len(items)
""",
        STOPS,
    ),
    bug(
        "an aborted transaction is no refusal of its writes",
        """
@ materializer/history/attribution.py
-            is_aborted = own is None or own.commit is False
+            is_aborted = own is None
""",
        ITEMS,
    ),
    bug(
        "a rollback leaves refused writes that the log lost",
        """
@ materializer/history/follower.py
-        roll_back_attribution(self._engine, batch, end)
""",
        ITEMS,
    ),
    bug(
        "a history at a time has refused writes after it",
        """
@ materializer/history/item_versions.py
-            if not is_visible(entry.stamp, cut) or not is_visible(entry.stamp, first):
+            if False:
""",
        ITEMS,
    ),
    bug(
        "a difference misses writes that were decided before a time and folded after it",
        """
@ materializer/history/differences.py
-    if until.time_ms is None:
+    if True:
""",
        DIFFERENCES,
    ),
    bug(
        "a difference shows an item once for each of its versions",
        """
@ materializer/history/differences.py
-                return newest == version.stamp
+                return True
""",
        DIFFERENCES,
    ),
    bug(
        "a past change is numbered by its place in its table",
        """
@ materializer/history/changes.py
-            nths = author.nths_in(table, len(by_command))
+            nths = range(len(by_command))
""",
        CHANGES,
    ),
    bug(
        "a past change has the stream that its own record enables",
        """
@ materializer/history/changes.py
-        return self._labels[bisect_left(self._positions, packed)]
+        return self._labels[bisect_left(self._positions, packed | LAST_INDEX)]
@ materializer/history/changes.py
-from .version_keys import read_key, unpack_position
+from .version_keys import LAST_INDEX, read_key, unpack_position
""",
        CHANGES,
    ),
    bug(
        "the old image of a past change is that of another key",
        """
@ materializer/history/changes.py
-    old = cursor.value() if before is not None and before.startswith(key) else None
+    old = cursor.value() if before is not None else None
""",
        CHANGES,
    ),
    bug(
        "the changes of a transaction count those of one partition",
        """
@ materializer/history/attribution.py
-                changing = share.changing
""",
        CHANGES,
    ),
    bug(
        "the base of an epoch is ignored",
        """
@ materializer/history/base.py
-            put(key + written, stored)
+            assert stored
""",
        CUTS,
    ),
    bug(
        "the base of an epoch is a version of its items",
        """
@ materializer/history/item_versions.py
-            elif epoch.first_offset == horizon:
+            else:
""",
        ITEMS,
    ),
    bug(
        "the first position of an epoch is read in the one before",
        """
@ materializer/history/epochs.py
-        older = [each for each in epochs if each.first <= offset]
+        older = [each for each in epochs if each.first < max(1, offset)]
""",
        CUTS,
    ),
    bug(
        "an epoch ends with the transactions that are prepared there undecided",
        """
@ materializer/history/follower.py
-            and self.state.next_offset >= end.offset
-            and self.history.closed_before >= end.time_ms
+            and self.state.next_offset >= end.offset
""",
        CUTS,
    ),
    bug(
        "an older epoch ignores a skip",
        """
@ materializer/history/epochs.py
-            if any(offset < folded_to for offset, _ in void - epoch.void):
+            if epoch.follower is not None and any(offset < folded_to for offset, _ in void - epoch.void):
""",
        EPOCHS,
    ),
    bug(
        "an epoch begins from a snapshot that has a void command",
        """
@ materializer/history/epochs.py
-        if not void <= set(state.voided):
+        if not void <= set(state.voided) and copy.snapshot is None:
""",
        EPOCHS,
    ),
    bug(
        "a trim keeps the epoch that contains the horizon",
        """
@ materializer/history/epochs.py
-        for epoch in [each for each in self._epochs if each.first < self._begin]:
+        for epoch in [each for each in self._epochs if each.end is not None and each.end.offset <= self._begin]:
""",
        EPOCHS,
    ),
    bug(
        "an unused history keeps what a trim removes",
        """
@ materializer/history/epochs.py
-            kept = [each for each in saved["epochs"] if is_readable and each["first"] >= horizon]
+            kept = [each for each in saved["epochs"] if is_readable and each["first"] >= 0 * horizon]
""",
        EPOCHS,
    ),
    bug(
        "a damaged snapshot is a base",
        """
@ materializer/snapshot.py
-    if digest.hexdigest() != snapshot.digest:
+    if len(digest.hexdigest()) != len(snapshot.digest):
""",
        EPOCHS,
    ),
    bug(
        "the rest of the last trimmed record is passed over",
        """
@ model/sequence_numbers.py
-    return max(0, offset if number < number_before(offset + 1) else offset + 1)
+    return max(0, offset + 1)
""",
        "tests/unit/materializer/history/test_changes.py",
    ),
    bug(
        "a disk that fails while a history is closed is a traceback",
        """
@ server/history/worker.py
             follower.close()
-        except OSError as error:
+        except FoldbError as error:
             logger.error("cannot save the history of partition %d: %s", partition_id, error)
""",
        "tests/unit/server/test_history_worker.py",
    ),
    bug(
        "a history whose disk failed is folded on without being opened again",
        """
@ server/history/worker.py
             except OSError as error:
-                self._abandon(due)
                 self._fold_later(due, error)
""",
        "tests/unit/server/test_history_worker.py",
    ),
]
