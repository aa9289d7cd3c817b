"""`foldb cluster`: the nodes that share a log, as the node that answers sees them."""

import typer

from ..lib.session import Session

app = typer.Typer(no_args_is_help=True)


@app.command()
def status(ctx: typer.Context) -> None:
    """List the partitions: owner, standby, end, and the entries by which owner and standby lag.

    Warnings about the topic follow. Any node of the cluster can answer.

    Example: foldb cluster status --db http://127.0.0.1:8000
    """
    session: Session = ctx.obj
    answer = session.client.admin("Cluster")
    session.output.rows(
        answer["Partitions"], first=("Partition", "Owner", "OwnerLag", "Standby", "StandbyLag")
    )
    for problem in answer["Problems"]:
        session.output.warn(problem)


@app.command()
def nodes(ctx: typer.Context) -> None:
    """List the nodes: whether each answers, and the partitions that it owns.

    Example: foldb cluster nodes --db http://127.0.0.1:8000
    """
    session: Session = ctx.obj
    session.output.rows(session.client.admin("Cluster")["Nodes"], first=("Address", "Answers", "Leads"))
