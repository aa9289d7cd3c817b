"""Triggers of a folder on a running server, while files are added, changed, broken and removed."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest

import foldb
from foldb.embedded import Server
from foldb.model.subscriptions import Subscription
from foldb.server.subscriptions.reconciler import TriggerReconciler
from foldb.streams.workers import declarations
from foldb.streams.workers.declarations import Declarations
from foldb.streams.workers.worker_process import WorkerProcess
from tests.support.raw import ask
from tests.support.subscribed import operate
from tests.support.tables import table_request
from tests.unit.streams.workers.working import Folder

HEAD = "import os\nfrom pathlib import Path\nfrom foldb import Change, trigger\n"


def saying(word: str, name: str = "f", **settings: Any) -> str:
    """Return a file with a trigger that records the word and the item's id."""
    given = "".join(f", {setting}={value!r}" for setting, value in settings.items())
    return (
        f"{HEAD}@trigger('Orders'{given})\ndef {name}(change: Change):\n"
        f"    Path(os.environ['OUT']).open('a').write('{word}:' + change.keys['id'] + ' ')\n"
    )


class Serving:
    def __init__(self, server: Server) -> None:
        self.server = server
        self.resource = boto3.resource("dynamodb", **server.boto3)

    def create(self, name: str = "Orders") -> None:
        self.resource.create_table(**table_request(name, "id:S"))

    def declare(self, folder: Folder, text: str) -> None:
        """Save app.py, and wait until the server has read it."""
        folder.write("app.py", text)
        self.settle()

    def put(self, key: str, table: str = "Orders") -> None:
        self.resource.Table(table).put_item(Item={"id": key})

    def settle(self) -> None:
        self.server.wait_for_triggers(60)

    def subscription(self, name: str = "f") -> Subscription | None:
        return self.server._serving.node.state.subscriptions.get(name)

    def reads(self, table: str) -> bool:
        """Return whether the trigger reads a table."""
        found = self.subscription()
        return found is not None and table in dict(found.tables)

    def until_failed(self, error: str) -> None:
        """Wait until the trigger has failed with an error."""
        self.until(lambda: error in str(operate(self.server.endpoint_url, "DescribeSubscription", Name="f")))

    def until(self, holds: Callable[[], bool]) -> None:
        ends = time.monotonic() + 60
        while not holds():
            assert time.monotonic() < ends, "it did not come"


@pytest.fixture
def serving(folder: Folder) -> Iterator[Serving]:
    with foldb.serve(triggers=folder.path) as server:
        serving = Serving(server)
        yield serving
        serving.resource.meta.client.close()


def test_a_trigger_receives_changes_since_its_declaration(folder: Folder) -> None:
    """A table that is created later is included from its first change."""
    folder.write("app.py", saying("old"))
    with foldb.serve(triggers=folder.path) as server:
        serving = Serving(server)
        serving.create()
        serving.put("a")
        serving.put("b")
        serving.settle()
        assert folder.out == "old:a old:b "
        serving.resource.meta.client.close()


def test_a_new_file_receives_later_changes(serving: Serving, folder: Folder) -> None:
    serving.create()
    serving.put("a")
    folder.write("app.py", saying("new"))
    serving.settle()
    serving.put("b")
    serving.settle()

    assert folder.out == "new:b "


def test_a_saved_file_runs_next(serving: Serving, folder: Folder) -> None:
    serving.create()
    serving.declare(folder, saying("old"))
    serving.put("a")
    serving.settle()
    before = serving.subscription()
    folder.write("app.py", saying("new", batch=7))
    serving.put("b")
    serving.settle()
    serving.put("c")
    serving.settle()
    after = serving.subscription()

    assert folder.out.split()[0] == "old:a"
    assert folder.out.split()[-2:] == ["new:b", "new:c"]
    assert before is not None
    assert after is not None
    assert (before.settings["BatchSize"], after.settings["BatchSize"]) == (100, 7)
    serving.until(lambda: (serving.subscription() or after).version != before.version)


def test_a_removed_declaration_pauses_until_it_returns(serving: Serving, folder: Folder) -> None:
    serving.create()
    serving.declare(folder, saying("old"))
    serving.put("a")
    serving.settle()
    folder.write("app.py", HEAD)
    serving.until(lambda: (found := serving.subscription()) is not None and found.status == "PAUSED")
    paused = serving.subscription()
    assert paused is not None
    assert paused.reason == "its declaration is gone from app.py"

    serving.put("b")
    folder.write("app.py", saying("back"))
    serving.settle()

    assert folder.out == "old:a back:b "


def test_a_broken_file_keeps_its_triggers(
    serving: Serving, folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    serving.create()
    serving.declare(folder, saying("old"))
    with caplog.at_level(logging.ERROR):
        folder.write("app.py", saying("new") + "def (")
        serving.put("a")
        serving.settle()

    assert folder.out == "old:a "
    assert "cannot load app.py: SyntaxError" in caplog.text
    found = serving.subscription()
    assert found is not None
    assert found.status == "ACTIVE"


def test_code_that_cannot_be_loaded_does_not_settle(serving: Serving, folder: Folder) -> None:
    """A test must not pass with a broken trigger. The code loaded before continues, and settles."""
    folder.write("broken.py", f"{HEAD}@trigger('Orders'\n")
    with pytest.raises(TimeoutError, match=r"files of triggers cannot be loaded: broken\.py: SyntaxError"):
        serving.server.wait_for_triggers(60)
    folder.write("broken.py", saying("f"))
    serving.settle()
    folder.write("broken.py", "from foldb import trigger\n@trigger(")
    serving.settle()


def test_a_trigger_that_does_not_settle_reports_its_error(serving: Serving, folder: Folder) -> None:
    serving.create()
    serving.declare(folder, f"{HEAD}@trigger('Orders')\ndef f(change: Change):\n    change.new['nope']\n")
    serving.put("a")
    serving.until_failed("nope")

    with pytest.raises(TimeoutError, match=r"f is ACTIVE, 1 change behind \(last error: KeyError: 'nope'\)"):
        serving.server.wait_for_triggers(0.1)


def test_a_failed_read_is_repeated_and_loses_nothing(
    serving: Serving, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No process could be started for a moment, and no file is saved after that."""

    async def start(*_: Any) -> WorkerProcess:
        raise BlockingIOError("no more processes")

    with monkeypatch.context() as patched:
        patched.setattr(declarations, "WorkerProcess", SimpleNamespace(start=start))
        folder.write("app.py", saying("f"))
        serving.settle()
        serving.create()
        serving.put("a")
        serving.settle()
    serving.settle()

    assert folder.out == "f:a "


def test_an_unexpected_error_is_logged_once_and_retried(
    serving: Serving, folder: Folder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    looks = 0

    def changed(declarations: Declarations) -> bool:
        nonlocal looks
        looks += 1
        if looks < 3:
            raise ZeroDivisionError("nobody thought of this")
        return real(declarations)

    real = Declarations.changed
    serving.create()
    monkeypatch.setattr(TriggerReconciler, "_wait", lambda _: asyncio.sleep(0.01))
    with caplog.at_level(logging.WARNING):
        monkeypatch.setattr(Declarations, "changed", changed)
        folder.write("app.py", saying("new"))
        serving.until(lambda: serving.subscription() is not None)

    assert caplog.text.count("Traceback") == caplog.text.count("nobody thought of this") // 2 == 1


def test_a_recreated_table_has_its_trigger(serving: Serving, folder: Folder) -> None:
    serving.create()
    serving.declare(folder, saying("f"))
    serving.put("a")
    serving.settle()
    serving.resource.Table("Orders").delete()
    serving.create()
    serving.put("b")
    serving.settle()

    assert folder.out == "f:a f:b "


def reading(*tables: str, **settings: Any) -> str:
    """Return a file with a trigger on these tables that records the item's id, and fails while a file `shut` exists."""
    given = ", ".join([*map(repr, tables), *(f"{name}={value!r}" for name, value in settings.items())])
    return (
        f"{HEAD}@trigger({given})\ndef f(change: Change):\n"
        "    if Path(__file__).with_name('shut').exists(): raise ValueError('shut')\n"
        "    Path(os.environ['OUT']).open('a').write(change.keys['id'] + ' ')\n"
    )


def shut(serving: Serving, folder: Folder, key: str) -> None:
    """Make the trigger fail, at an item with that key."""
    folder.write("shut", "")
    serving.put(key)
    serving.until_failed("shut")


AT_ONCE = {"backoff": "0s..0s"}


def test_the_order_of_tables_does_not_matter(serving: Serving, folder: Folder) -> None:
    serving.create()
    serving.create("Refunds")
    serving.declare(folder, reading("Orders", "Refunds"))
    before = serving.subscription()
    serving.declare(folder, reading("Refunds", "Orders", batch=7))
    after = serving.subscription()

    assert before is not None
    assert after is not None
    assert (before.id, 7) == (after.id, after.settings["BatchSize"])


def test_a_retargeted_trigger_continues_with_kept_tables(serving: Serving, folder: Folder) -> None:
    """It does not repeat handled changes, and still delivers the others."""
    folder.write("app.py", reading("Orders", "Returns", **AT_ONCE))
    serving.settle()  # it waits for its tables, and starts before their first changes
    for name in ("Returns", "Orders", "Refunds"):
        serving.create(name)
    serving.put("a")
    serving.put("old", "Refunds")
    serving.settle()
    shut(serving, folder, "b")
    folder.write("app.py", reading("Refunds", "Orders", **AT_ONCE))
    serving.until(lambda: serving.reads("Refunds"))
    serving.put("c", "Refunds")
    (folder.path / "shut").unlink()
    serving.settle()

    assert sorted(each for each in folder.out.split() if each != "old") == ["a", "b", "c"]


def test_an_added_table_is_read_from_the_change_on(serving: Serving, folder: Folder) -> None:
    """Earlier changes are included only for a table that did not exist, or while older changes are unhandled."""
    serving.create()
    serving.create("Refunds")
    serving.declare(folder, reading("Orders"))
    serving.put("a")
    serving.settle()
    serving.put("old", "Refunds")
    serving.declare(folder, reading("Orders", "Refunds"))
    serving.put("b", "Refunds")
    serving.declare(folder, reading("Orders", "Refunds", "Returns"))
    serving.put("c")
    serving.create("Returns")
    serving.put("d", "Returns")
    serving.put("e")
    serving.settle()
    serving.until(lambda: serving.reads("Returns"))
    serving.settle()

    reported = folder.out.split()
    assert sorted(set(reported)) == ["a", "b", "c", "d", "e"]
    assert [reported.count(each) for each in "ab"] == [1, 1]


def test_a_trigger_with_new_tables_starts_now(serving: Serving, folder: Folder) -> None:
    folder.write("app.py", reading("Orders"))
    serving.settle()
    serving.create()
    serving.create("Refunds")
    serving.put("old", "Refunds")
    serving.settle()
    serving.declare(folder, reading("Refunds"))
    serving.put("new", "Refunds")
    serving.settle()

    assert folder.out == "new "


def test_a_paused_trigger_stays_paused_with_other_tables(serving: Serving, folder: Folder) -> None:
    serving.create()
    serving.create("Refunds")
    serving.declare(folder, reading("Orders"))
    operate(serving.server.endpoint_url, "PauseSubscription", Name="f")
    serving.put("a")
    folder.write("app.py", reading("Orders", "Refunds"))
    serving.until(lambda: serving.reads("Refunds"))
    paused = serving.subscription()
    operate(serving.server.endpoint_url, "ResumeSubscription", Name="f")
    serving.settle()

    assert paused is not None
    assert (paused.status, paused.reason) == ("PAUSED", None)
    assert folder.out == "a "


def test_a_returning_declaration_may_have_other_tables(serving: Serving, folder: Folder) -> None:
    serving.create()
    serving.create("Refunds")
    serving.declare(folder, reading("Orders"))
    serving.put("a")
    serving.settle()
    folder.write("app.py", HEAD)
    serving.until(lambda: (found := serving.subscription()) is not None and found.status == "PAUSED")
    serving.put("b")
    serving.declare(folder, reading("Orders", "Refunds"))

    assert folder.out == "a b "


@pytest.mark.parametrize("tables", [("Orders",), ("Orders", "Refunds")])
def test_a_recreated_table_follows_the_old_one(
    serving: Serving, folder: Folder, caplog: pytest.LogCaptureFixture, tables: tuple[str, ...]
) -> None:
    """If it handles changes of another table in between, it still misses no change of the new one."""
    for name in tables:
        serving.create(name)
    serving.declare(folder, reading(*tables, retries=0, on_failure="block", workers=8))
    serving.put("a")
    serving.settle()
    shut(serving, folder, "b")
    serving.resource.Table("Orders").delete()
    serving.create()
    serving.put("c")
    serving.until(lambda: "handles the changes of a deleted table" in caplog.text)
    with pytest.raises(TimeoutError, match="f is ACTIVE and blocked"):
        serving.server.wait_for_triggers(1)
    (folder.path / "shut").unlink()
    operate(serving.server.endpoint_url, "ResumeSubscription", Name="f")
    serving.settle()

    assert folder.out == "a b c "
    assert caplog.text.count("handles the changes of a deleted table") == 1


def test_a_subscription_made_by_hand_is_not_changed(
    serving: Serving, folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    folder.write("hand.py", saying("hand", "other").replace("@trigger('Orders')\n", ""))
    serving.create()
    ran = __import__("tests.support.served", fromlist=["foldb"]).foldb(
        "trigger", "add", "f", "--table", "Orders", "--python", "hand.py:other", "--db", serving.server.endpoint_url
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    with caplog.at_level(logging.WARNING):
        folder.write("app.py", saying("declared"))
        serving.put("a")
        serving.settle()

    assert folder.out == "hand:a "
    assert "there is another subscription of that name" in caplog.text


def test_a_declared_trigger_is_changed_in_its_file_alone(serving: Serving, folder: Folder) -> None:
    serving.create()
    serving.declare(folder, saying("one"))
    serving.put("a")
    serving.settle()

    for operation, more in (("RemoveSubscription", {}), ("UpdateSubscription", {"BatchSize": 7})):
        answer = ask(serving.server.endpoint_url, f"Foldb_20261121.{operation}", {"Name": "f"} | more)
        assert 400 == answer.status
        assert "Subscription f is declared in app.py: change it there, or pause it" == answer.body["message"]
    folder.write("app.py", "")
    serving.settle()
    operate(serving.server.endpoint_url, "RemoveSubscription", Name="f")

    assert serving.subscription() is None
    assert "one:a " == folder.out


def test_triggers_continue_after_a_restart(folder: Folder, tmp_path: Path) -> None:
    folder.write("app.py", saying("f"))
    for key in ("a", "b"):
        with foldb.serve(tmp_path / "data", triggers=folder.path) as server:
            serving = Serving(server)
            if key == "a":
                serving.create()
            serving.put(key)
            serving.settle()
            serving.resource.meta.client.close()

    assert folder.out == "f:a f:b "


def test_a_write_of_a_trigger_names_the_trigger(serving: Serving, folder: Folder) -> None:
    """The SDK sends the trigger's name with every request, so the server knows the depth of a write."""
    serving.create()
    serving.declare(
        folder,
        HEAD + "import boto3\n@trigger('Orders')\ndef f(change):\n"
        "    Path(os.environ['OUT']).open('a').write(f'{change.depth}:{change.source} ')\n"
        "    if change.depth < 3:\n"
        "        boto3.resource('dynamodb').Table('Orders').put_item(Item={'id': str(change.depth)})\n",
    )
    serving.put("a")
    serving.settle()

    assert folder.out == "0:api 1:trigger 2:trigger 3:trigger "
