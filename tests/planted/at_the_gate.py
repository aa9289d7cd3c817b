"""Bugs of what stands before the database: who may ask, how large, how slowly, and in how many ways it can be read."""

from .bug import bug

FRAMING, HOSTS = "tests/gate/test_framing.py", "tests/gate/test_hosts.py"
PROTOCOL, CONNECTION = "tests/server/test_protocol.py", "tests/server/test_connection.py"

BUGS = [
    bug(
        "any Host is answered",
        """
@ server/http/gate.py
-        if not self._any_host and name not in self._names and not is_loopback(name):
+        if False:
""",
        HOSTS,
    ),
    bug(
        "a page of another origin is answered",
        """
@ server/http/gate.py
-        elif head.method == b"POST" and not self._is_own(origin, host, head.fields.get(b"sec-fetch-site")):
+        elif False:
""",
        HOSTS,
    ),
    bug(
        "a page without an Origin is taken for a program",
        """
@ server/http/gate.py
-            return site in _OWN_PAGES
+            return True
""",
        HOSTS,
    ),
    bug(
        "a field that decides may come twice",
        """
@ server/http/heads.py
-    if not repeated.isdisjoint(_ONCE):
+    if False:
""",
        FRAMING,
    ),
    bug(
        "a request needs no Host",
        """
@ server/http/heads.py
-    if b"host" not in fields:
+    if fields.setdefault(b"host", b"localhost") is None:
""",
        FRAMING,
    ),
    bug(
        "transfer codings may pile up",
        """
@ server/http/heads.py
-    if coding.lower() != b"chunked":
+    if not coding.lower().endswith(b"chunked"):
""",
        FRAMING,
    ),
    bug(
        "a chunk may end with a bare line feed",
        """
@ server/http/bodies.py
-        if b"\\n" in line or b"\\r" in line:
+        if False:
""",
        FRAMING,
        PROTOCOL,
    ),
    bug(
        "a zip bomb is unpacked",
        """
@ server/http/bodies.py
             whole += step
-            if len(whole) > limit:
+            if False:
""",
        PROTOCOL,
    ),
    bug(
        "chunks are not counted",
        """
@ server/http/bodies.py
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
        "an answer that nobody reads is kept for ever",
        """
@ server/http/protocol.py
         self._paused = True
-        self.deadline = self._listener.tick + STALL_TICKS
""",
        CONNECTION,
    ),
    bug(
        "what is kept for slow clients has no bound",
        """
@ server/http/slow.py
-        while self.bytes > self._bound:
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
@ server/http/listener.py
-    if not is_loopback and settings.keys is None:
+    if False:
""",
        CONNECTION,
    ),
]
