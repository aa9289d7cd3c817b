"""Bugs in the formats of exports and imports, and in commands that continue after an interruption."""

from tests.verification.planted.bug import bug

COMMANDS = "tests/behaviour/cli/test_export.py"
FORMATS = "tests/unit/server/buckets/test_item_files.py"
LAYOUT = "tests/unit/server/buckets/test_export_layout.py"

BUGS = [
    bug(
        "an export that continues begins at its first page",
        """
@ cli/commands/export.py
-    pages = _scan(session.client, name, head["next"])
+    pages = _scan(session.client, name, None)
""",
        f"{COMMANDS}::test_an_interrupted_export_continues",
    ),
    bug(
        "an export that continues keeps the bytes behind its checkpoint",
        """
@ cli/lib/export_targets.py
-            self._file.truncate(state["bytes"])
""",
        f"{COMMANDS}::test_an_interrupted_export_continues",
    ),
    bug(
        "an export that continues has another cut",
        """
@ cli/lib/resume.py
-        if self.found is None:
+        if self.found is None or "cut" in self.found:
""",
        f"{COMMANDS}::test_an_interrupted_export_continues",
    ),
    bug(
        "an import that continues counts records that were not written",
        """
@ cli/commands/import_.py
-                self._loader.load(self._placed(file, chunk))
                 done += len(chunk)
                 self.records += len(chunk)
                 advance(len(chunk))
                 self._save(number, done)
+                self._loader.load(self._placed(file, chunk))
""",
        f"{COMMANDS}::test_an_interrupted_import_continues",
    ),
    bug(
        "an import continues with another table of the same name",
        """
@ cli/commands/import_.py
-        if (found.get("table_id"), found.get("files")) != (self._table_id, files):
+        if found.get("files") != files:
""",
        f"{COMMANDS}::test_a_table_of_the_same_name_is_imported_whole",
    ),
    bug(
        "an import takes increments with a gap",
        """
@ cli/lib/import_sources.py
-        following = [export for from_ms, export in later if from_ms <= end_ms]
+        following = [export for _, export in later]
""",
        f"{COMMANDS}::test_a_missing_increment_is_an_error",
        f"{COMMANDS}::test_the_chain_of_exports_covers_all_times",
    ),
    bug(
        "an import begins with the oldest full export",
        """
@ cli/lib/import_sources.py
-    chain = sorted(full, key=lambda export: export.export_ms)[-1:]
+    chain = sorted(full, key=lambda export: export.export_ms)[:1]
""",
        f"{COMMANDS}::test_the_chain_of_exports_covers_all_times",
    ),
    bug(
        "an import skips the lines behind a malformed record",
        """
@ server/buckets/item_files.py
         except RecordError as error:
             yield MalformedRecord(lines.line, lines.offset, str(error))
+            return
""",
        f"{FORMATS}::test_a_malformed_record_is_named_and_skipped",
    ),
    bug(
        "an export in Ion has integers that are no decimals",
        """
@ server/buckets/ion.py
-    return f"{digits}d{zeros}".encode() if digits and zeros else f"{text}.".encode()
+    return f"{digits}d{zeros}".encode() if digits and zeros else text.encode()
""",
        f"{FORMATS}::test_a_book_is_written_as_dynamodb_does",
    ),
    bug(
        "an export of new images has the old ones",
        """
@ server/buckets/export_layout.py
-        if self._facts.view == "NEW_IMAGE":
-            change = change._replace(old=None)
""",
        f"{LAYOUT}::test_an_incremental_export_has_its_data_beside",
    ),
]
