"""Bugs in policies and their enforcement."""

from tests.verification.planted.bug import bug

ORACLE = "tests/verification/oracle/test_policies.py"
EXAMPLES = "tests/behaviour/auth/test_policies.py"
OPERATIONS = "tests/behaviour/spec/test_resource_policies.py"
PRESIGNED = "tests/behaviour/auth/test_query_signature.py"

BUGS = [
    bug(
        "a deny is ignored where a statement allows",
        """
@ server/auth/rights.py
-        if policy is not None and (policy.denies(access) or policy.denies(wanted)):
+        if policy is not None and policy.denies(wanted) and not policy.allows(wanted):
""",
        ORACLE,
    ),
    bug(
        "a pattern is matched as a prefix",
        """
@ server/auth/policy_text.py
-    end = f"{gaps[-1]}*{pieces[-1]}" if len(pieces) > 1 else ""
+    end = f"{gaps[-1]}*" if len(pieces) > 1 else ".*"
""",
        ORACLE,
    ),
    bug(
        "a wildcard of an ARN matches over its parts",
        """
@ server/auth/policy_text.py
-            any_character = "[^:]" if is_arn and colons < _ARN_COLONS else "."
+            any_character = "."
""",
        ORACLE,
    ),
    bug(
        "an index is the resource of its table",
        """
@ server/auth/rights.py
-        relative = f"index/{demand.index_name}"
+        relative = ""
""",
        ORACLE,
    ),
    bug(
        "the account as a principal allows all its keys",
        """
@ server/auth/policy_document.py
-        return self.is_deny and f"arn:aws:iam::{ACCOUNT}:root" in self.principals
+        return f"arn:aws:iam::{ACCOUNT}:root" in self.principals
""",
        EXAMPLES,
    ),
    bug(
        "one value is enough for ForAllValues",
        """
@ server/auth/conditions.py
-        return any(passes) if self.quantifier == _FOR_ANY else all(passes)
+        return any(passes)
""",
        ORACLE,
    ),
    bug(
        "of a batch the first key counts",
        """
@ server/api/policy_facts.py
-    reads = [Classic("GetItem", {**request, "Key": key}) for key in request["Keys"]]
+    reads = [Classic("GetItem", {**request, "Key": request["Keys"][0]})]
""",
        EXAMPLES,
    ),
    bug(
        "the attributes of a filter are not named",
        """
@ server/api/policy_facts.py
-    for part in (plan.condition, plan.filter, plan.key_condition, plan.projection, plan.update):
+    for part in (plan.condition, plan.key_condition, plan.projection, plan.update):
""",
        EXAMPLES,
    ),
    bug(
        "the item in the answer to a failed condition is no returned value",
        """
@ server/api/policy_facts.py
-    if request.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD":
-        yield "ALL_OLD"
""",
        EXAMPLES,
    ),
    bug(
        "a statement reads without a scan",
        """
@ server/api/policy_facts.py
-        collected.set(_FULL_SCAN, str(is_full_scan).lower())
+        collected.set(_FULL_SCAN, str(not is_full_scan).lower())
""",
        EXAMPLES,
    ),
    bug(
        "the short path does not see the policy of a table",
        """
@ server/auth/rights.py
-        and not found.definition.policies
""",
        EXAMPLES,
    ),
    bug(
        "a read of the past avoids the denies of a table",
        """
@ server/auth/rights.py
-        if policy is not None and (policy.denies(access) or policy.denies(wanted)):
+        if policy is not None and policy.denies(wanted):
""",
        EXAMPLES,
    ),
    bug(
        "a policy may lock out its author unasked",
        """
@ server/api/operations/resource_policies.py
-    if not confirms and not may_put_policy(caller, body["ResourceArn"], text, database.state):
+    if False:
""",
        OPERATIONS,
    ),
    bug(
        "the expected revision is not compared",
        """
@ model/table_requests.py
-    if expected != str(current.revision):
+    if False:
""",
        OPERATIONS,
    ),
    bug(
        "a presigned request never expires",
        """
@ server/auth/verify.py
-            iso_time = _time(query.date, now_ms // 1000, query.expires_s)
+            iso_time = _time(query.date, now_ms // 1000, 10**9)
""",
        PRESIGNED,
    ),
    bug(
        "the query is not signed",
        """
@ server/auth/query_signature.py
-        self.canonical = "&".join(f"{name}={value}" for name, value in signed).encode()
+        self.canonical = b"&".join(part for part in path.partition(b"?")[2].split(b"&") if b"Expires" not in part)
""",
        PRESIGNED,
    ),
]
