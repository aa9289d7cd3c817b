"""All of a transaction's actions, or none."""
