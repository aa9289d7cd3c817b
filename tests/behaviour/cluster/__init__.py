"""Several nodes on one log."""
