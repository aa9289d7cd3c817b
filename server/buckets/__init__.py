"""Files of items: their formats and compressions, and the folder layout of an export as DynamoDB writes it to S3.

A folder represents a bucket. Nothing here knows a table, a log or a request: items go in and come out.
"""
