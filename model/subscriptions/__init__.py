"""A subscription: its settings as they are asked for (settings.py), and all that is known of it (subscription.py)."""

from .settings import check, check_asked, checked_start, milliseconds
from .subscription import Marks, Status, Subscription

__all__ = ["Marks", "Status", "Subscription", "check", "check_asked", "checked_start", "milliseconds"]
