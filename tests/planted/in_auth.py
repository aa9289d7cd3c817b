"""Bugs of who is let in: each is a door that looks shut to every client that is honest."""

from .bug import bug

VERIFY, RIGHTS, KEYFILE = (
    "tests/auth/test_verify.py",
    "tests/auth/test_rights.py",
    "tests/auth/test_keyfile.py",
)
MUTATIONS = f"{VERIFY}::test_a_request_with_one_other_byte_is_refused_or_is_the_same_request"

BUGS = [
    bug(
        "half of a signature is enough",
        """
@ server/auth/verify.py
-        is_right = hmac.compare_digest(expected, authorization[-_SIGNATURE:])
+        is_right = hmac.compare_digest(expected[:32], authorization[-_SIGNATURE:][:32])
""",
        MUTATIONS,
    ),
    bug(
        "a field for AWS need not be signed",
        """
@ server/auth/verify.py
-        if name.startswith(b"x-amz-"):
+        if name == b"x-amz-date":
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
        "the day of the credential is nobody's business",
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
-        fields = head.fields
-        authorization = fields.get(b"authorization", b"")
-        claim = self._claims.get(authorization[:-_SIGNATURE]) or self._read(authorization)
+        fields = head.fields
+        authorization = fields.get(b"authorization", b"")
+        claim = self._claims.get(authorization[:-_SIGNATURE]) or self._read(authorization)
+        if claim.key is None:
+            raise UnrecognizedClientError
""",
        VERIFY,
    ),
    bug(
        "of a transaction the first table counts",
        """
@ server/auth/rights.py
-                yield action, right, asked["TableName"]
+                yield action, right, asked["TableName"]
+                return
""",
        RIGHTS,
    ),
    bug(
        "a pattern matches what begins with it",
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
        "tests/auth/test_served.py::test_a_key_is_refused_as_soon_as_it_is_revoked",
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
