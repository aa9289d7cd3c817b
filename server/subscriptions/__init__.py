"""The subscriptions of a node: the operations of the API (service.py), and the runner that delivers their changes."""
