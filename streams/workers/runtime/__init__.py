"""What runs in a child. It imports little, so that a child starts fast, and nothing of the server."""
