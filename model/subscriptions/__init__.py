"""A subscription: the declaration of its settings (settings.py), and its state (subscription.py)."""

from .setting_types import milliseconds
from .settings import check, check_request, check_start
from .subscription import Checkpoints, Status, Subscription

__all__ = ["Checkpoints", "Status", "Subscription", "check", "check_request", "check_start", "milliseconds"]
