"""Changes of items: the feed of a partition, subscriptions that deliver it to sinks, and the workers of user code."""
