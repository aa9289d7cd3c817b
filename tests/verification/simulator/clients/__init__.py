"""Clients: for their requests and their checks the nodes are any database across a network.

operations.py   requests of a history, retried as SDKs do
tables.py       tables and indexes that are created and deleted
readers.py      reads of own writes in an index
subscribers.py  streams and subscriptions that are created and removed
requests.py     all of it as commands and outcomes of the database
"""

from tests.verification.simulator.clients.operations import Client
from tests.verification.simulator.clients.readers import IndexReader
from tests.verification.simulator.clients.subscribers import Subscriber
from tests.verification.simulator.clients.tables import TableClient

__all__ = ["Client", "IndexReader", "Subscriber", "TableClient"]
