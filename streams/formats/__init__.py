"""What a change looks like to others: one module a format, each a pure function from a Delivery to bytes."""
