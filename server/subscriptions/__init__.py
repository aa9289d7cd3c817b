"""The subscriptions of a node: the operations of the API, and the runner that delivers their changes."""

from .service import SubscriptionService

__all__ = ["SubscriptionService"]
