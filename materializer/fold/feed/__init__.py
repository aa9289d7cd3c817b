"""What the change feed needs of the state.

    windows.py         from where to where changes of a table are captured, here
    subscriptions.py   who reads them, and how far they are: at the catalog
    frames.py          both, in a dump of the state

The feed itself stands above this layer: the fold makes all changes, and a window says which of them may be asked for.
"""
