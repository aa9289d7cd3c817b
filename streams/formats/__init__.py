"""The formats of a change: one module per format, each a pure function from a Delivery to bytes."""
