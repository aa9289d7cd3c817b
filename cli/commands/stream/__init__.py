"""`foldb stream`: read changes."""
