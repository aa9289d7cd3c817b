"""Every command of triggers and streams prints all output formats."""

import typer.main
from typer import Typer

from foldb.cli.commands import dlq
from foldb.cli.commands.stream import stream
from foldb.cli.commands.trigger import trigger
from tests.behaviour.cli.stream.conftest import Shop

GROUPS: dict[str, Typer] = {"stream": stream.app, "trigger": trigger.app, "dlq": dlq.app}

# In this order: the first trigger has a dead letter, which is edited, fails again, and is dropped.
COMMANDS = """\
trigger add more --table Orders --python receipts.py:send
trigger add more --replace --batch 7 --retries 0
trigger list
trigger show more
trigger lag
trigger pause more
trigger resume more
trigger reset more --from horizon --yes
trigger test receipts
trigger explain receipts
trigger replay receipts --from horizon --dry-run
trigger replay more --from horizon --key x --yes --no-wait
trigger remove more --yes
stream list
stream describe Orders
stream tail --table Orders
stream stats
dlq list
dlq list receipts
dlq show receipts
dlq edit receipts x --set new.n=1
dlq retry receipts
dlq drop receipts --yes
""".splitlines()

INTERACTIVE = {"trigger debug"}  # its output is that of the debugger

FAILS = {"dlq retry receipts"}  # the customer is still none, which is said when the row is written


def test_every_command_writes_every_format(shop: Shop) -> None:
    shop.run(
        "trigger", "add", "receipts", "--table", "Orders", "--python", "receipts.py:send", "--retries", "0",
        "--backoff", "1ms..1ms",
    )  # fmt: skip

    for form in ("table", "csv", "raw"):
        shop.put(f'{{"id": "x", "bad": true, "price": 1.5, "form": "{form}"}}')
        for command in COMMANDS:
            result = shop.run(*command.split(" "), "-o", form)
            assert (10 if command in FAILS else 0) == result.exit_code, (command, result.output)
            assert result.stdout or command.split(" ")[1] in ("remove", "drop"), command


def test_every_command_is_in_the_list() -> None:
    there = {f"{name} {command}" for name, app in GROUPS.items() for command in _names(app)}

    assert there - INTERACTIVE == {" ".join(command.split(" ")[:2]) for command in COMMANDS}


def _names(app: Typer) -> list[str]:
    group = typer.main.get_group(app)
    return list(group.commands)
