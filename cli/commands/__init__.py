"""The commands, one module each, named as they are typed.

A command is imported only when it runs, so that none waits for the imports of another. Its summary is here alone: it
is the command's line in `foldb --help`, and the first sentence of its own help (cli/main.py).
"""

from typing import NamedTuple


class CommandModule(NamedTuple):
    """A command: its function or typer group, as `module:name`, and its effect in one sentence.

    `has_ages` is whether its words may be ages such as -1h, which are not options.
    """

    target: str
    summary: str
    has_ages: bool = False


COMMANDS = {
    "serve": CommandModule(
        "commands.serve:serve",
        "Serve a database folder until SIGTERM or Ctrl-C. A missing folder is created.",
    ),
    "status": CommandModule(
        "commands.status:status", "Print the address of a server, its log, its size and how it syncs the log."
    ),
    "metrics": CommandModule(
        "commands.metrics:metrics",
        "Print CloudWatch's metrics: consumed units, throttles, latencies, errors.",
    ),
    "alarm": CommandModule(
        "commands.alarm:app", "Add, list, describe and remove alarms on metrics, which call a target."
    ),
    "table": CommandModule("commands.table:app", "Create, list, describe, change and delete tables."),
    "index": CommandModule("commands.index:app", "Print the state and the size of indexes."),
    "item": CommandModule("commands.item:app", "Put, get, update and delete items, and read their history."),
    "query": CommandModule(
        "commands.query:query", "Print the items with one partition key, in the order of their sort key."
    ),
    "scan": CommandModule(
        "commands.scan:scan", "Print the items of a table, in the order of their partition keys' hashes."
    ),
    "model": CommandModule(
        "commands.model:model", "Print the kinds of items in a table, by the patterns of their keys."
    ),
    "count": CommandModule(
        "commands.count:count", "Count the items of a table, of an index, or of one partition key."
    ),
    "sql": CommandModule(
        "commands.sql:sql", "Execute PartiQL statements: SELECT, INSERT, UPDATE and DELETE."
    ),
    "diff": CommandModule(
        "commands.diff:diff",
        "Print the items that differ between two states of a table, or of two tables.",
        has_ages=True,
    ),
    "tx": CommandModule("commands.tx:app", "Run a transaction, or print one that was run."),
    "undo": CommandModule(
        "commands.undo:undo", "Put back the items that a command, a transaction or a writer changed."
    ),
    "load": CommandModule(
        "commands.load:load", "Send a load of puts, gets, updates and queries to a table, and measure it."
    ),
    "explain": CommandModule(
        "commands.explain:app", "Print the items that a request reads or would write, and its capacity units."
    ),
    "capacity": CommandModule(
        "commands.capacity:app",
        "Compute the capacity units of a workload, and print those that are consumed.",
    ),
    "advise": CommandModule("commands.advise:app", "Find keys that limit the throughput of a table."),
    "whatif": CommandModule(
        "commands.whatif:whatif",
        "Print the write units, throttled requests and sizes that another definition of a table would have had.",
    ),
    "cost": CommandModule(
        "commands.cost:cost", "Print the cost of tables, provisioned and on demand, by prices from a file."
    ),
    "stream": CommandModule(
        "commands.stream.stream:app", "Read changes: the item before and after, the time and the author."
    ),
    "trigger": CommandModule(
        "commands.trigger.trigger:app", "Call functions, commands, endpoints and topics when items change."
    ),
    "dlq": CommandModule(
        "commands.dlq:app", "List, edit, retry and drop dead letters: changes that triggers failed on."
    ),
    "log": CommandModule(
        "commands.log.log:app",
        "Read, copy, back up and restore the log of a database. A server may run at the same time.",
    ),
    "doctor": CommandModule(
        "commands.doctor:doctor",
        "Check a database and its machine: one line for each check, with the next step.",
    ),
    "verify": CommandModule(
        "commands.verify:verify",
        "Read the whole log, check its chain of hashes, refold it from zero and compare digests.",
    ),
    "snapshot": CommandModule(
        "commands.snapshot:app",
        "Take and list snapshots. A start loads the newest one and folds only the log after it.",
    ),
    "restore": CommandModule(
        "commands.restore:restore",
        "Bring back a table, or items of it, as they were at a position or a time.",
    ),
    "fork": CommandModule("commands.fork:fork", "Copy a table, as it is or was, to a new table."),
    "backup": CommandModule(
        "commands.backup:app", "Create, list, describe, delete and restore backups of tables."
    ),
    "export": CommandModule(
        "commands.export:export",
        "Write a table as it is or was, or its changes between two cuts, to files or a folder.",
    ),
    "import": CommandModule(
        "commands.import_:import_",
        "Write the items of files or of exports to a table, or apply changes to it.",
    ),
    "copy": CommandModule("commands.copy:copy", "Copy a table from AWS, or from another DynamoDB endpoint."),
    "rebuild": CommandModule(
        "commands.rebuild:rebuild",
        "Make a table from the log again, compare it with the live table, and replace that.",
    ),
    "sample": CommandModule("commands.sample:app", "Load sample data, with queries that it answers."),
    "wait": CommandModule(
        "commands.wait:wait",
        "Wait until a position is folded and indexed, or until triggers have handled all changes.",
    ),
    "partition": CommandModule(
        "commands.partition:app",
        "Find the partition of a key, the capacity partitions of a table, and the key ranges with traffic.",
    ),
    "key": CommandModule("commands.key:app", "Create, list and revoke access keys."),
    "cluster": CommandModule(
        "commands.cluster:app", "List the nodes that share a log, and the partitions that each owns."
    ),
    "upgrade": CommandModule(
        "commands.upgrade:upgrade",
        "Raise the log to the level of this release, after every node that shares it runs this release.",
    ),
    "aws-config": CommandModule(
        "commands.aws_config:aws_config",
        "Print settings that point boto3, the AWS CLI and Terraform at the database.",
    ),
}
