"""Bugs of snapshots: damaged ones that a start uses, and files that a crash leaves."""

from tests.verification.planted.bug import bug

SNAPSHOTS = "tests/unit/materializer/snapshots/test_snapshots.py"
DUMPED = "tests/unit/materializer/snapshots/test_dump.py"
HELPERS = "tests/unit/materializer/test_os_process.py"

BUGS = [
    # Writing
    bug(
        "a snapshot gets its name before it is synced",
        """
@ materializer/snapshot.py
     write_all(file, position, digest.digest())
-    file.sync()
     return digest.hexdigest()
""",
        SNAPSHOTS,
    ),
    bug(
        "the folder is not synced after a snapshot got its name",
        """
@ materializer/snapshots.py
             file.close()
-        self._disk.sync_folder(self.folder)
""",
        SNAPSHOTS,
    ),
    bug(
        "older snapshots are removed before the new one is there",
        """
@ materializer/snapshots.py
             if is_new:
+                self._remove_old(head.offset, 0, start.unusable)
                 self._write(head, state)
""",
        SNAPSHOTS,
    ),
    bug(
        "a new snapshot is removed that has the name of a damaged one",
        """
@ materializer/snapshots.py
-            self._remove_old(head.offset, keep, [each for each in start.unusable if each != head.offset])
+            self._remove_old(head.offset, keep, start.unusable)
""",
        SNAPSHOTS,
    ),
    bug(
        "half a snapshot is left where the disk was full",
        """
@ materializer/snapshots.py
             with suppress(OSError):
-                self._disk.remove(unfinished)
+                pass
             raise
""",
        SNAPSHOTS,
    ),
    bug(
        "two makers write one file",
        """
@ materializer/snapshots.py
         try:
-            return self._disk.lock(self.folder / LOCK_NAME, b"pid %d\\n" % os.getpid())
+            return lambda: None
         except BlockingIOError:
""",
        SNAPSHOTS,
    ),
    bug(
        "a helper has a session of its own, in which its niceness means nothing",
        """
@ materializer/os_process.py
-        process_group=0,
+        start_new_session=True,
""",
        HELPERS,
    ),
    bug(
        "a terminal's Ctrl-C ends the helpers of a server before it",
        """
@ materializer/os_process.py
-        process_group=0,
+        process_group=None,
""",
        HELPERS,
    ),
    # Loading
    bug(
        "a snapshot's position is not that of its state",
        """
@ materializer/snapshots.py
-            head = SnapshotHead.of(state, hash_, chain.value)
+            state.next_offset -= 1
+            head = SnapshotHead.of(state, hash_, chain.value)
""",
        SNAPSHOTS,
    ),
    bug(
        "a snapshot's chain starts again at the snapshot before it",
        """
@ materializer/snapshots.py
         if head is not None and head.chain is not None:
-            return Chain(log.genesis(self._partition), head.offset + 1, head.chain)
+            return Chain(log.genesis(self._partition), head.offset + 1)
""",
        SNAPSHOTS,
    ),
    bug(
        "a copy of a snapshot gets its name before it is verified",
        """
@ materializer/snapshots.py
         self._file.sync()
-        for _ in read_dump(self._snapshots.verified(log, self._offset, read_head(self._file))):
-            pass
+        self._snapshots.verified(log, self._offset, read_head(self._file))
""",
        SNAPSHOTS,
    ),
    bug(
        "the last record is folded again after a snapshot is loaded",
        """
@ materializer/snapshots.py
                     state = load_state(snapshot)
+                    state.next_offset -= 1
+                    for origin in [*state.origins][-1:]:
+                        state.origins[origin] -= 1
""",
        SNAPSHOTS,
    ),
    bug(
        "a record is skipped after a snapshot is loaded",
        """
@ materializer/snapshots.py
                     state = load_state(snapshot)
+                    state.next_offset += 1
""",
        SNAPSHOTS,
    ),
    bug(
        "a damaged snapshot is loaded",
        """
@ materializer/snapshot.py
-    if digest.hexdigest() != snapshot.digest:
+    if False:
""",
        SNAPSHOTS,
    ),
    bug(
        "a damaged head of a snapshot is believed",
        """
@ materializer/snapshot.py
-    if data[check:start] != _check(data[:check]) or start > end:
+    if start > end:
""",
        SNAPSHOTS,
    ),
    bug(
        "a damaged snapshot hides those before it",
        """
@ materializer/snapshots.py
                 unusable.append(offset)
+                break
""",
        SNAPSHOTS,
    ),
    bug(
        "the snapshot of another log is loaded",
        """
@ materializer/snapshots.py
-        if head.log_id != log.log_id:
+        if False:
""",
        SNAPSHOTS,
    ),
    bug(
        "the snapshot of a history that the log does not have is loaded",
        """
@ materializer/snapshots.py
-        if log.hash_of(self._partition, offset) != head.hash:
+        if False:
""",
        SNAPSHOTS,
    ),
    # Contents
    bug(
        "idempotency tokens are not in the snapshot",
        """
@ materializer/fold/dump.py
-    tokens = list(state.tokens.items())
+    tokens = []
""",
        DUMPED,
    ),
    bug(
        "a backfill restarts after a snapshot is loaded",
        """
@ materializer/fold/load.py
-        if cursor is not None:
+        if False:
""",
        DUMPED,
    ),
    bug(
        "items of an index are loaded into its table",
        """
@ materializer/fold/load.py
-        self._store = index.store
         self._is_index = True
""",
        DUMPED,
    ),
    # A digest, a rebuild and a disposal in portions
    bug(
        "a digest includes later writes",
        """
@ materializer/fold/view.py
-        if self._pk is None or self._pk == pk:
+        if self._pk == pk:
""",
        "tests/unit/materializer/test_digest_task.py",
    ),
    bug(
        "a comparison passes over the place where a portion ended",
        """
@ materializer/rebuild.py
-            self._place = entries[-1][:3]
+            self._place = (entries[-1][0] + 1, b"", b"")
""",
        "tests/unit/materializer/test_rebuild.py",
    ),
    bug(
        "a dropped table is freed in one turn",
        """
@ materializer/disposer.py
-        store.discard(min(PORTION_ITEMS, 1 + store.count * _PORTION_BYTES // (store.size + 1)))
+        store.discard(store.count)
""",
        "tests/unit/materializer/test_disposer.py",
    ),
    bug(
        "a store is freed while a view reads it",
        """
@ materializer/disposer.py
-        store = next((store for store in self._waiting if not store.views), None)
+        store = next(iter(self._waiting), None)
""",
        "tests/unit/materializer/test_disposer.py",
    ),
]
