"""Throughput limits: which requests DynamoDB would throttle, decided from a clock and token buckets."""
