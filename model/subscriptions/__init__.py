"""A subscription: its settings as they are asked for (settings.py), and all that is known of it (subscription.py)."""

from .settings import check, check_asked, checked_start, milliseconds
from .subscription import Checkpoints, Status, Subscription

__all__ = ["Checkpoints", "Status", "Subscription", "check", "check_asked", "checked_start", "milliseconds"]
