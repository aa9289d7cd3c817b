"""Several nodes on one log: which node serves which partition, and how nodes call each other.

    membership.py   a consumer group of the broker, whose leader assigns partitions to nodes (assignment.py)
    cluster.py      this node's part: it folds, leads, stands by and forwards, as the routing table says
    remote.py       the interface of a partition that another node owns
    link.py         a connection to another node; listener.py is its other end
    node_calls.py   calls to a node itself: snapshot_transfer.py, state_digests.py and rebuilds.py
    wire.py         the protocol; messages.py and codec.py encode its arguments and results

Ownership is a hint and never a lock. Every node that has folded a partition may append to it and answer for it, because
the fold decides about the effect of an entry. So a node with an old routing table is slow, but its data are right.
"""
