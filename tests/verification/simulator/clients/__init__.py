"""Those who ask: for what they ask and how they judge an answer, nodes are any other network away.

operations.py   requests of a history, asked again as SDKs do
tables.py       tables and indexes that come and go
readers.py      what was written, looked for in an index
subscribers.py  streams and subscriptions that come and go
requests.py     all of it as commands and outcomes of the database
"""

from tests.verification.simulator.clients.operations import Client
from tests.verification.simulator.clients.readers import IndexReader
from tests.verification.simulator.clients.subscribers import Subscriber
from tests.verification.simulator.clients.tables import TableClient

__all__ = ["Client", "IndexReader", "Subscriber", "TableClient"]
