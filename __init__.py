"""foldb: a DynamoDB-compatible database whose only source of truth is a log."""
