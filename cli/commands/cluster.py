"""`foldb cluster`: the nodes that share a log, as the node that answers sees them."""

from ..lib.command_group import CommandGroup
from ..lib.session import Session

app = CommandGroup()


@app.command()
def status(session: Session) -> None:
    """List the partitions: owner, standby, end, and the entries by which owner and standby lag.

    Warnings about the topic follow. Any node of the cluster can answer.

    Example: foldb cluster status --db http://127.0.0.1:8000
    """
    answer = session.client.admin("Cluster")
    session.output.rows(
        answer["Partitions"], first=("Partition", "Owner", "OwnerLag", "Standby", "StandbyLag")
    )
    for problem in answer["Problems"]:
        session.output.warn(problem)


@app.command()
def nodes(session: Session) -> None:
    """List the nodes: whether each answers, and the partitions that it owns.

    Example: foldb cluster nodes --db http://127.0.0.1:8000
    """
    session.output.rows(session.client.admin("Cluster")["Nodes"], first=("Address", "Answers", "Leads"))
