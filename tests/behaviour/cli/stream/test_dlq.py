"""`foldb dlq`: dead letters are listed, edited, retried in the order of their key, or dropped."""

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
    """A trigger `receipts` with two dead letters of one key: a failed change and a later one."""
    added = shop.run(
        "trigger", "add", "receipts", "--table", "Orders", "--python", "receipts.py:send", "--retries", "0"
    )
    assert added.exit_code == 0, added.output
    shop.put(BAD, LATER, '{"id": "y"}')
    assert ["INSERT y False"] == shop.notes()
    return shop


def test_a_dead_letter_has_change_error_and_attempts(failed: Shop) -> None:
    first, second = lines(failed.run("dlq", "list", "receipts"))

    assert ({"id": "x"}, "INSERT", "ValueError: no such customer", 1) == tuple(
        first[name] for name in ("key", "op", "error", "attempts")
    )
    assert ("MODIFY", f"waits for sequence number {first['number']}", 0) == tuple(
        second[name] for name in ("op", "error", "attempts")
    )
    [counted] = lines(failed.run("dlq", "list"))
    assert ("receipts", 2) == (counted["trigger"], counted["dead_letters"])
    [whole] = lines(failed.run("dlq", "show", "receipts", first["number"]))
    assert 'raise ValueError("no such customer")' in whole["traceback"]
    assert json.loads(BAD) == whole["payload"]["new"]
    [typed] = lines(failed.run("dlq", "show", "receipts", first["number"], "--typed"))
    assert {"N": "1"} == typed["payload"]["new"]["n"]


@pytest.mark.parametrize("selector", ["o 1E+100", "o 1e100", f"o 1{'0' * 100}", "o 1.0E100"])
def test_any_spelling_of_a_number_selects_its_key(shop: Shop, selector: str) -> None:
    shop.run("table", "create", "Numbers", "name:S", "nth:N")
    shop.run("trigger", "add", "num", "--table", "Numbers", "--python", "receipts.py:send", "--retries", "0")
    for nth in ("1E+100", "2"):
        shop.run("item", "put", "Numbers", f'{{"name": "o", "nth": {nth}, "id": "x", "bad": true}}')
    shop.settle()
    assert 2 == len(lines(shop.run("dlq", "list", "num")))

    [dead_letter] = lines(shop.run("dlq", "show", "num", selector))
    assert 10**100 == dead_letter["key"]["nth"]
    for nothing in ("o", "o sNaN", "p 1E+100", "o 1E+100 x"):
        assert 3 == shop.run("dlq", "show", "num", nothing).exit_code


def test_an_edited_dead_letter_is_retried_before_later_ones(failed: Shop) -> None:
    assert 10 == failed.run("dlq", "retry", "receipts").exit_code
    assert [] == failed.notes()
    assert 2 == lines(failed.run("dlq", "list", "receipts"))[0]["attempts"]

    [edited] = lines(failed.run("dlq", "edit", "receipts", "x", "--set", "new.bad=false", "--set", "new.n=5"))
    assert {"id": "x", "n": 5, "bad": False} == edited["payload"]["new"]
    assert [{"delivered": 2, "failed": 0, "left": 0}] == lines(failed.run("dlq", "retry", "receipts", "x"))
    assert ["INSERT x False", "MODIFY x False"] == failed.notes()
    failed.put('{"id": "x", "n": 3}')
    assert ["MODIFY x False"] == failed.notes()


@pytest.mark.parametrize("form", ["plain", "typed", "a whole dead letter"])
def test_a_payload_is_read_from_a_file(failed: Shop, tmp_path: Path, form: str) -> None:
    flags = ("--typed",) if form == "typed" else ()
    [dead_letter, _] = lines(failed.run("dlq", "show", "receipts", "x", *flags))
    dead_letter["payload"]["new"]["bad"] = {"BOOL": False} if form == "typed" else False
    (tmp_path / "payload").write_text(
        json.dumps(dead_letter if form == "a whole dead letter" else {"new": dead_letter["payload"]["new"]})
    )

    failed.run("dlq", "edit", "receipts", "x", "--payload", str(tmp_path / "payload"), *flags)

    [mended, _] = lines(failed.run("dlq", "show", "receipts", "x"))
    assert {"id": "x", "n": 1, "bad": False} == mended["payload"]["new"]
    assert None is mended["payload"]["old"]


def edited(shop: Shop, editor: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run `foldb dlq edit receipts x` on a terminal, with `script` as the editor of the file `$2`."""
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
    ("typed", "says"), [('{"new": ', "your text is not JSON"), ("{}", "your text is not a payload")]
)
def test_invalid_text_from_an_editor_is_kept_in_a_file(
    failed: Shop, tmp_path: Path, typed: str, says: str
) -> None:
    result = edited(failed, tmp_path / "editor", f"printf %s '{typed}' > \"$2\"")

    check(result, 2, says)
    [kept] = tmp_path.glob("foldb-*/payload.json")
    assert f"your text is in {kept}: correct it and use --payload {kept}\n" in result.stderr
    assert typed == kept.read_text()


def test_an_editor_that_fails_leaves_no_file(failed: Shop, tmp_path: Path) -> None:
    check(edited(failed, tmp_path / "editor", "exit 3"), 130, "editor ended with 3: nothing was changed")
    assert [] == list(tmp_path.glob("foldb-*"))


def test_a_dead_letter_larger_than_an_item_is_edited(failed: Shop) -> None:
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


def test_dead_letters_are_dropped_after_confirmation(failed: Shop) -> None:
    planned = failed.run("dlq", "drop", "receipts", "x", "--dry-run")
    assert {"change": "drop dead letters", "trigger": "receipts", "dead_letters": 2, "keys": 1} == lines(
        planned
    )[0]
    asked = failed.run("dlq", "drop", "receipts", "x")
    assert 2 == asked.exit_code
    assert "Drop 2 dead letters of 1 key? Their changes are never delivered. [y/N]" in asked.stderr
    assert 2 == len(lines(failed.run("dlq", "list", "receipts")))

    assert "2 dead letters dropped\n" == failed.run("dlq", "drop", "receipts", "x", "--yes").stderr
    assert [] == lines(failed.run("dlq", "list", "receipts"))
    failed.put('{"id": "x", "n": 3}')
    assert ["MODIFY x False"] == failed.notes()


def test_a_drop_by_number_keeps_the_others_of_the_key(failed: Shop) -> None:
    failed.put('{"id": "x", "n": 3}')
    first, second, third = (each["number"] for each in lines(failed.run("dlq", "list", "receipts")))

    [plan] = lines(failed.run("dlq", "drop", "receipts", second, "--dry-run"))
    assert (1, 1, 1) == (plan["dead_letters"], plan["kept_before"], plan["kept_after"])
    asked = failed.run("dlq", "drop", "receipts", second)
    assert "Drop 1 dead letter of 1 key?" in asked.stderr
    assert "1 before it and 1 after it of the same key are kept. [y/N]" in asked.stderr
    assert 3 == len(lines(failed.run("dlq", "list", "receipts")))

    dropped = failed.run("dlq", "drop", "receipts", second, "--yes")
    assert "1 dead letter dropped. 1 before it and 1 after it of the same key are kept.\n" == dropped.stderr
    assert [first, third] == [each["number"] for each in lines(failed.run("dlq", "list", "receipts"))]
    failed.run("dlq", "drop", "receipts", first, "--yes")
    assert [{"delivered": 1, "failed": 0, "left": 0}] == lines(failed.run("dlq", "retry", "receipts"))
    assert ["MODIFY x False"] == failed.notes()


def test_a_dead_letter_without_a_change_is_shown_and_dropped(failed: Shop) -> None:
    """A user may write such an item into the table."""
    first = lines(failed.run("dlq", "list", "receipts"))[0]["number"]
    bare = json.dumps({"key": 'receipts Orders {"id":{"S":"x"}}', "number": first})
    assert 0 == failed.run("item", "put", "receipts.dlq", bare).exit_code

    assert None is lines(failed.run("dlq", "show", "receipts", first))[0]["payload"]["new"]
    assert 0 == failed.run("dlq", "drop", "receipts", first, "--yes").exit_code
    assert 0 == failed.run("dlq", "drop", "receipts", "x", "--yes").exit_code
    assert [] == lines(failed.run("dlq", "list", "receipts"))


def test_dead_letters_of_a_removed_trigger_stay_in_their_table(failed: Shop) -> None:
    failed.run("trigger", "remove", "receipts", "--yes")

    for command in ("list", "show", "retry", "drop"):
        check(
            failed.run("dlq", command, "receipts", "--yes"),
            3,
            "there is no trigger receipts, but the table of its dead letters exists: `foldb scan receipts.dlq`",
        )


def test_an_invalid_command_fails_with_one_sentence(failed: Shop, tmp_path: Path) -> None:
    failed.run("trigger", "add", "healthy", "--table", "Orders", "--python", "receipts.py:send")
    (tmp_path / "text").write_text("[1]")
    for arguments, code, says in (
        ("list nope", 3, "`foldb trigger list` lists the triggers."),
        ("list receipts --limit 0", 2, "--limit"),
        ("show healthy", 3, "healthy has no dead letters"),
        ("show receipts nope", 3, "receipts has no dead letter nope: `foldb dlq list receipts` prints them"),
        ("edit receipts", 2, "missing argument 'NUMBER|KEY'"),
        ("edit receipts x", 2, "there is no terminal for an editor: use --set or --payload"),
        ("edit receipts x --set bad", 2, "--set bad: write new.NAME=JSON, new=JSON, or the same of old"),
        ("edit receipts x --set new.bad=yes", 2, "--set new.bad is not JSON"),
        ("edit receipts x --set new.a.b=1", 2, "--set new.a.b=1: there is no new.a.b to set"),
        ("edit receipts x --set new=1", 2, "--set new is not a payload"),
        ("edit receipts x --set old.n=1", 2, "there is no old.n to set"),
        ("edit receipts x --set new.n=1 --payload -", 2, "--set and --payload: give one of them"),
        ("edit receipts x --payload /nowhere/p", 2, "cannot read /nowhere/p: No such file or directory"),
        (f"edit receipts x --payload {tmp_path}/text", 2, "is not a payload: write a JSON object"),
        ("retry nope", 3, "`foldb trigger list` lists the triggers."),
        ("retry receipts nope", 3, "receipts has no dead letter nope"),
        ("retry receipts --limit -1", 2, "--limit"),
        ("drop receipts nope --yes", 3, "receipts has no dead letter nope"),
        ("drop receipts --no-input", 2, "Nothing was done: give --yes."),
        ("list --db http://127.0.0.1:1", 8, "cannot reach http://127.0.0.1:1."),
        ("list --db /nowhere/data", 8, "there is no database in /nowhere/data."),
    ):
        check(failed.run("dlq", *arguments.split(" ")), code, says)
    assert 2 == len(lines(failed.run("dlq", "list", "receipts")))
