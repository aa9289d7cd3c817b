"""The wire protocol of DynamoDB: requests in, commands and reads to a partition, answers out.

http/ turns bytes into requests, dispatch.py finds what a request names, operations/ has one file an operation and
admin/ foldb's own; node.py is what they work with and app.py starts and stops it.
"""
