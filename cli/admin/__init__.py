"""Commands about a database and the processes that serve it; those about what it holds are in `commands`."""
