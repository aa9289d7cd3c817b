"""Bugs of the commands on whole tables: purge, roll, model, index status, tx show."""

from tests.verification.planted.bug import bug

PURGE = "tests/behaviour/cli/test_purge.py"
ROLL = "tests/behaviour/cli/test_table_roll.py"
SHOW = "tests/behaviour/cli/test_tx_show.py"

BUGS = [
    bug(
        "a purge ends after the first page",
        """
@ cli/commands/table.py
-        found = Reading(client, "Scan", body, everything=True)
+        found = Reading(client, "Scan", body | {"Limit": 7})
""",
        f"{PURGE}::test_streams_and_history_see_each_delete_of_a_purge",
    ),
    bug(
        "a purge has no reason",
        """
@ cli/lib/client.py
-            reason=reason or self._reason,
+            reason=self._reason,
""",
        f"{PURGE}::test_a_reason_of_the_user_follows_that_of_the_purge",
    ),
    bug(
        "a roll lowers the current table",
        """
@ cli/commands/table.py
-        if table < period.table(name) and (request := lower_request(session.shape(table).description, units))
+        if table <= period.table(name) and (request := lower_request(session.shape(table).description, units))
""",
        f"{ROLL}::test_past_tables_and_their_indexes_are_lowered_once",
    ),
    bug(
        "the month after a month of 31 days is skipped",
        """
@ cli/lib/table_series.py
-        return Period(self.every, (self.day.replace(day=28) + timedelta(days=4)).replace(day=1))
+        return Period(self.every, self.day + timedelta(days=31))
""",
        f"{ROLL}::test_periods_follow_each_other_without_a_gap",
    ),
    bug(
        "a roll raises a table that has less",
        """
@ cli/lib/table_series.py
-        return min(read, read if self.read is None else self.read), min(write, self.write)
+        return read if self.read is None else self.read, self.write
""",
        f"{ROLL}::test_past_tables_and_their_indexes_are_lowered_once",
    ),
    bug(
        "an item with a key attribute of another type is in the index",
        """
@ cli/lib/item_kinds.py
-                if index and all(types[name] in item.get(name, ()) for name in types):
+                if index and all(name in item for name in types):
""",
        "tests/behaviour/cli/test_model.py::test_an_item_with_an_index_key_of_another_type_is_not_counted",
    ),
    bug(
        "a filled partition counts as not begun",
        """
@ materializer/fold/state.py
-            return len(slots)
+            return 0
""",
        "tests/unit/materializer/partitions/test_indexes.py::test_filled_slots_rise_from_none_to_all_of_the_partition",
    ),
    bug(
        "a condition after a gap in the sort key is accepted",
        """
@ expressions/key_conditions.py
-        each.name for each in sort[:last] if each.name not in terms or terms[each.name].operator != "="
+        each.name for each in sort[:last] if each.name not in terms
""",
        "tests/unit/expressions/test_key_conditions.py::test_a_key_condition_that_does_not_fit_the_schema",
    ),
    bug(
        "tx show leaves out the actions of the coordinator",
        """
@ cli/lib/transaction_history.py
-            for applied in outcome.applied:
+            for applied in outcome.applied if at.partition != self._position.partition else ():
""",
        f"{SHOW}::test_an_applied_transaction_has_images_and_places",
    ),
    bug(
        "a step leads to another transaction of its coordinator",
        """
@ cli/lib/transaction_history.py
-            and (command.sender, command.message.transaction_number) == transaction
+            and command.sender == transaction[0]
""",
        f"{SHOW}::test_transactions_of_one_coordinator_stay_apart",
    ),
]
