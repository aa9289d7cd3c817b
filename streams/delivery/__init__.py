"""What runs a subscription: from the pages of a feed to calls of a sink, and how far that has come.

    feed ──► sources ──► filter ──► lanes, by key ──► batches ──► attempts ──► sink
                                      └── what is not handled yet: the checkpoint stays before it

All is told what it needs (feed, sink, letters, clock, dice), so it runs in tests on time that the test makes.
"""
