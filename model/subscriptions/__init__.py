"""A subscription: the declaration of its settings (settings.py), and its state (subscription.py).

A start needs the state alone: the settings are imported by the modules that check them.
"""

from .subscription import Checkpoints, Status, Subscription

__all__ = ["Checkpoints", "Status", "Subscription"]
