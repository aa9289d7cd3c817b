"""Transactions: all actions are applied, or none.

    Transact ──► transact.py ──► all keys are in this partition: one step
                      │
                      └──► coordinator.py                     participant.py, one per partition
                             Prepare  ────────────────────────►  judge; hold the keys if no action is refused
                             all votes are received: decide ◄──  Vote
                             Decide  ─────────────────────────►  apply, or not; release the keys
                             all have: answer  ◄──────────────  Decided

Coordinator and participants are folds: their memory of the transaction (state.py) is part of their partition's
state, and their messages travel through their logs. So no process has to survive for a transaction to end.

    before the vote        a participant holds no keys
    from vote to Decide    nothing else writes the keys (TransactionConflict), and consistent reads of them wait
    the decision           has one position: in the coordinator's log, where the last vote or the Abandon is folded
    after the last Decided the client is answered, so that it never meets its own locks

A write never waits for a held key: it is refused. So there is no deadlock.
"""
