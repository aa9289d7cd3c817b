"""After a file is saved the next batch runs the new code, or the old code if the new cannot be loaded."""

import logging

import pytest

from foldb.streams.sinks.python import PythonSink
from foldb.streams.sinks.sink import Failure, Sink, Success
from tests.unit.streams.deliveries import numbered
from tests.unit.streams.sinks.context import batch
from tests.unit.streams.workers.working import Folder, function

HEAD = "import os\nfrom pathlib import Path\ndef write(text):\n    Path(os.environ['OUT']).open('a').write(text)\n"


def saying(word: str) -> str:
    return HEAD + f"def f(change):\n    write('{word} {{}} '.format(os.getpid()))\n"


def words(folder: Folder) -> list[str]:
    return folder.out.split()[::2]


def processes(folder: Folder) -> list[str]:
    return folder.out.split()[1::2]


async def handled(sink: Sink, lane: int = 0) -> str:
    assert await sink.deliver(batch(numbered(1), lane=lane)) == Success()
    return sink.version


def test_the_next_batch_runs_the_saved_code(folder: Folder) -> None:
    async def saved(sink: Sink) -> list[str]:
        first = await handled(sink)
        folder.write("app.py", saying("new"))
        return [first, await handled(sink), await handled(sink)]

    folder.write("app.py", saying("old"))
    first, second, third = folder.using(function("f"), saved)

    assert words(folder) == ["old", "new", "new"]
    assert first != second == third


def test_a_folder_may_be_missing_for_a_moment(folder: Folder) -> None:
    async def moved(sink: Sink) -> None:
        version = await handled(sink)
        folder.path.rename(folder.path.with_name("elsewhere"))
        assert await handled(sink) == version
        folder.path.with_name("elsewhere").rename(folder.path)
        folder.write("app.py", saying("new"))
        assert await handled(sink) != version

    folder.write("app.py", saying("old"))
    folder.using(function("f"), moved)

    assert words(folder) == ["old", "old", "new"]


def test_all_lanes_load_the_new_code(folder: Folder) -> None:
    async def saved(sink: Sink) -> None:
        for lane in (0, 1):
            await handled(sink, lane)
        folder.write("app.py", saying("new"))
        for lane in (0, 1):
            await handled(sink, lane)

    folder.write("app.py", saying("old"))
    folder.using(function("f"), saved)

    assert words(folder) == ["old", "old", "new", "new"]


@pytest.mark.parametrize("broken", ["def f(change:", "import no_such_module", "raise ValueError(1)", "g = 1"])
def test_code_that_cannot_be_loaded_is_logged_and_not_used(
    folder: Folder, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def saved(sink: Sink) -> None:
        assert isinstance(sink, PythonSink)
        version = await handled(sink)
        folder.write("app.py", broken)
        assert await handled(sink) == version
        assert await handled(sink) == version
        assert sink.problem is not None
        assert sink.problem.startswith("app:f cannot be loaded: ")
        folder.write("app.py", saying("mended"))
        assert await handled(sink) != version
        assert sink.problem is None

    folder.write("app.py", saying("old"))
    with caplog.at_level(logging.ERROR):
        folder.using(function("f"), saved)

    assert words(folder) == ["old", "old", "old", "mended"]
    assert len(set(processes(folder)[:3])) == 1
    assert sum("the old code stays in use" in record.getMessage() for record in caplog.records) == 1


def test_a_dead_workers_successor_has_the_same_code(folder: Folder) -> None:
    async def dying(sink: Sink) -> None:
        folder.write("app.py", "def f(")
        await handled(sink)
        assert isinstance(await sink.deliver(batch(numbered(3)[1:2])), Failure)
        await handled(sink)

    dies = "    if change.new['order'] == 2:\n        os._exit(1)\n"
    folder.write("app.py", saying("old").replace("(change):\n", f"(change):\n{dies}"))
    folder.using(function("f"), dying)

    first, second = processes(folder)
    assert words(folder) == ["old", "old"]
    assert first != second


def test_only_imported_modules_change_the_version(folder: Folder) -> None:
    async def saved(sink: Sink) -> tuple[str, str, str]:
        first = await handled(sink)
        folder.write("other.py", "1 / 0")
        second = await handled(sink)
        folder.write("text.py", "WORD = 'new'")
        return first, second, await handled(sink)

    folder.write("text.py", "WORD = 'old'")
    folder.write("app.py", HEAD + "import text\ndef f(change):\n    write(f'{text.WORD} {os.getpid()} ')\n")
    first, second, third = folder.using(function("f"), saved)

    assert words(folder) == ["old", "old", "new"]
    assert first == second != third


def test_a_lazily_imported_module_is_reloaded_too(folder: Folder) -> None:
    async def saved(sink: Sink) -> None:
        await handled(sink)
        folder.write("text.py", "WORD = 'new'")
        await handled(sink)

    folder.write("text.py", "WORD = 'old'")
    folder.write(
        "app.py", HEAD + "def f(change):\n    import text\n    write(f'{text.WORD} {os.getpid()} ')\n"
    )
    folder.using(function("f"), saved)

    assert words(folder) == ["old", "new"]


def test_a_version_depends_on_the_text_alone(folder: Folder) -> None:
    async def saved(sink: Sink) -> list[str]:
        versions = []
        for word in ("a", "b", "a"):
            folder.write("app.py", saying(word))
            versions.append(await handled(sink))
        return versions

    folder.write("app.py", saying("a"))
    first, second, third = folder.using(function("f"), saved)

    assert first == third != second


def test_an_unreadable_file_keeps_the_old_code_running(folder: Folder) -> None:
    async def saved(sink: Sink) -> None:
        assert isinstance(sink, PythonSink)
        await handled(sink)
        (folder.path / "app.py").write_bytes(b"# \xff")
        await handled(sink)
        assert sink.problem is not None
        assert "app.py cannot be read: invalid or missing encoding declaration" in sink.problem

    folder.write("app.py", saying("old"))
    folder.using(function("f"), saved)

    assert words(folder) == ["old", "old"]


def test_an_error_in_the_first_code_shows_its_line(folder: Folder) -> None:
    folder.write("app.py", "\n\nx = 1 / 0\n")

    with pytest.raises(Exception, match="app:f cannot be loaded: ZeroDivisionError") as caught:
        folder.deliver(function("f"))

    assert 'app.py", line 3' in caught.value.traceback  # type: ignore[attr-defined]
