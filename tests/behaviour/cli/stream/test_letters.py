"""`foldb dlq`: what was given up is looked at, mended, delivered again in the order of its key, or dropped."""

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest

from tests.behaviour.cli.conftest import lines
from tests.behaviour.cli.stream.conftest import Shop
from tests.behaviour.cli.test_refusals import check
from tests.support.served import FOLDB

BAD = '{"id": "x", "n": 1, "bad": true}'
LATER = '{"id": "x", "n": 2}'


@pytest.fixture
def failed(shop: Shop) -> Shop:
    """A trigger `receipts` that gave up one change, and another because it follows that."""
    added = shop.run(
        "trigger", "add", "receipts", "--table", "Orders", "--python", "receipts.py:send", "--retries", "0"
    )
    assert added.exit_code == 0, added.output
    shop.put(BAD, LATER, '{"id": "y"}')
    assert ["INSERT y False"] == shop.notes()
    return shop


def test_letters_tell_what_failed_how_and_how_often(failed: Shop) -> None:
    first, second = lines(failed.run("dlq", "list", "receipts"))

    assert ({"id": "x"}, "INSERT", "ValueError: no such customer", 1) == tuple(
        first[name] for name in ("key", "op", "error", "attempts")
    )
    assert ("MODIFY", f"waits for sequence number {first['number']}", 0) == tuple(
        second[name] for name in ("op", "error", "attempts")
    )
    [counted] = lines(failed.run("dlq", "list"))
    assert ("receipts", 2) == (counted["trigger"], counted["letters"])
    [whole] = lines(failed.run("dlq", "show", "receipts", first["number"]))
    assert 'raise ValueError("no such customer")' in whole["traceback"]
    assert json.loads(BAD) == whole["payload"]["new"]
    [typed] = lines(failed.run("dlq", "show", "receipts", first["number"], "--typed"))
    assert {"N": "1"} == typed["payload"]["new"]["n"]


@pytest.mark.parametrize("which", ["o 1E+100", "o 1e100", f"o 1{'0' * 100}", "o 1.0E100"])
def test_a_letter_is_found_by_its_key_however_its_number_is_written(shop: Shop, which: str) -> None:
    shop.run("table", "create", "Numbers", "name:S", "nth:N")
    shop.run("trigger", "add", "num", "--table", "Numbers", "--python", "receipts.py:send", "--retries", "0")
    for nth in ("1E+100", "2"):
        shop.run("item", "put", "Numbers", f'{{"name": "o", "nth": {nth}, "id": "x", "bad": true}}')
    shop.settle()
    assert 2 == len(lines(shop.run("dlq", "list", "num")))

    [letter] = lines(shop.run("dlq", "show", "num", which))
    assert 10**100 == letter["key"]["nth"]
    for nothing in ("o", "o sNaN", "p 1E+100", "o 1E+100 x"):
        assert 3 == shop.run("dlq", "show", "num", nothing).exit_code


def test_a_mended_letter_is_delivered_before_what_follows_it(failed: Shop) -> None:
    assert 10 == failed.run("dlq", "retry", "receipts").exit_code
    assert [] == failed.notes()
    assert 2 == lines(failed.run("dlq", "list", "receipts"))[0]["attempts"]

    [edited] = lines(failed.run("dlq", "edit", "receipts", "x", "--set", "new.bad=false", "--set", "new.n=5"))
    assert {"id": "x", "n": 5, "bad": False} == edited["payload"]["new"]
    assert [{"delivered": 2, "failed": 0, "left": 0}] == lines(failed.run("dlq", "retry", "receipts", "x"))
    assert ["INSERT x False", "MODIFY x False"] == failed.notes()
    failed.put('{"id": "x", "n": 3}')
    assert ["MODIFY x False"] == failed.notes()


@pytest.mark.parametrize("form", ["plain", "typed", "a whole letter"])
def test_a_payload_can_be_read_from_a_file(failed: Shop, tmp_path: Path, form: str) -> None:
    flags = ("--typed",) if form == "typed" else ()
    [letter, _] = lines(failed.run("dlq", "show", "receipts", "x", *flags))
    letter["payload"]["new"]["bad"] = {"BOOL": False} if form == "typed" else False
    (tmp_path / "payload").write_text(
        json.dumps(letter if form == "a whole letter" else {"new": letter["payload"]["new"]})
    )

    failed.run("dlq", "edit", "receipts", "x", "--payload", str(tmp_path / "payload"), *flags)

    [mended, _] = lines(failed.run("dlq", "show", "receipts", "x"))
    assert {"id": "x", "n": 1, "bad": False} == mended["payload"]["new"]
    assert None is mended["payload"]["old"]


def edited(shop: Shop, editor: Path, script: str) -> subprocess.CompletedProcess[str]:
    """`foldb dlq edit receipts x` on a terminal, with an editor that does as `script` says to the file `$2`."""
    editor.write_text(f"#!/bin/sh\n{script}\n")
    editor.chmod(0o700)
    ours, theirs = pty.openpty()
    environment = os.environ | {"EDITOR": f"{editor} -w", "VISUAL": "", "TMPDIR": str(editor.parent)}
    url = lines(shop.run("status"))[0]["Endpoint"]
    command = [FOLDB, "dlq", "edit", "receipts", "x", "--db", url]
    result = subprocess.run(
        command, stdin=theirs, capture_output=True, text=True, timeout=60, env=environment, check=False
    )
    os.close(ours)
    os.close(theirs)
    return result


def test_an_editor_is_opened_on_a_terminal(failed: Shop, tmp_path: Path) -> None:
    result = edited(failed, tmp_path / "editor", 'sed -i "s/true/false/" "$2"')

    assert json.loads(result.stdout)["payload"]["new"] == {"id": "x", "n": 1, "bad": False}
    assert lines(failed.run("dlq", "show", "receipts", "x"))[0]["payload"]["new"]["bad"] is False
    assert [] == list(tmp_path.glob("foldb-*"))


@pytest.mark.parametrize(
    ("typed", "says"), [('{"new": ', "what you wrote is not JSON"), ("{}", "what you wrote is no payload")]
)
def test_what_was_typed_in_an_editor_is_not_lost_by_a_slip(
    failed: Shop, tmp_path: Path, typed: str, says: str
) -> None:
    result = edited(failed, tmp_path / "editor", f"printf %s '{typed}' > \"$2\"")

    check(result, 2, says)
    [kept] = tmp_path.glob("foldb-*/payload.json")
    assert f"what you wrote is in {kept}: mend it, and say --payload {kept}\n" in result.stderr
    assert typed == kept.read_text()


def test_an_editor_that_fails_leaves_nothing_behind(failed: Shop, tmp_path: Path) -> None:
    check(edited(failed, tmp_path / "editor", "exit 3"), 130, "editor ended with 3: nothing was changed")
    assert [] == list(tmp_path.glob("foldb-*"))


def test_a_letter_that_is_larger_than_an_item_may_be_is_mended(failed: Shop) -> None:
    """It holds two images, each as large as an item may be."""
    for n in (1, 2):
        large = {"id": "large", "n": n, "bad": True, "text": "x" * 390_000}
        assert 0 == failed.run("item", "put", "Orders", "-", stdin=json.dumps(large)).exit_code
    failed.settle()
    first, second = (each["number"] for each in lines(failed.run("dlq", "show", "receipts", "large")))
    for number in (first, second):
        edited = failed.run("dlq", "edit", "receipts", number, "--set", "new.bad=false")
        assert 0 == edited.exit_code, edited.output

    assert [{"delivered": 2, "failed": 0, "left": 0}] == lines(
        failed.run("dlq", "retry", "receipts", "large")
    )
    assert ["INSERT large False", "MODIFY large False"] == failed.notes()


def test_letters_are_dropped_once_somebody_said_yes(failed: Shop) -> None:
    asked = failed.run("dlq", "drop", "receipts", "x")
    assert 2 == asked.exit_code
    assert "Drop 2 letters of 1 key? What they hold is delivered to nobody. [y/N]" in asked.stderr
    assert 2 == len(lines(failed.run("dlq", "list", "receipts")))

    assert "2 letters dropped\n" == failed.run("dlq", "drop", "receipts", "x", "--yes").stderr
    assert [] == lines(failed.run("dlq", "list", "receipts"))
    failed.put('{"id": "x", "n": 3}')
    assert ["MODIFY x False"] == failed.notes()


def test_a_number_drops_its_letter_and_leaves_the_others_of_its_key(failed: Shop) -> None:
    failed.put('{"id": "x", "n": 3}')
    first, second, third = (letter["number"] for letter in lines(failed.run("dlq", "list", "receipts")))

    asked = failed.run("dlq", "drop", "receipts", second)
    assert "Drop 1 letter of 1 key?" in asked.stderr
    assert "Of its key 1 before it and 1 behind it stay. [y/N]" in asked.stderr
    assert 3 == len(lines(failed.run("dlq", "list", "receipts")))

    dropped = failed.run("dlq", "drop", "receipts", second, "--yes")
    assert "1 letter dropped. Of its key 1 before it and 1 behind it stay.\n" == dropped.stderr
    assert [first, third] == [letter["number"] for letter in lines(failed.run("dlq", "list", "receipts"))]
    failed.run("dlq", "drop", "receipts", first, "--yes")
    assert [{"delivered": 1, "failed": 0, "left": 0}] == lines(failed.run("dlq", "retry", "receipts"))
    assert ["MODIFY x False"] == failed.notes()


def test_a_letter_without_a_change_is_shown_and_dropped(failed: Shop) -> None:
    """Who edits the table itself can make one."""
    first = lines(failed.run("dlq", "list", "receipts"))[0]["number"]
    bare = json.dumps({"key": 'receipts Orders {"id":{"S":"x"}}', "number": first})
    assert 0 == failed.run("item", "put", "receipts.dlq", bare).exit_code

    assert None is lines(failed.run("dlq", "show", "receipts", first))[0]["payload"]["new"]
    assert 0 == failed.run("dlq", "drop", "receipts", first, "--yes").exit_code
    assert 0 == failed.run("dlq", "drop", "receipts", "x", "--yes").exit_code
    assert [] == lines(failed.run("dlq", "list", "receipts"))


def test_the_letters_of_a_trigger_that_is_removed_are_in_their_table(failed: Shop) -> None:
    failed.run("trigger", "remove", "receipts", "--yes")

    for command in ("list", "show", "retry", "drop"):
        check(
            failed.run("dlq", command, "receipts", "--yes"),
            3,
            "there is no trigger receipts any more; its letters are in the table receipts.dlq: `foldb scan",
        )


def test_mistakes_are_said_in_a_sentence(failed: Shop, tmp_path: Path) -> None:
    failed.run("trigger", "add", "healthy", "--table", "Orders", "--python", "receipts.py:send")
    (tmp_path / "text").write_text("[1]")
    for arguments, code, says in (
        ("list nope", 3, "`foldb trigger list` names the triggers there are."),
        ("list receipts --limit 0", 2, "--limit"),
        ("show healthy", 3, "healthy has no letters: nothing was given up"),
        ("show receipts nope", 3, "receipts has no letter nope: `foldb dlq list receipts` prints those"),
        ("edit receipts", 2, "missing argument 'NUMBER|KEY'"),
        ("edit receipts x", 2, "there is no terminal for an editor: say --set or --payload"),
        ("edit receipts x --set bad", 2, "--set bad: write new.NAME=JSON, new=JSON, or the same of old"),
        ("edit receipts x --set new.bad=yes", 2, "--set new.bad is not JSON"),
        ("edit receipts x --set new.a.b=1", 2, "--set new.a.b=1: there is no new.a.b to set"),
        ("edit receipts x --set new=1", 2, "--set new is no payload"),
        ("edit receipts x --set old.n=1", 2, "there is no old.n to set"),
        ("edit receipts x --set new.n=1 --payload -", 2, "--set and --payload: say one of them"),
        ("edit receipts x --payload /nowhere/p", 2, "cannot read /nowhere/p: No such file or directory"),
        (f"edit receipts x --payload {tmp_path}/text", 2, "is no payload: write a JSON object"),
        ("retry nope", 3, "`foldb trigger list` names the triggers there are."),
        ("retry receipts nope", 3, "receipts has no letter nope"),
        ("retry receipts --limit -1", 2, "--limit"),
        ("drop receipts nope --yes", 3, "receipts has no letter nope"),
        ("drop receipts --no-input", 2, "Nothing was done: say --yes."),
        ("list --db http://127.0.0.1:1", 8, "cannot reach http://127.0.0.1:1."),
        ("list --db /nowhere/data", 8, "there is no database in /nowhere/data."),
    ):
        check(failed.run("dlq", *arguments.split(" ")), code, says)
    assert 2 == len(lines(failed.run("dlq", "list", "receipts")))
