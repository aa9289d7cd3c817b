"""Bugs of transactions: in one step, and over partitions."""

from tests.verification.planted.bug import bug

TESTS = "tests/unit/materializer/transactions"
SINGLE, STEPS, ANY_ORDER = f"{TESTS}/test_single.py", f"{TESTS}/test_steps.py", f"{TESTS}/test_any_order.py"


BUGS = [
    bug(
        "changes of a transaction share a number",
        """
@ materializer/fold/transactions/transact.py
-        applied.append(apply(state, table, action, decision, sequence_number + nth, twice=True))
+        applied.append(apply(state, table, action, decision, sequence_number, twice=True))
""",
        SINGLE,
    ),
    bug(
        "a transaction is applied item by item",
        """
@ materializer/fold/transactions/transact.py
     if any(isinstance(decision, Refused) for decision in decisions):
+        for action, decision in zip(command.actions, decisions, strict=True):
+            if isinstance(decision, Decision):
+                apply(state, state.tables[action.table], action, decision, 0)
""",
        SINGLE,
    ),
    bug(
        "an idempotency token is forgotten",
        """
@ materializer/fold/transactions/transact.py
-        state.tokens[command.token] = TransactionToken(command.fingerprint, state.log_time)
+        pass
""",
        SINGLE,
    ),
    bug(
        "a token is compared without its payload",
        """
@ materializer/fold/transactions/transact.py
-    if used.fingerprint != command.fingerprint:
+    if False:
""",
        SINGLE,
        STEPS,
    ),
    bug(
        "a token is remembered for ever",
        """
@ materializer/fold/transactions/transact.py
-    state.forget_old_tokens()
""",
        SINGLE,
    ),
    bug(
        "a refused transaction uses up its token",
        """
@ materializer/fold/transactions/transact.py
-    if command.token is not None and isinstance(outcome, Transacted):
+    if command.token is not None:
""",
        SINGLE,
    ),
    # Over partitions
    bug(
        "a commit before all votes are in",
        """
@ materializer/fold/transactions/coordinator.py
-    if transaction.commit is not None or len(transaction.votes) < len(transaction.parts):
+    if transaction.commit is not None:
""",
        ANY_ORDER,
    ),
    bug(
        "a commit although a participant refused",
        """
@ materializer/fold/transactions/coordinator.py
-    commit = all(one.holds for one in transaction.votes.values())
+    commit = any(one.holds for one in transaction.votes.values())
""",
        ANY_ORDER,
    ),
    bug(
        "a held key is released at the vote",
        """
@ materializer/fold/transactions/participant.py
     state.transactions.hold(transaction_id, Prepared(nths, effects, state.log_time))
+    state.transactions.held.clear()
@ materializer/fold/transactions/state.py
-                del self.held[key_of(effect)]
+                self.held.pop(key_of(effect), None)
""",
        ANY_ORDER,
    ),
    bug(
        "a write does not look whether its key is held",
        """
@ materializer/fold/fold_record.py
-        if (command.table, command.pk, command.sk) in state.transactions.held:
-            return Refused(TransactionConflictError())
""",
        STEPS,
    ),
    bug(
        "an expiry does not look whether its key is held",
        """
@ materializer/fold/fold_record.py
-    if (command.table, command.pk, command.sk) in state.transactions.held:
-        return Completed(progressed=False)
""",
        STEPS,
    ),
    bug(
        "a transaction does not look whether its keys are held",
        """
@ materializer/fold/transactions/verdicts.py
-    if held and key_of(action) in held:
-        return Refused(TransactionConflictError())
""",
        ANY_ORDER,
    ),
    bug(
        "a second decision counts too: aborted after the commit",
        """
@ materializer/fold/transactions/coordinator.py
-    if transaction is None or transaction.commit is not None:
+    if transaction is None:
""",
        ANY_ORDER,
    ),
    bug(
        "a participant without a vote does not receive the abort",
        """
@ materializer/fold/transactions/coordinator.py
-        if received is not None and not received.holds:
+        if received is None or not received.holds:
""",
        ANY_ORDER,
    ),
    bug(
        "an open transaction is aborted without waiting",
        """
@ materializer/fold/transactions/coordinator.py
-    if state.log_time - transaction.started_ms < ABANDON_AFTER_MS:
-        return MessageFolded()
""",
        STEPS,
    ),
    bug(
        "the client is answered at the decision, and meets its own locks",
        """
@ materializer/fold/transactions/coordinator.py
-    if transaction.awaited:
-        return []
""",
        ANY_ORDER,
    ),
    bug(
        "a token is free while its transaction is under way",
        """
@ materializer/fold/transactions/transact.py
-    transaction_number = state.transactions.tokens.get(token)
+    transaction_number = None
""",
        STEPS,
    ),
    bug(
        "the token of a transaction over partitions is forgotten",
        """
@ materializer/fold/transactions/coordinator.py
-        state.tokens[transaction.token] = TransactionToken(transaction.fingerprint, state.log_time)
+        pass
""",
        STEPS,
    ),
    bug(
        "a participant commits although it refused",
        """
@ materializer/fold/transactions/participant.py
-    if len(decisions) < len(judged):
+    if not decisions:
""",
        STEPS,
    ),
    bug(
        "an answer names the coordinator's place alone",
        """
@ materializer/fold/transactions/coordinator.py
-    return Resolved(transaction_number, _outcome(transaction), positions)
+    return Resolved(transaction_number, _outcome(transaction))
""",
        STEPS,
    ),
    bug(
        "a void decision leaves its keys held",
        """
@ materializer/fold/fold_record.py
-        messages.fold_message(state, command.sender, position, forgotten, sequence_number)
+        pass
""",
        STEPS,
    ),
    bug(
        "prepared parts are missing from a snapshot",
        """
@ materializer/fold/transactions/frames.py
-        for nth, effect in zip(prepared.nths, prepared.effects, strict=True):
+        for nth, effect in []:
""",
        ANY_ORDER,
    ),
    bug(
        "the votes are missing from a snapshot",
        """
@ materializer/fold/transactions/frames.py
-        for partition, vote in sorted(transaction.votes.items()):
+        for partition, vote in []:
""",
        ANY_ORDER,
    ),
    bug(
        "a commit enters an invalid key into a new index",
        """
@ materializer/fold/transactions/participant.py
-        if item is not None and key_error_of_index(update.index.definition, item, limits) is not None:
+        if False:
""",
        ANY_ORDER,
    ),
    bug(
        "the changes of a commit are numbered from nought in each partition",
        """
@ materializer/fold/transactions/participant.py
-            applied.append(apply(state, table, effect, decision, sequence_number + nth, twice=True))
+            applied.append(apply(state, table, effect, decision, sequence_number, twice=True))
""",
        STEPS,
    ),
    bug(
        "a vote has the size of an item collection before the write",
        """
@ materializer/fold/transactions/verdicts.py
-        grown[collection] += _growth(decision)
""",
        STEPS,
    ),
    bug(
        "a token in use is answered as if its transaction had been done",
        """
@ materializer/fold/transactions/transact.py
-    if transaction_number is not None:
-        return Refused(TransactionInProgressError(_IN_PROGRESS))
""",
        "tests/behaviour/spec/test_consistency.py::test_a_token_in_use_is_answered_as_in_progress",
    ),
]
