"""Bugs of values: equality, order, and the range of numbers."""

from tests.verification.planted.bug import bug

SERVED = "tests/behaviour/spec/test_data_model.py"

BUGS = [
    bug(
        "every comparison by order holds",
        """
@ expressions/conditions.py
-        return found is not None and wanted(found)
+        return found is not None
""",
        f"{SERVED}::test_strings_compare_by_their_utf8_bytes",
    ),
    bug(
        "strings are compared by their UTF-16 code units",
        """
@ model/values.py
-    return -1 if left < right else 1
+    return -1 if left.encode("utf-16-be") < right.encode("utf-16-be") else 1
""",
        f"{SERVED}::test_strings_compare_by_their_utf8_bytes",
    ),
    bug(
        "two sets are always equal",
        """
@ expressions/conditions.py
-        return lambda item, values: item.get(attribute) == values[name]
+        return lambda item, values: (item.get(attribute) or {}).keys() == values[name].keys()
""",
        f"{SERVED}::test_sets_are_equal_if_their_members_are",
    ),
    bug(
        "a set holds a number as often as it is spelt in another way",
        """
@ model/values.py
-    if len(set(texts)) < len(texts):
+    if len(set(content)) < len(texts):
""",
        f"{SERVED}::test_a_set_is_not_empty_and_holds_each_value_once",
    ),
    bug(
        "a number may be smaller than the smallest",
        """
@ model/numbers.py
-    if magnitude < EXPONENT_MIN:
+    if False:
""",
        f"{SERVED}::test_an_update_may_not_leave_the_range_of_numbers",
    ),
    bug(
        "a sum may have more than 38 digits",
        """
@ model/numbers.py
-    return _write(total < 0, str(abs(total)), -places)
+    return f"{'-' if total < 0 else ''}{_plain(str(abs(total)), -places)}"
""",
        f"{SERVED}::test_an_update_may_not_leave_the_range_of_numbers",
    ),
]
