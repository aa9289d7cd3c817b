"""Bugs of the layers before the database: origins, limits, slow clients, and requests with more than one reading."""

from tests.verification.planted.bug import bug

FRAMING, HOSTS = "tests/behaviour/http/test_framing.py", "tests/behaviour/http/test_hosts.py"
PROTOCOL, CONNECTION = "tests/unit/server/test_protocol.py", "tests/unit/server/test_connection.py"
VERIFY, RIGHTS, KEYFILE = (
    "tests/behaviour/auth/test_verify.py",
    "tests/behaviour/auth/test_rights.py",
    "tests/behaviour/auth/test_keyfile.py",
)
MUTATIONS = f"{VERIFY}::test_a_request_with_one_changed_byte_is_refused_or_the_same"


BUGS = [
    bug(
        "a wrong JSON type in a value is reported after other errors",
        """
@ server/api/dispatch.py
-        reply.error(_fault_of_values(route, body, invalid) or invalid)
+        reply.error(invalid)
""",
        f"{PROTOCOL}::test_a_wrong_json_type_in_a_value_comes_first",
    ),
    bug(
        "a missing signature is reported before an unknown operation",
        """
@ server/http/protocol.py
-            reply.error(fault or MissingAuthenticationTokenError())
+            reply.error(MissingAuthenticationTokenError())
""",
        f"{PROTOCOL}::test_body_and_operation_come_before_a_missing_signature",
    ),
    bug(
        "an unsigned reason is accepted",
        """
@ server/auth/verify.py
-_SIGNED = (b"x-amz-", b"x-foldb-reason")
+_SIGNED = (b"x-amz-",)
""",
        VERIFY,
    ),
    bug(
        "any SubscriptionContext is answered",
        """
@ server/http/origin_policy.py
-        if not self._is_ours(name):
+        if False:
""",
        HOSTS,
    ),
    bug(
        "a page of another origin is answered",
        """
@ server/http/origin_policy.py
-        elif head.method == b"POST" and not self._is_own(origin, host, head.fields.get(b"sec-fetch-site")):
+        elif False:
""",
        HOSTS,
    ),
    bug(
        "a page without an Origin is taken for a program",
        """
@ server/http/origin_policy.py
-            return site in _OWN_PAGES
+            return True
""",
        HOSTS,
    ),
    bug(
        "a field that decides may come twice",
        """
@ server/http/request_head.py
-    if not repeated.isdisjoint(_ONCE):
+    if False:
""",
        FRAMING,
    ),
    bug(
        "a request needs no Host",
        """
@ server/http/request_head.py
-    if b"host" not in fields:
+    if fields.setdefault(b"host", b"localhost") is None:
""",
        FRAMING,
    ),
    bug(
        "transfer codings may pile up",
        """
@ server/http/request_head.py
-    if coding.lower() != b"chunked":
+    if not coding.lower().endswith(b"chunked"):
""",
        FRAMING,
    ),
    bug(
        "a chunk may end with a bare line feed",
        """
@ server/http/request_body.py
-        if b"\\n" in line or b"\\r" in line:
+        if False:
""",
        FRAMING,
        PROTOCOL,
    ),
    bug(
        "a zip bomb is unpacked",
        """
@ server/http/request_body.py
             inflated += step
-            if len(inflated) > limit:
+            if False:
""",
        PROTOCOL,
    ),
    bug(
        "chunks are not counted",
        """
@ server/http/request_body.py
-        if len(self.data) + self._left > self._limit:
+        if False:
""",
        PROTOCOL,
    ),
    bug(
        "a body may be of any size",
        """
@ server/http/protocol.py
-        elif head.length <= limit:
+        elif True:
""",
        PROTOCOL,
    ),
    bug(
        "a head may come as slowly as it likes",
        """
@ server/http/protocol.py
-            if self.deadline > self._listener.tick + HEAD_TICKS:
+            if False:
""",
        CONNECTION,
    ),
    bug(
        "a body may drip for ever",
        """
@ server/http/protocol.py
-        self.deadline = min(self._listener.tick + BODY_TICKS, self._body_deadline)
+        self.deadline = self._listener.tick + BODY_TICKS
""",
        CONNECTION,
    ),
    bug(
        "an answer without a reader is kept forever",
        """
@ server/http/protocol.py
         self._paused = True
-        self.deadline = self._listener.tick + STALL_TICKS
""",
        CONNECTION,
    ),
    bug(
        "the memory for slow clients has no limit",
        """
@ server/http/buffer_limit.py
-        while self.bytes > self._limit:
+        while False:
""",
        CONNECTION,
    ),
    bug(
        "a client is read on while it reads nothing",
        """
@ server/http/protocol.py
             if not self._closing:
-                transport.pause_reading()
+                pass
""",
        CONNECTION,
    ),
    bug(
        "it listens to other machines",
        """
@ server/http/address.py
-    if settings.keys is None and not settings.insecure_any_address:
+    if False:
""",
        CONNECTION,
    ),
    bug(
        "a container answers to names of public DNS",
        """
@ server/http/origin_policy.py
-        return name != "" and "." not in name
+        return True
""",
        "tests/behaviour/http/test_container.py::test_a_page_in_a_browser_is_refused",
    ),
    # Access: each opens a way that honest clients do not try
    bug(
        "half of a signature is enough",
        """
@ server/auth/verify.py
-        is_right = hmac.compare_digest(expected, given)
+        is_right = hmac.compare_digest(expected[:32], given[:32])
""",
        MUTATIONS,
    ),
    bug(
        "a field for AWS need not be signed",
        """
@ server/auth/verify.py
-        if name.startswith(_SIGNED):
+        if name in (b"x-amz-date", b"x-foldb-reason"):
""",
        VERIFY,
    ),
    bug(
        "a signed field may come twice",
        """
@ server/auth/verify.py
-    if head.repeated and not head.repeated.isdisjoint(signed):
+    if False:
""",
        VERIFY,
    ),
    bug(
        "the day of the credential is not checked",
        """
@ server/auth/verify.py
-        if claim.day != iso_time[:8]:
+        if False:
""",
        VERIFY,
    ),
    bug(
        "a request from the future is good",
        """
@ server/auth/verify.py
-    if seconds > now + CLOCK_S:
+    if False:
""",
        VERIFY,
    ),
    bug(
        "an unknown key is refused without work",
        """
@ server/auth/verify.py
-            claim = self._claims.get(authorization[:-_SIGNATURE]) or self._read(authorization)
+            claim = self._claims.get(authorization[:-_SIGNATURE]) or self._read(authorization)
+            if claim.key is None:
+                raise UnrecognizedClientError
""",
        VERIFY,
    ),
    bug(
        "of a transaction the first table counts",
        """
@ server/api/operations/transact_write_items.py
-                yield ItemDemand(action, right, table, request, facts, None, body, "TransactWriteItems")
+                yield ItemDemand(action, right, table, request, facts, None, body, "TransactWriteItems")
+                return
""",
        RIGHTS,
    ),
    bug(
        "a pattern matches every name that begins with it",
        """
@ server/auth/rights.py
-            right = next((right for right, names in self._levels if names.fullmatch(table)), Right.NONE)
+            right = next((right for right, names in self._levels if table.startswith("Car")), Right.NONE)
""",
        RIGHTS,
    ),
    bug(
        "a key that is revoked is good until the next start",
        """
@ server/auth/guard.py
             return
-        self._verifier = Verifier(self.keys)
""",
        "tests/behaviour/auth/test_served.py::test_a_key_is_refused_as_soon_as_it_is_revoked",
    ),
    bug(
        "a file of keys that others can read is good",
        """
@ server/auth/keyfile.py
-    if status.st_mode & _OTHERS:
+    if status.st_mode & 0o007:
""",
        KEYFILE,
    ),
]
