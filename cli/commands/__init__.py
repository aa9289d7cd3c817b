"""The commands, one module each, named as they are typed.

A command is imported only when it runs, so that none waits for the imports of another. Its summary is here alone: it
is the command's line in `foldb --help`, and the first sentence of its own help (cli/main.py).
"""

from typing import NamedTuple


class Command(NamedTuple):
    """A command: its function or typer group, as `module:name`, and its effect in one sentence."""

    target: str
    summary: str


COMMANDS = {
    "serve": Command(
        "commands.serve:serve",
        "Serve a database folder until SIGTERM or Ctrl-C. A missing folder is created.",
    ),
    "status": Command(
        "commands.status:status", "Print the address of a server, its log, its size and how it syncs the log."
    ),
    "table": Command("commands.table:app", "Create, list, describe, change and delete tables."),
    "item": Command("commands.item:app", "Put, get, update and delete items."),
    "query": Command(
        "commands.query:query", "Print the items with one partition key, in the order of their sort key."
    ),
    "scan": Command(
        "commands.scan:scan", "Print the items of a table, in the order of their partition keys' hashes."
    ),
    "tx": Command("commands.tx:tx", "Run a list of writes, or of gets, as one transaction."),
    "explain": Command(
        "commands.explain:app", "Print the items that a request reads or would write, and its capacity units."
    ),
    "capacity": Command("commands.capacity:app", "Compute the capacity units of a workload."),
    "stream": Command(
        "commands.stream.stream:app", "Read changes: the item before and after, the time and the author."
    ),
    "trigger": Command(
        "commands.trigger.trigger:app", "Call functions, commands, endpoints and topics when items change."
    ),
    "dlq": Command(
        "commands.dlq:app", "List, edit, retry and drop dead letters: changes that triggers failed on."
    ),
    "log": Command(
        "commands.log.log:app",
        "Read, copy, back up and restore the log of a database. A server may run at the same time.",
    ),
    "verify": Command(
        "commands.verify:verify",
        "Read the whole log, check its chain of hashes, refold it from zero and compare digests.",
    ),
    "snapshot": Command(
        "commands.snapshot:app",
        "Take and list snapshots. A start loads the newest one and folds only the log after it.",
    ),
    "rebuild": Command(
        "commands.rebuild:rebuild",
        "Make a table from the log again, compare it with the live table, and replace that.",
    ),
    "sample": Command("commands.sample:app", "Load sample data, with queries that it answers."),
    "wait": Command(
        "commands.wait:wait",
        "Wait until a position is folded and indexed, or until triggers have handled all changes.",
    ),
    "partition": Command("commands.partition:app", "Find the partition of a key."),
    "key": Command("commands.key:app", "Create, list and revoke access keys."),
    "cluster": Command(
        "commands.cluster:app", "List the nodes that share a log, and the partitions that each owns."
    ),
    "upgrade": Command(
        "commands.upgrade:upgrade",
        "Raise the log to the level of this release, after every node that shares it runs this release.",
    ),
    "aws-config": Command(
        "commands.aws_config:aws_config",
        "Print settings that point boto3, the AWS CLI and Terraform at the database.",
    ),
}
