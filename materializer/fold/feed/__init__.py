"""The change feed's part of the state.

    capture.py         capture periods: when changes of a table are captured in this partition
    subscriptions.py   subscriptions and their checkpoints, at the catalog
    frames.py          both, in a dump of the state

The feed itself is in streams/, above this layer: the fold produces all changes, and a capture period makes them
readable.
"""
