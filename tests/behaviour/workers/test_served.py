"""Triggers of a folder, while a server runs them: files come, change, break and go."""

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
    """A file with a trigger that writes down the word and the item's id."""
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
        """Save app.py, and have it seen."""
        folder.write("app.py", text)
        self.settle()

    def put(self, key: str, table: str = "Orders") -> None:
        self.resource.Table(table).put_item(Item={"id": key})

    def settle(self) -> None:
        self.server.wait_for_triggers(60)

    def subscription(self, name: str = "f") -> Subscription | None:
        return self.server._serving.node.state.subscriptions.get(name)

    def reads(self, table: str) -> bool:
        """Whether the trigger has that table by now."""
        found = self.subscription()
        return found is not None and table in dict(found.tables)

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


def test_a_trigger_is_called_for_what_was_written_since_it_was_declared(folder: Folder) -> None:
    """Also where its table was not there yet: of that table it misses nothing."""
    folder.write("app.py", saying("old"))
    with foldb.serve(triggers=folder.path) as server:
        serving = Serving(server)
        serving.create()
        serving.put("a")
        serving.put("b")
        serving.settle()
        assert folder.out == "old:a old:b "
        serving.resource.meta.client.close()


def test_a_file_that_comes_later_is_called_for_what_comes_later(serving: Serving, folder: Folder) -> None:
    serving.create()
    serving.put("a")
    folder.write("app.py", saying("new"))
    serving.settle()
    serving.put("b")
    serving.settle()

    assert folder.out == "new:b "


def test_a_saved_file_is_what_runs_next(serving: Serving, folder: Folder) -> None:
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


def test_a_declaration_that_is_gone_pauses_and_one_that_comes_back_goes_on(
    serving: Serving, folder: Folder
) -> None:
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


def test_a_file_that_breaks_leaves_its_triggers_as_they_are(
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


def test_what_cannot_be_loaded_is_not_settled(serving: Serving, folder: Folder) -> None:
    """A test whose trigger has a slip in it is not to pass for that. What was loaded before goes on, and settles."""
    folder.write("broken.py", f"{HEAD}@trigger('Orders'\n")
    with pytest.raises(TimeoutError, match=r"files of triggers cannot be loaded: broken\.py: SyntaxError"):
        serving.server.wait_for_triggers(60)
    folder.write("broken.py", saying("f"))
    serving.settle()
    folder.write("broken.py", "from foldb import trigger\n@trigger(")
    serving.settle()


def test_what_does_not_settle_says_what_it_fails_with(serving: Serving, folder: Folder) -> None:
    serving.create()
    serving.declare(folder, f"{HEAD}@trigger('Orders')\ndef f(change: Change):\n    change.new['nope']\n")
    serving.put("a")

    with pytest.raises(TimeoutError, match=r"f is ACTIVE, 1 change behind \(last error: KeyError: 'nope'\)"):
        serving.server.wait_for_triggers(5)


def test_a_read_that_failed_is_done_again_and_nothing_is_missed_meanwhile(
    serving: Serving, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where no process can be started for a moment: no file is saved again after that."""

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


def test_what_nobody_thought_of_is_told_once_and_the_folder_is_looked_at_again(
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


def test_a_table_that_is_made_anew_has_its_trigger(serving: Serving, folder: Folder) -> None:
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
    """A file with a trigger on these tables, which writes down the item's id; not while there is a file `shut`."""
    given = ", ".join([*map(repr, tables), *(f"{name}={value!r}" for name, value in settings.items())])
    return (
        f"{HEAD}@trigger({given})\ndef f(change: Change):\n"
        "    if Path(__file__).with_name('shut').exists(): raise ValueError('shut')\n"
        "    Path(os.environ['OUT']).open('a').write(change.keys['id'] + ' ')\n"
    )


def shut(serving: Serving, folder: Folder, key: str) -> None:
    """Have the trigger fail, at an item with that key."""
    folder.write("shut", "")
    serving.put(key)
    serving.until(
        lambda: "shut" in str(operate(serving.server.endpoint_url, "DescribeSubscription", Name="f"))
    )


AT_ONCE = {"backoff": "0s..0s"}


def test_tables_in_another_order_are_the_same_tables(serving: Serving, folder: Folder) -> None:
    serving.create()
    serving.create("Refunds")
    serving.declare(folder, reading("Orders", "Refunds"))
    before = serving.subscription()
    serving.declare(folder, reading("Refunds", "Orders", batch=7))
    after = serving.subscription()

    assert before is not None
    assert after is not None
    assert (before.id, 7) == (after.id, after.settings["BatchSize"])


def test_a_trigger_that_has_other_tables_goes_on_where_it_is_with_those_that_stay(
    serving: Serving, folder: Folder
) -> None:
    """What it has handled it is not called for again, and what it has not is still its."""
    folder.write("app.py", reading("Orders", "Returns", **AT_ONCE))
    serving.settle()  # it waits for its tables, and begins before them
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


def test_a_table_that_comes_to_a_trigger_is_delivered_what_is_written_since(
    serving: Serving, folder: Folder
) -> None:
    """Not what was there, where nothing of the others waits; and all of a table that was not there yet."""
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

    told = folder.out.split()
    assert sorted(set(told)) == ["a", "b", "c", "d", "e"]
    assert [told.count(each) for each in "ab"] == [1, 1]


def test_a_trigger_with_no_table_that_it_had_begins_with_what_is_written_since(
    serving: Serving, folder: Folder
) -> None:
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


def test_a_trigger_that_was_paused_stays_so_with_other_tables(serving: Serving, folder: Folder) -> None:
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


def test_a_declaration_that_comes_back_with_other_tables_goes_on(serving: Serving, folder: Folder) -> None:
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
def test_a_table_that_is_made_anew_comes_when_all_of_the_old_one_is_handled(
    serving: Serving, folder: Folder, caplog: pytest.LogCaptureFixture, tables: tuple[str, ...]
) -> None:
    """Whatever the trigger has handled of a table that stays, meanwhile, it misses nothing of the new one."""
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


def test_a_subscription_made_by_hand_is_not_touched(
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


def test_what_a_file_declares_is_changed_and_removed_there(serving: Serving, folder: Folder) -> None:
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


def test_a_server_that_starts_again_goes_on(folder: Folder, tmp_path: Path) -> None:
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


def test_what_a_trigger_writes_says_which_trigger_wrote_it(serving: Serving, folder: Folder) -> None:
    """Its SDK names it with every request: so the server knows how many triggers led to a write."""
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
