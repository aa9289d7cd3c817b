"""The commands, one module each, named like the command.

A command's module is imported when that command is meant and not before, so that no command waits for the imports of
another. What `foldb --help` says of each therefore stands here; a test compares it with what the module says.
"""

from typing import NamedTuple


class Place(NamedTuple):
    """Where a command is, `module:name`, and what it does in one sentence."""

    target: str
    summary: str


COMMANDS = {
    "serve": Place(
        "commands.serve:serve",
        "Serve a database folder until SIGTERM or Ctrl-C. A missing folder is created.",
    ),
    "status": Place(
        "commands.status:status",
        "Print where the database is, how long its log is, how much it holds and how it syncs.",
    ),
    "table": Place("commands.table:app", "Create, list, describe, change and delete tables."),
    "item": Place("commands.item:app", "Put, get, update and delete items."),
    "query": Place(
        "commands.query:query", "Print the items with one partition key, in the order of their sort key."
    ),
    "scan": Place(
        "commands.scan:scan", "Print the items of a table, in the order of their partition keys' hashes."
    ),
    "tx": Place(
        "commands.tx:tx", "Do a list of actions as one transaction; a list of gets reads at one moment."
    ),
    "explain": Place("commands.explain:app", "Say what a request reads or would write, and what it costs."),
    "capacity": Place("commands.capacity:app", "Plan capacity."),
    "stream": Place(
        "commands.stream.stream:app", "Read the change feed: what was changed, when, and by whom."
    ),
    "trigger": Place(
        "commands.trigger.trigger:app", "Call functions, commands, endpoints and topics when items change."
    ),
    "dlq": Place("commands.dlq:app", "Look at what triggers gave up, mend it, deliver it again, or drop it."),
    "log": Place(
        "commands.log.log:app",
        "Read, copy, back up and restore the log of a database, also while a server writes it.",
    ),
    "verify": Place(
        "commands.verify:verify",
        "Read the whole log, check its chain of hashes, refold it from zero and compare digests.",
    ),
    "snapshot": Place(
        "commands.snapshot:app",
        "Make and list snapshots, from which a database starts without its whole log.",
    ),
    "rebuild": Place(
        "commands.rebuild:rebuild",
        "Make a table anew from the log, compare it with the live one, and put it in its place.",
    ),
    "sample": Place("commands.sample:app", "Sample data, and the queries that it answers."),
    "wait": Place(
        "commands.wait:wait",
        "Wait until a position is folded and the global indexes have it, or until triggers have handled all changes.",
    ),
    "partition": Place("commands.partition:app", "Say where keys live."),
    "key": Place("commands.key:app", "Make, list and revoke access keys."),
    "cluster": Place(
        "commands.cluster:app", "Say which nodes share a log, who serves what, and what lags behind."
    ),
    "upgrade": Place(
        "commands.upgrade:upgrade",
        "Bring the log to the level of this release, once every node that shares it is of this release.",
    ),
    "aws-config": Place(
        "commands.aws_config:aws_config",
        "Print settings that point boto3, the AWS CLI and Terraform at the database.",
    ),
}
