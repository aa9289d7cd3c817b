"""Bugs of the log: durability, and the treatment of damage."""

from tests.verification.planted.bug import bug

FAULTS, RECOVERED = "tests/unit/log/test_faults.py", "tests/unit/log/test_recovery.py"
ON_DISK = "tests/unit/log/test_local.py"
DISPLACED = "tests/unit/log/test_displaced.py"
BY_PROCESS = "tests/unit/log/test_disk_process.py"
BACKED_UP = "tests/unit/log/test_backup.py"
VERIFIED = "tests/behaviour/cli/test_verify_and_serve.py"


BUGS = [
    # Writing
    bug(
        "no fdatasync at all",
        """
@ log/local/filesystem.py
-        os.fdatasync(descriptor)
+        pass
""",
        ON_DISK,
    ),
    bug(
        "no sync after an append",
        """
@ log/local/writer.py
+            pass
-            if self._fsync == "always":
-                self._file.sync()
         except OSError as error:
""",
        FAULTS,
    ),
    bug(
        "acknowledged before it is synced",
        """
@ log/local/writer.py
+            pass
-            if self._fsync == "always":
-                self._file.sync()
         except OSError as error:
@ log/local/log.py
             self._complete(append.callback, result)
+        self._writer._file.sync()
         self._groups += 1
""",
        FAULTS,
    ),
    bug(
        "the disk process does not sync",
        """
@ log/local/disk_worker.py
-        _sync(file)
+        pass
""",
        BY_PROCESS,
    ),
    bug(
        "the disk process answers before it syncs",
        """
@ log/local/disk_worker.py
-        failure = _write_durably(files[0], position, data)
+        log.sendall(ANSWER.pack(0))
+        failure = _write_durably(files[0], position, data)
         if mark and not failure:
             with suppress(OSError):
                 _write(files[1], 0, mark)
-        log.sendall(ANSWER.pack(failure))
""",
        BY_PROCESS,
    ),
    bug(
        "the disk process answers before readers see the entry",
        """
@ log/local/disk_worker.py
+        log.sendall(ANSWER.pack(failure))
         if mark and not failure:
             with suppress(OSError):
                 _write(files[1], 0, mark)
-        log.sendall(ANSWER.pack(failure))
""",
        BY_PROCESS,
    ),
    bug(
        "readers see an entry whose sync failed",
        """
@ log/local/disk_worker.py
-        if mark and not failure:
+        if mark:
""",
        BY_PROCESS,
    ),
    bug(
        "a failure of the disk process is taken for success",
        """
@ log/local/log.py
-        elif result:
+        elif False:
""",
        FAULTS,
    ),
    bug(
        "the group of a dead disk process is lost",
        """
@ log/local/log.py
-            self._waiting.extendleft(reversed(group))  # to be written again, the same bytes to the same place
+            pass
""",
        BY_PROCESS,
    ),
    bug(
        "the disk process of a killed server has no lock",
        """
@ log/local/disk_process.py
-                    pass_fds=(theirs.fileno(), folder.held, _descriptor(lock)),
+                    pass_fds=(theirs.fileno(),),
""",
        BY_PROCESS,
    ),
    bug(
        "the thread writes beside the disk process",
        """
@ log/local/log.py
-        with self._writing:
+        with threading.Lock():
             self._thread_waits = False
""",
        BY_PROCESS,
    ),
    bug(
        "the wrong file is synced",
        """
@ log/local/writer.py
             if self._fsync == "always":
-                self._file.sync()
+                (self._mark or self._file).sync()
         except OSError as error:
""",
        FAULTS,
    ),
    bug(
        "an entry is readable before it is synced",
        """
@ log/local/writer.py
             write_all(self._file, blocks.position, blocks.data)
+            self._position += len(blocks.data)
+            self._chain = blocks.chain
+            self._publish()
+            self._position -= len(blocks.data)
             if self._fsync == "always":
""",
        FAULTS,
    ),
    bug(
        "the folder is not synced after a segment begins",
        """
@ log/local/filesystem.py
-        disk.sync_folder(path.parent)
+        pass
""",
        FAULTS,
    ),
    bug(
        "the folder above a new one is not synced",
        """
@ log/local/filesystem.py
-        self.sync_folder(path.parent)
""",
        ON_DISK,
    ),
    bug(
        "a folder's sync does nothing",
        """
@ log/local/filesystem.py
-            os.fsync(descriptor)
+            pass
""",
        ON_DISK,
    ),
    bug(
        "a segment gets its name before it is synced",
        """
@ log/local/filesystem.py
-        file.sync()
         if replaces:
""",
        FAULTS,
    ),
    bug(
        "a full segment is not synced before the next begins",
        """
@ log/local/writer.py
-        self.finish()
         data = segment.header(self._header.log_id, CURRENT, self._chain)
""",
        FAULTS,
    ),
    bug(
        "a full segment keeps the zeros behind its end",
        """
@ log/local/writer.py
-        if self._file.size() > self._position:
+        if False:
""",
        FAULTS,
        "tests/unit/log/test_filling.py",
    ),
    bug(
        "a sync is tried again after it failed",
        """
@ log/local/writer.py
             if self._fsync == "always":
+                try:
-                self._file.sync()
+                    self._file.sync()
+                except OSError:
+                    self._file.sync()
         except OSError as error:
""",
        FAULTS,
    ),
    bug(
        "writing continues after a failed sync",
        """
@ log/local/log.py
-        if self._failure is not None:
-            raise self._failure
         try:
""",
        FAULTS,
    ),
    bug(
        "acknowledged entries are not synced at the end",
        """
@ log/local/log.py
-                self._writer.finish()
+                pass
""",
        FAULTS,
    ),
    # Writes that the disk refuses in part
    bug(
        "a short write is taken for a whole one",
        """
@ log/local/filesystem.py
-    while data:
+    if data:
         written = file.write(position, data)
""",
        FAULTS,
    ),
    bug(
        "a full disk is ignored",
        """
@ log/local/writer.py
-            if failure is error:
-                raise
-            raise failure from error
+            del failure
""",
        FAULTS,
    ),
    bug(
        "a partial write on a full disk stays in the file",
        """
@ log/local/writer.py
-        self._undo_write()
         return LogFullError(f"no space left for the log in {self._folder}: make room, then writes succeed")
""",
        FAULTS,
    ),
    bug(
        "the removal of a partial write is not durable",
        """
@ log/local/writer.py
         self._file.truncate(self._position)
-        self._file.sync()
""",
        FAULTS,
    ),
    bug(
        "a write that failed stays in the chain",
        """
@ log/local/writer.py
-        chain = self._chain.copy()
+        chain = self._chain
""",
        FAULTS,
    ),
    # Other processes in the folder
    bug(
        "a segment replaces another of its name",
        """
@ log/local/filesystem.py
-            disk.name(unfinished, path)
+            disk.rename(unfinished, path)
""",
        DISPLACED,
    ),
    bug(
        "files are reached by the folder's path and not by its descriptor",
        """
@ log/local/filesystem.py
-        return path.relative_to(self._root)
+        return path.absolute()
""",
        DISPLACED,
    ),
    bug(
        "a segment that was removed is written and acknowledged",
        """
@ log/local/writer.py
-        self.check()
         self._show()
""",
        DISPLACED,
    ),
    bug(
        "a lock that was removed is not missed",
        """
@ log/local/writer.py
-        for file, name in (self._file, segment_name), (self._lock, LOCK_NAME):
+        for file, name in ((self._file, segment_name),):
""",
        DISPLACED,
    ),
    bug(
        "a segment that was replaced by a copy is taken for the one that is written",
        """
@ log/local/filesystem.py
-        return self._name.identity() == self._identity
+        return self._name.identity() is not None
""",
        "tests/verification/crash/test_displaced.py::test_a_lost_segment_stops_the_server_and_comes_back",
    ),
    bug(
        "an idle log does not notice that its segment was removed",
        """
@ log/local/log.py
-            self._writer.check()
             self._writer.restore_mark()
""",
        DISPLACED,
    ),
    bug(
        "a mark that was replaced is not written again",
        """
@ log/local/log.py
-            self._writer.restore_mark()
""",
        DISPLACED,
    ),
    bug(
        "a log that is closed does not notice that its segment was removed",
        """
@ log/local/writer.py
         self.sync()
-        self.check()
""",
        DISPLACED,
    ),
    bug(
        "a full segment is let go without a last look",
        """
@ log/local/writer.py
-            self.check()  # once more before the full segment is closed
+            pass
""",
        DISPLACED,
    ),
    bug(
        "the process ends though its records are in no file",
        """
@ log/local/log.py
-        except OSError as failure:
-            logger.critical(
+        except OSError as failure:
+            self._stop_with(AppendUnknownError(str(failure)), self._unsaved)
+            logger.critical(
""",
        DISPLACED,
    ),
    bug(
        "a side file takes the name of any segment",
        """
@ log/local/displaced.py
-    if _has_all_of(saved, present):
+    if True:
""",
        DISPLACED,
    ),
    bug(
        "a side file is taken back though it does not continue the log",
        """
@ log/local/displaced.py
-        _check_continues(disk, folder, side_name, saved, sequence)
""",
        DISPLACED,
    ),
    # Recovery at a start
    bug(
        "a recovered end is served as it is read, not written again and synced",
        """
@ log/local/recovery.py
-        write_all(file, position, tail)
-        file.sync()
""",
        FAULTS,
        RECOVERED,
    ),
    bug(
        "a recovered end is synced but not written again",
        """
@ log/local/recovery.py
-        write_all(file, position, tail)
         file.sync()
""",
        FAULTS,
    ),
    bug(
        "a recovered segment's name is not synced",
        """
@ log/local/recovery.py
         file.close()
-    disk.sync_folder(history.folder)
""",
        FAULTS,
    ),
    bug(
        "the log is cut at the first bad block, wherever it is",
        """
@ log/local/torn_write.py
-        and not segment.is_torn(data, scan.end, last.marker, scan.chain)
+        and False
""",
        RECOVERED,
    ),
    bug(
        "every bad block is damage, a torn write too",
        """
@ log/local/torn_write.py
-        and not segment.is_torn(data, scan.end, last.marker, scan.chain)
""",
        RECOVERED,
    ),
    bug(
        "bytes after zeros are not read",
        """
@ log/local/torn_write.py
-    return data[scan.end : -(-end // SECTOR) * SECTOR] if end > scan.end else b""
+    return data[scan.end : -(-end // SECTOR) * SECTOR] if data[scan.end : scan.end + 1].strip(b"\\0") else b""
""",
        RECOVERED,
        "tests/unit/log/test_faults.py",
        "tests/verification/damage/test_log_damage.py",
        "tests/unit/log/test_filling.py",
    ),
    bug(
        "a torn end is cut from a log that is refused for earlier damage",
        """
@ log/local/recovery.py
-    if torn:
-        history.check_older()  # before any change: a damaged older segment refuses the log
""",
        RECOVERED,
        "tests/verification/damage/test_log_damage.py",
    ),
    bug(
        "the durable position is ignored",
        """
@ log/local/torn_write.py
-    if known and base + scan.end < known.synced:
+    if False:
""",
        RECOVERED,
    ),
    bug(
        "a lost last segment is not missed",
        """
@ log/local/torn_write.py
-    if mark and mark.sequence > last:
+    if False:
""",
        RECOVERED,
    ),
    bug(
        "a log without its segments is begun again",
        """
@ log/local/recovery.py
-        if name in strange:
+        strange = [each for each in strange if each != durable_position.NAME]
+        if False:
""",
        RECOVERED,
        "tests/behaviour/cli/test_refusals.py::test_a_log_without_its_segments_is_refused",
    ),
    # The chain
    bug(
        "no hash is compared",
        """
@ log/local/segment.py
-    is_checked = partition is None or frame.partition == partition
+    is_checked = False
""",
        RECOVERED,
    ),
    bug(
        "a read hashes the records of other partitions, and not its own",
        """
@ log/local/segment.py
-    is_checked = partition is None or frame.partition == partition
+    is_checked = partition is None or frame.partition != partition
""",
        f"{RECOVERED}::test_damage_is_named_by_its_place_and_met_by_the_read_of_its_partition",
    ),
    bug(
        "damage is named where a read meets it, not where it begins",
        """
@ log/local/history.py
-                self._check_blocks(header, end)  # the damage may be in a record before, of another partition
+                pass
""",
        f"{RECOVERED}::test_damage_is_named_by_its_place_and_met_by_the_read_of_its_partition",
    ),
    bug(
        "a hash of the entry alone, without the hash before it",
        """
@ log/local/segment.py
-    chain.hash = _digest(chain.hash, rest)
+    chain.hash = _digest(body)
@ log/local/segment.py
-    if is_checked and hash_ != _digest(chain.hash, data[frame.hashed : frame.end - HASH_BYTES]):
+    if is_checked and hash_ != _digest(frame.entry(data)):
""",
        f"{RECOVERED}::test_two_blocks_that_changed_places_are_refused",
    ),
    bug(
        "a record does not state the unsynced entries before it",
        """
@ log/local/writer.py
-                unsynced + len(data),
+                0,
""",
        RECOVERED,
        FAULTS,
    ),
    bug(
        "segments are not held to the chain of those before them",
        """
@ log/local/history.py
-        if chain != header.chain:
+        if False:
""",
        RECOVERED,
    ),
    bug(
        "a segment of another log is taken for ours",
        """
@ log/local/history.py
-        if self.headers and header.log_id != self.headers[0].log_id:
+        if False:
""",
        RECOVERED,
    ),
    bug(
        "a header's hash is not compared",
        """
@ log/local/segment.py
-    if marker != _digest(data[:end]):
+    if False:
""",
        RECOVERED,
    ),
    bug(
        "a later format is read as if it were ours",
        """
@ log/local/segment.py
-    if meta.get("foldb.format") != FORMAT:
+    if False:
""",
        RECOVERED,
    ),
    # Reading
    bug(
        "the first record of every segment but the first is skipped",
        """
@ log/local/history.py
-                if frame.partition == partition and frame.offset >= start:
+                if frame.partition == partition and frame.offset >= max(start, header.chain.ends[partition] + 1):
""",
        ON_DISK,
        "tests/unit/log/test_contract.py",
    ),
    bug(
        "a reader shows entries that were not acknowledged",
        """
@ log/local/reader.py
-        durable = max(scan.synced, min(scan.end, acknowledged - base))
+        durable = scan.end
""",
        ON_DISK,
    ),
    bug(
        "a read shows entries appended after its start",
        """
@ log/local/history.py
             noted = None
-            end = self._end(header, limit)
+            end = self.size(header)
""",
        FAULTS,
        "tests/unit/log/test_contract.py",
    ),
    bug(
        "log time goes back with the clock",
        """
@ log/local/segment.py
-    chain.time = max(chain.time, time_ms)
+    chain.time = time_ms
""",
        "tests/unit/log/test_contract.py",
    ),
    # A reader that is not the server
    bug(
        "a held reader shows no record behind the mark",
        """
@ log/local/reader.py
-        self._chain, self._position = ending.scan.chain, ending.base + ending.scan.end
""",
        f"{ON_DISK}::test_a_held_reader_shows_every_record_that_a_start_keeps",
    ),
    bug(
        "a reader continues without the segment of the durable position",
        """
@ log/local/reader.py
-        known = known_end(self._history, mark)
+        known = mark if mark and mark.sequence == self._history.last.chain.sequence else None
""",
        VERIFIED,
    ),
    bug(
        "a reader does not look for damage in the last segment",
        """
@ log/local/reader.py
-        scan = judge_end(self._history, data, 0, self._chain, known, base)
+        scan = segment.scan(data, 0, self._header.marker, self._chain)
""",
        VERIFIED,
    ),
    bug(
        "acknowledged records that are missing are not reported",
        """
@ log/local/reader.py
-            missing=max(0, ending.acknowledged - ending.base - ending.scan.end),
+            missing=0,
""",
        "tests/behaviour/cli/test_verify_and_serve.py::test_verify_refuses_a_log_that_lacks_acknowledged_writes",
    ),
    # Copies
    bug(
        "a backup copies bytes without a look at their hashes",
        """
@ log/local/backup.py
-            part.history.check_follows(header, chain or header.chain)
             at, start = header.size, 0
             chain = header.chain.copy()
-        while at < len(data):
+        while False:
""",
        f"{BACKED_UP}::test_damage_to_the_source_does_not_reach_the_backup",
    ),
    bug(
        "a backup is appended to though it was served since",
        """
@ log/local/backup.py
-    return memoryview(data) == memoryview(source.data(theirs[-1]))[:size]
+    return True
""",
        BACKED_UP,
    ),
    bug(
        "a backup of one log is appended to that of another",
        """
@ log/local/backup.py
     ours, theirs = history.headers[0].log_id, part.history.headers[0].log_id
-    if ours != theirs:
+    if False:
""",
        BACKED_UP,
    ),
    bug(
        "a restore has its mark before its records are there",
        """
@ log/local/backup.py
-        _write_mark(disk, target, part.limit)
-        return _copy(disk, part, target, None, progress)
+        copied = _copy(disk, part, target, None, progress)
+        _write_mark(disk, target, part.limit)
+        return copied
""",
        BACKED_UP,
    ),
    # Permissions
    bug(
        "a second process may write",
        """
@ log/local/filesystem.py
-            fcntl.flock(file.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
+            pass
""",
        ON_DISK,
    ),
    bug(
        "the folder itself is not locked",
        """
@ log/local/recovery.py
-        held.lock_folder()
""",
        DISPLACED,
    ),
    bug(
        "everybody may look into the data folder",
        """
@ log/local/filesystem.py
-            os.mkdir(self._at(path), 0o700, dir_fd=self._descriptor)
+            os.mkdir(self._at(path), dir_fd=self._descriptor)
@ log/local/filesystem.py
-        os.chmod(self._at(path), 0o700, dir_fd=self._descriptor)
""",
        ON_DISK,
    ),
    bug(
        "a used idempotency token is not written down",
        """
@ log/binary.py
-            return prefix + b"".join([write(getattr(record, attribute)) for attribute, write in writers])
+            return prefix + b"".join(
+                [write(None if attribute == "token" else getattr(record, attribute)) for attribute, write in writers]
+            )
""",
        "tests/unit/log/test_codec.py",
    ),
    # Log time
    bug(
        "log time follows every step of the clock",
        """
@ server/clock.py
-        if abs(offset - self._offset) <= self._limit_ms:
+        if True:
""",
        "tests/unit/server/test_clock.py",
    ),
]
