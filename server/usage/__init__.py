"""The requests and the capacity units of tables and indexes, counted under the names of CloudWatch's metrics."""
