"""`foldb stream`: read the change feed."""
