"""Bugs of nodes that share a log: which node serves a partition, and calls whose node is lost."""

from tests.verification.planted.bug import bug

ASSIGNMENT, CLUSTER = "tests/behaviour/cluster/test_assignment.py", "tests/behaviour/cluster/test_cluster.py"
LINKS, REMOTE = "tests/behaviour/cluster/test_links.py", "tests/behaviour/cluster/test_remote.py"
REPLAY = "tests/behaviour/cluster/test_replay.py"
STALE = "tests/behaviour/cluster/test_served.py::test_a_standby_that_is_behind_answers_stale_reads"


BUGS = [
    bug(
        "a link that is closed takes the hello of the other node for an answer",
        """
@ server/cluster/link.py
-        if self.authenticated.cancelled():
+        if False:
""",
        LINKS,
    ),
    bug(
        "a write whose fate is not known is made again at another node",
        """
@ server/cluster/remote.py
-            case Lost() if not call.method.is_repeatable:
+            case Lost() if False:
""",
        REMOTE,
    ),
    bug(
        "a node is given partitions that it has not folded",
        """
@ server/cluster/assignment.py
-        target if owner is None or partition_id in target.warm else owner
+        target
""",
        ASSIGNMENT,
    ),
    bug(
        "a node serves a partition before it has caught up",
        """
@ server/cluster/hosting.py
-        if partition_id not in self.warm or partition_id not in self.partitions.hosted:
+        if partition_id not in self.partitions.hosted:
""",
        CLUSTER,
    ),
    bug(
        "a process that was paused takes its old state for the newest",
        """
@ server/cluster/hosting.py
-        self.warm.clear()
+        pass
""",
        CLUSTER,
    ),
    bug(
        "a read at home shows less than was seen before",
        """
@ server/cluster/cluster.py
-        return link.is_up and folded >= seen.offset and folded + 1 >= link.positions.get(partition_id, 0)
+        return link.is_up
""",
        CLUSTER,
    ),
    bug(
        "a caller is believed without proof",
        """
@ server/cluster/listener.py
-            check_proof(isinstance(value, list) and value and value[0], identity, "caller", *self._nonces)
+            assert check_proof
""",
        LINKS,
    ),
    bug(
        "the proof of one end is accepted from the other",
        """
@ server/cluster/handshake.py
-    signed = b"%b\\0%b%b%b" % (role.encode(), caller_nonce, listener_nonce, identity.log_id)
+    signed = b"%b%b%b" % (caller_nonce, listener_nonce, identity.log_id)
""",
        LINKS,
    ),
    bug(
        "a node that gives no sign of life is waited for",
        """
@ server/cluster/link.py
-        if now - self._received_at > timeouts.silence:
+        if now - self._received_at > 1000 * timeouts.silence:
""",
        LINKS,
    ),
    bug(
        "a stranger may send frames of any length",
        """
@ server/cluster/frames.py
-        self._max_bytes = HANDSHAKE_BYTES
+        self._max_bytes = FRAME_BYTES * HANDSHAKE_BYTES
""",
        LINKS,
    ),
    bug(
        "a standby answers consistent reads",
        """
@ server/cluster/remote.py
-        self._call(GET, (table, pk, sk, consistent), done, may_be_local=not consistent)
+        self._call(GET, (table, pk, sk, consistent), done, may_be_local=True)
@ materializer/consistent_partition.py
-        if index is None or (not consistent and not fresh and index.is_fresh(self._stale_ms)):
+        if index is None or (not fresh and index.is_fresh(self._stale_ms)):
""",
        STALE,
    ),
    bug(
        "a standby answers no read",
        """
@ server/cluster/remote.py
-        self._call(GET, (table, pk, sk, consistent), done, may_be_local=not consistent)
+        self._call(GET, (table, pk, sk, consistent), done)
""",
        STALE,
    ),
    bug(
        "a rebuild leaves the standby as it is",
        """
@ server/cluster/cluster.py
-        return [owner] if standby is None else [owner, standby]
+        return [owner]
""",
        REPLAY,
    ),
    bug(
        "owner and standby are digested at different entries",
        """
@ server/partitions/digest_jobs.py
-            if folded > offset:
+            if False:
""",
        "tests/unit/server/test_digest_jobs.py",
    ),
    bug(
        "a node without a snapshot copies none",
        """
@ server/cluster/hosting.py
-            if not found.has_snapshot and await self._fetch_snapshot(partition_id):
+            if False:
""",
        REPLAY,
    ),
    bug(
        "the present of a node is that of its own partitions",
        """
@ server/api/restores.py
-    if len(replicas) == database.partitions.count and all(each.leading for each in replicas):
+    if True:
""",
        REPLAY,
    ),
    bug(
        "a node of an earlier release gets calls that it does not have",
        """
@ server/cluster/link.py
-        if method.since > self._revision:
+        if False:
""",
        "tests/behaviour/cluster/test_remote.py",
    ),
    bug(
        "a node without a snapshot of the catalog copies none",
        """
@ server/node.py
-        if not found.has_snapshot and copy_catalog(config, self.partitions, self.random_bytes):
+        if False:
""",
        REPLAY,
    ),
]
