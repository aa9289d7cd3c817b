"""`foldb cluster`: the nodes that share a log, as the one that is asked sees them."""

import typer

from ..lib.session import Session

app = typer.Typer(
    help="Say which nodes share a log, who serves what, and what lags behind.", no_args_is_help=True
)


@app.command()
def status(ctx: typer.Context) -> None:
    """List the partitions: who owns each, who stands by, where it ends, and how many entries both lag behind.

    What is wrong with the topic, or should be known of it, follows. Any node can be asked.

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
    """List the nodes: whether each answers, and what it leads.

    Example: foldb cluster nodes --db http://127.0.0.1:8000
    """
    session: Session = ctx.obj
    session.output.rows(session.client.admin("Cluster")["Nodes"], first=("Address", "Answers", "Leads"))
