"""Bugs in exports, imports and bulk operations, and in the collection of their garbage."""

from tests.verification.planted.bug import bug

FOLD = "tests/unit/materializer/test_jobs.py"
SERVED = "tests/behaviour/spec/test_exports.py"
KILLED = "tests/verification/crash/test_jobs.py"
COLLECTOR = "tests/unit/materializer/test_gc_tuning.py"

BUGS = [
    bug(
        "the progress of a job counts twice",
        """
@ model/jobs.py
-        if not self.is_running or progress["After"] != self.cursor:
+        if not self.is_running:
""",
        FOLD,
    ),
    bug(
        "a token of a job is valid for ever",
        """
@ model/jobs.py
-        if job.kind == kind and job.token == token and time_ms < job.started_ms + _TOKEN_MS:
+        if job.kind == kind and job.token == token:
""",
        FOLD,
    ),
    bug(
        "the deletion of a table leaves its import running",
        """
@ materializer/fold/state.py
-            self._cancel_import(table_id)
""",
        FOLD,
    ),
    bug(
        "a trim does not see an export",
        """
@ materializer/trim.py
-        if job.is_running and job.cut_ms is not None:
+        if job.is_running and job.cut_ms is not None and job.since_ms is not None:
""",
        FOLD,
    ),
    bug(
        "jobs are missing from a dump",
        """
@ materializer/fold/dump.py
-        [_json(JOB, job.to_json()) for job in state.jobs.values()],
""",
        FOLD,
    ),
    bug(
        "an import continues at the beginning of a file",
        """
@ server/buckets/job_files.py
-                    if count > skipped:
+                    if count:
""",
        KILLED,
    ),
    bug(
        "an incremental export ends a millisecond late at its beginning",
        """
@ server/api/operations/exports.py
-    since_ms = of(specification["ExportFromTime"]) - 1
+    since_ms = of(specification["ExportFromTime"]) + 1_000
""",
        SERVED,
    ),
    bug(
        "a change of a NEW_IMAGE export has its old image",
        """
@ server/buckets/export_layout.py
-            change = change._replace(old=None)
+            pass
""",
        SERVED,
    ),
    bug(
        "a symbolic link leads out of a bucket",
        """
@ server/buckets/bucket_folders.py
-        if not Path(os.path.realpath(path)).is_relative_to(self.path):
+        if not path.is_relative_to(self.path):
""",
        SERVED,
    ),
    bug(
        "a key with two dots leads out of a bucket",
        """
@ server/buckets/bucket_folders.py
-    if prefix and any(part in ("", ".", "..") or "\\0" in part or "\\\\" in part for part in parts):
+    if prefix and any(part in ("", ".") or "\\0" in part or "\\\\" in part for part in parts):
""",
        SERVED,
    ),
    bug(
        "a condition of a bulk put is ignored",
        """
@ server/buckets/put_records.py
-        condition[_CONDITION] = _text(members[_CONDITION], _CONDITION)
+        _text(members[_CONDITION], _CONDITION)
""",
        SERVED,
    ),
    bug(
        "a portion of items keeps the garbage of requests",
        """
@ materializer/gc_tuning.py
         if _is_ours and gc.get_count()[0] > _MANY_ADDED:
-            gc.collect()
             gc.freeze()
""",
        COLLECTOR,
    ),
    bug(
        "each full collection keeps what is in use",
        """
@ materializer/gc_tuning.py
-    if is_full and len(gc.get_objects(generation=2)) > _MANY_SURVIVORS:
+    if is_full:
""",
        COLLECTOR,
    ),
]
