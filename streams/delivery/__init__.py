"""Runs subscriptions: from the pages of a feed to calls of a sink, with checkpoints and dead letters.

    feed ──► sources ──► filter ──► lanes, by key ──► batches ──► attempts ──► sink
                                      └── lowest unhandled change: the checkpoint stays below it

Each part receives its dependencies (feed, sink, dead letters, clock, jitter), so tests run it on virtual time.
"""
