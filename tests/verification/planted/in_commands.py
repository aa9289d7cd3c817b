"""Bugs of the command line's tools: rehearsals that write, loads that flatter, copies that lose."""

from tests.verification.planted.bug import bug

DRY_RUN = "tests/behaviour/cli/test_dry_run.py"
LOAD = "tests/behaviour/cli/test_load.py"
COPY = "tests/behaviour/cli/test_copy.py"
DOCTOR = "tests/behaviour/cli/test_doctor.py"
TRIGGERS = "tests/behaviour/cli/stream/test_triggers.py"
DEBUG = "tests/behaviour/cli/stream/test_trigger_debug.py"

BUGS = [
    bug(
        "a dry run of the deletion of a backup deletes it",
        """
@ cli/commands/backup.py
             | {"table": table["TableName"], "items": table["ItemCount"], "bytes": details["BackupSizeBytes"]}
         )
-        return
""",
        f"{DRY_RUN}::test_a_dry_run_deletes_no_table_item_backup_or_trigger",
    ),
    bug(
        "a replay calls a command without being asked for side effects",
        """
@ streams/sinks/command.py
-    acts_outside=True,
+    acts_outside=False,
""",
        TRIGGERS + "::test_a_replay_has_side_effects_only_if_asked_for",
    ),
    bug(
        "a latency counts from the time at which the request was sent",
        """
@ cli/lib/load_generator.py
         try:
+            due = due._replace(at_s=self._clock() - self._started)
             answer = caller.call_once(due.operation, due.body)
""",
        f"{LOAD}::test_a_stall_is_measured_for_every_request_that_it_delays",
    ),
    bug(
        "an interrupted copy begins again",
        """
@ cli/commands/copy.py
-        self._segments, self._shards = saved["segments"], saved["shards"]
+        self._shards = saved["shards"]
""",
        f"{COPY}::test_an_interrupted_copy_continues_where_it_stopped",
    ),
    bug(
        "a copy writes an older change of a key over the last one",
        """
@ cli/lib/dynamodb_source.py
-        last[repr(sorted(key.items()))] = request
+        last.setdefault(repr(sorted(key.items())), request)
""",
        f"{COPY}::test_changes_during_the_scan_are_applied_until_caught_up",
    ),
    bug(
        "the doctor reads only the headers of segments",
        """
@ cli/commands/doctor.py
-        for _ in log.read(partition, max(offset, log.begin(partition))):
+        for _ in range(log.end(partition) - max(offset, log.begin(partition))):
""",
        f"{DOCTOR}::test_damage_of_the_last_two_segments_is_found",
    ),
    bug(
        "the debugger gets a batch of changes in place of one",
        """
@ cli/commands/trigger/debug.py
-    message, body = sink.request(Batch(name, [change]))
+    message, body = sink.request(Batch(name, [change, change]))
""",
        f"{DEBUG}::test_each_kind_of_function_is_stepped_through",
    ),
]
