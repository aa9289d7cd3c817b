"""Commands: run without a shell, with the changes on stdin, and judged by the exit status."""

import json
from pathlib import Path

import pytest

from foldb.model.errors import ValidationError
from foldb.streams.sinks import sink_kind
from foldb.streams.sinks.sink import DeliveryResult, Failure, Sink, Success
from tests.unit.streams.deliveries import delivery, numbered, order
from tests.unit.streams.sinks.context import batch
from tests.unit.streams.workers.test_isolation import _assert_gone
from tests.unit.streams.workers.working import Folder, command

COPY = '#!/bin/sh\ncat > "$OUT"\n'

HOSTILE = [
    "; touch pwned",
    "$(touch pwned)",
    "`touch pwned`",
    "| touch pwned",
    "&& touch pwned #",
    "\n touch pwned\n",
    "%0a touch pwned",
    "' ; touch pwned ; '",
    '" ; touch pwned ; "',
    "--help",
    "\r\n\x00\x1b[2J",
    "${IFS}touch${IFS}pwned",
    "\u2028 touch pwned",
]


def test_changes_are_lines_of_json_on_stdin(folder: Folder) -> None:
    folder.write("copy.sh", COPY)

    assert folder.deliver(command("./copy.sh")) == Success()

    lines = [json.loads(line) for line in folder.out.splitlines()]
    assert [line["keys"]["order"] for line in lines] == [{"N": "1"}, {"N": "2"}, {"N": "3"}]
    assert {line["op"] for line in lines} == {"INSERT"}


@pytest.mark.guarantee("SEC25")
def test_item_content_reaches_stdin_alone(folder: Folder) -> None:
    """Neither arguments nor environment have item content, and a line end in a string ends no line."""
    folder.write(
        "copy.sh",
        COPY + "[ $# = 1 ] || exit 9\nenv | grep -q touch && exit 8\ntest -e pwned && exit 7\nexit 0\n",
    )
    items = [{**order(text, nth), text.strip(): {"S": text}} for nth, text in enumerate(HOSTILE)]

    assert folder.deliver(command("./copy.sh", "one"), [delivery(None, item) for item in items]) == Success()

    lines = folder.out.split("\n")[:-1]
    assert [json.loads(line)["new"] for line in lines] == items
    assert not list(folder.path.parent.rglob("pwned"))


@pytest.mark.guarantee("SEC25")
def test_no_shell_interprets_arguments(folder: Folder) -> None:
    folder.write("say.sh", '#!/bin/sh\nprintf "%s|" "$@" > "$OUT"\n')

    assert folder.deliver(command("./say.sh", "$HOME", "a b", "*", "; exit 1")) == Success()
    assert folder.out == "$HOME|a b|*|; exit 1|"


def test_a_failed_command_shows_its_output(folder: Folder) -> None:
    folder.write("fail.sh", "#!/bin/sh\necho out\necho the mail server is down >&2\nexit 75\n")

    assert folder.deliver(command("./fail.sh")) == Failure(
        "./fail.sh: exit status 75", "out\nthe mail server is down\n"
    )


def test_a_command_killed_by_a_signal_has_failed(folder: Folder) -> None:
    folder.write("die.sh", "#!/bin/sh\nkill -9 $$\n")

    result = folder.deliver(command("./die.sh"))

    assert isinstance(result, Failure)
    assert result.error == "./die.sh: killed by SIGKILL"


def test_a_command_need_not_read_its_stdin(folder: Folder) -> None:
    folder.write("deaf.sh", "#!/bin/sh\nexit 0\n")
    large = [delivery(None, order(text={"S": "x" * 300_000}), offset=nth) for nth in range(5)]

    assert folder.deliver(command("./deaf.sh"), large) == Success()


def test_a_slow_command_is_killed_with_its_processes(folder: Folder) -> None:
    folder.write(
        "sleep.sh",
        "#!/bin/sh\ntrap '' TERM\nsleep 600 &\necho $! > \"$OUT\"\necho waiting\nwait\nsleep 600\n",
    )

    result = folder.deliver(command("./sleep.sh"), timeout_s=1)

    assert isinstance(result, Failure)
    assert result.error == "./sleep.sh: took longer than 1 s and was ended"
    assert result.traceback is not None
    assert result.traceback.startswith("waiting\n")
    _assert_gone(int(folder.out))


def test_background_processes_end_with_their_command(folder: Folder) -> None:
    folder.write("leave.sh", '#!/bin/sh\nsleep 600 &\necho $! > "$OUT"\n')

    assert folder.deliver(command("./leave.sh")) == Success()
    _assert_gone(int(folder.out))


@pytest.mark.guarantee("SEC26")
def test_a_fork_bomb_is_ended(folder: Folder) -> None:
    folder.write(
        "bomb.py.sh",
        "#!/bin/sh\ni=0\nbomb() { i=$((i+1)); [ $i -gt 5 ] && sleep 600; bomb & bomb & wait; }\nbomb\n",
    )

    result = folder.deliver(command("./bomb.py.sh"), timeout_s=1)

    assert isinstance(result, Failure)
    assert "took longer than 1 s" in result.error


def test_a_changed_command_file_is_another_version(folder: Folder) -> None:
    folder.write("c.sh", "#!/bin/sh\nexit 0\n")

    async def changed(sink: Sink) -> list[tuple[str, DeliveryResult]]:
        found = []
        for status in (1, 2):
            folder.write("c.sh", f"#!/bin/sh\nexit {status}\n")
            result = await sink.deliver(batch(numbered(1)))
            found.append((sink.version, result))
        return found

    (first, one), (second, two) = folder.using(command("./c.sh"), changed)

    assert (one, two) == (Failure("./c.sh: exit status 1"), Failure("./c.sh: exit status 2"))
    assert first != second


@pytest.mark.guarantee("SEC22")
@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["/bin/sh", "-c", "true"], "is outside the folder of triggers"),
        (["../outside.sh"], "is outside the folder of triggers"),
        (["link.sh"], "is outside the folder of triggers"),
        (["./missing.sh"], "there is no ./missing.sh in the folder of triggers"),
        (["app.py"], "is not executable"),
    ],
)
def test_only_files_of_the_folder_run(folder: Folder, argv: list[str], said: str) -> None:
    folder.write("app.py", "")
    outside = folder.path.parent / "outside.sh"
    outside.write_text(COPY)
    outside.chmod(0o755)
    Path(folder.path / "link.sh").symlink_to(outside)

    with pytest.raises(ValidationError, match=said):
        folder.deliver(command(*argv))


@pytest.mark.parametrize(
    "settings",
    [
        {"Kind": "command"},
        {"Kind": "command", "Command": "./notify.sh"},
        {"Kind": "command", "Command": []},
        {"Kind": "command", "Command": ["./a", 1]},
        {"Kind": "command", "Command": ["./a", "b\0c"]},
        {"Kind": "command", "Command": ["./a"], "Shell": True},
        {"Kind": "python", "Function": "os.system"},
        {"Kind": "python", "Function": "app:f; import os"},
        {"Kind": "python", "Function": "../app:f"},
        {"Kind": "python", "Function": "app:f", "MemorySize": 1},
        {"Kind": "lambda", "Handler": "lambda_handler"},
        {"Kind": "lambda", "Handler": "../app.lambda_handler"},
    ],
)
def test_settings_without_code_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        sink_kind(settings).check(settings)


@pytest.mark.parametrize("kind", [command("./a.sh"), {"Kind": "python", "Function": "app:f"}])
def test_without_a_folder_no_code_runs(folder: Folder, kind: dict[str, object]) -> None:
    async def nothing(_: Sink) -> None: ...

    folder.path = None  # type: ignore[assignment]
    with pytest.raises(ValidationError, match="foldb serve --triggers FOLDER"):
        folder.using(kind, nothing)
