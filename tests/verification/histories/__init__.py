"""What clients were told, written down and judged.

    from tests.verification.histories import Clients, History, check, create

    history = History()
    for run in range(runs):
        with Process(folder) as server:
            if run == 0:
                create(server.url)
            with Clients(history, server.url, run=run, seed=seed) as clients:
                clients.wait_for(2000)      # answers, of whatever kind
                server.kill()
                clients.join()              # they end by themselves, for nobody answers
    check(history)                          # ViolationError, an AssertionError that names the key and the operations

`History` holds the operations of all runs, with those in doubt. `run` counts how often the server was started anew:
an operation that a run left in doubt has happened when the next one begins, or never will. Clients that come to a
server which lived on have the run's number of those before them.

`check` is three judges, who share no more than the model of what one step does to one item (model.py):

    witness         believes the positions of the answers: replayed in that order, is every answer right?
    linearizable    believes nothing: is there an order of each item's operations that explains every answer?
    serializable    believes nothing: do the transactions depend on each other in a circle?

Each is a function of a history too, in the module of its name. `history.counts()` says how much was judged.
"""

from tests.verification.histories.clients import Clients, create
from tests.verification.histories.history import History, Operation, Step, ViolationError
from tests.verification.histories.linearizable import linearizable
from tests.verification.histories.serializable import serializable
from tests.verification.histories.witness import witness

__all__ = ["Clients", "History", "Operation", "Step", "ViolationError", "check", "create"]


def check(history: History) -> None:
    """Judge a history in all three ways.

    Raises:
        ViolationError: No correct database could have made it.
    """
    witness(history)
    linearizable(history)
    serializable(history)
