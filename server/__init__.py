"""The server: it receives requests, submits commands and reads to partitions, and sends answers.

app.py           composes a node and its listener, starts and stops them
node.py          one process's database and its services; database.py is the part of it that handlers use
http/            from bytes to requests, from answers to bytes
api/             dispatch, the operations of DynamoDB, and foldb's own
auth/            access keys, signatures, rights
partitions/      the partitions of this process; routing/ joins all partitions into one
subscriptions/   the subscriptions of this node
cluster/         the nodes that share a log
"""
