"""All of a transaction's actions, or none.

    Transact ──► transact.py ──► all keys live here: single.py, in one step
                      │
                      └──► coordinator.py                     participant.py, one for each partition
                             Prepare  ────────────────────────►  judge; hold the keys if all may go through
                             all votes are in: decide  ◄──────  Vote
                             Decide  ─────────────────────────►  apply, or not; let the keys go
                             all have: answer  ◄──────────────  Decided

Coordinator and participants are folds: what each remembers (state.py) is part of its partition's state, and what they
tell each other travels through their logs. So no process has to live for a transaction to end.

    before the votes     a participant holds nothing of it
    from vote to Decide  nobody else writes the keys (TransactionConflict), and consistent reads of them wait
    the decision         stands at one place: in the coordinator's log, where the last vote or the Abandon is folded
    after the last Decided the client is answered, so that it never meets its own locks

Nobody waits for a held key in order to write: who meets one is refused. So there is no deadlock.
"""
