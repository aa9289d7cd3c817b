"""Several nodes on one log: who does what, and how they talk.

    membership.py   a consumer group of the broker: who is there, and which node owns which partition
    cluster.py      what this node does about it: fold, lead, stand by, forward
    remote.py       the seam of a partition whose owner is another node
    link.py         a connection to another node; listener.py the other end of it

Ownership is a hint and never a lock. Whoever folds a partition may append to it and answer for it, because what an
entry does is judged in the fold; so a node that is wrong about who owns what is slow, and not wrong about data.
"""

from .cluster import Cluster

__all__ = ["Cluster"]
