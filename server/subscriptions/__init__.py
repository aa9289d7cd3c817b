"""The subscriptions of a node: which run here, and what can be done about them."""

from .service import Triggers

__all__ = ["Triggers"]
