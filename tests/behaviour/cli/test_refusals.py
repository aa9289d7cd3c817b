"""Bad input at the terminal: one sentence on stderr with the error and the next step, and an exit code.

Stdout is empty, and nothing on the disk changes. A command runs as a process where a terminal, a pipe, a signal or the
operating system matters, else in this process, which is a hundred times faster.
"""

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import Result

import foldb
from foldb.log.codec import CURRENT
from foldb.log.commands import LEVEL
from foldb.log.local import LocalLog, segment
from tests.behaviour.cli.conftest import Foldb, at
from tests.support.served import FOLDB
from tests.support.served import foldb as command

SENTENCE = re.compile(r"foldb: [^\n]+\n")


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return everything in a folder, to compare."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in sorted(folder.rglob("*"))
    }


def check(result: Result | subprocess.CompletedProcess[str], code: int, says: str) -> None:
    """Check that a command fails with one sentence, which contains `says`."""
    stdout, stderr = result.stdout, result.stderr
    returned = result.exit_code if isinstance(result, Result) else result.returncode
    assert SENTENCE.fullmatch(stderr), stderr
    assert says in stderr
    assert ("", code) == (stdout, returned), stderr


@pytest.fixture(scope="module")
def music(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """Serve a database with the sample `music`, and return its folder and its address."""
    folder = tmp_path_factory.mktemp("refusals") / "data"
    with foldb.serve(folder, fsync="never") as server:
        assert at(server.endpoint_url)("sample", "load", "music").exit_code == 0
        yield folder, server.endpoint_url


@pytest.fixture
def asked(music: tuple[Path, str]) -> Iterator[Foldb]:
    """Return a function that runs commands on that database, and check at the end that it is unchanged."""
    folder, url = music
    before = contents(folder)
    yield at(url)
    assert before == contents(folder)


KEY = '"key":{"Artist":"a","Song":"b"}'


@pytest.mark.guarantee("G20")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("scan Music --wrong", "no such option: --wrong. See `foldb scan --help`."),
        ("nonsense", "no such command 'nonsense'. See `foldb --help`."),
        ("scn Music", "no such command 'scn'. Did you mean 'scan'? See `foldb --help`."),
        ("table nonsense", "no such command 'nonsense'. See `foldb table --help`."),
        ("scan", "missing argument 'TABLE'. See `foldb scan --help`."),
        ("status --db", "--db is the last word, and needs a value after it. See `foldb --help`."),
        ("status -o xml", "'xml' is not one of 'table', 'json', 'jsonl', 'csv', 'yaml', 'raw'. See"),
        ("status --color blue", "'blue' is not one of 'auto', 'always', 'never'. See"),
        ("query Music x --limit 0", "--limit"),
        ("query Music x --limit many", "--limit"),
        ("query Music x y", "the partition key is Artist"),
        ("query Music x --start {", "--start is not JSON"),
        ("query Music x --sk between", "write 'begins_with X', 'between X and Y', or"),
        ("scan Music --segments 65", "--segments"),
        ("scan Music --select a..b", "has an empty name: write a,b.c"),
        ("table create Tab id:Q", "`id:Q` is not a key: write NAME:S, NAME:N or NAME:B"),
        ("table create Tab id:S --gsi x", "`x` is not an index: write NAME=ATTRIBUTE:S or NAME=A:S,B:N"),
        ("table create Tab id:S --read 5", "needs both --read and --write"),
        ("table update Music", "nothing to change: see `foldb table update --help`"),
        ("table delete Music --no-input", "Nothing was done: give --yes."),
        ("table wait Music --timeout soon", "--timeout"),
        ("item put Music {garbage", "the item is not JSON"),
        ("item put Music [1]", "write a JSON object such as"),
        ('item put Music {"Artist":NaN}', "NaN is not a number"),
        ('item put Music {"n":1e9999999999999999999}', "a number with too large an exponent"),
        ('item put Music {"a":"\\ud800"}', "this cannot be sent"),
        ('item put Music {"a":{"$set":[]}}', 'never empty: {"$set": ["a", "b"]}'),
        ('item put Music {"a":"b64:*"}', "is not base64"),
        ("item put Music @/nowhere/items", "cannot read /nowhere/items: No such file or directory"),
        ("item put Music @/", "cannot read /: Is a directory"),
        ("item put Music - --if a", "BatchWriteItem has no conditions"),
        ("item get Music x", "the key of Music is Artist and Song"),
        ("item update Music x y", "give --set, --remove, --add or --delete"),
        ("item update Music x y --set a=:b --value x", "write --value ':x=JSON'"),
        ("item update Music x y --set a=:b --value :b={", "--value :b is not JSON"),
        ("item update Music x y --set a=:b --name b", "write --name '#n=NAME'"),
        ("tx /nowhere/actions", "cannot read /nowhere/actions: No such file or directory"),
        ("capacity plan --item-size huge", "`huge` is not a size: write 500, 3.5KB or 1MB"),
        ("capacity plan --item-size " + "9" * 5000, "is not a size: write 500, 3.5KB or 1MB"),
        ("capacity plan --rate 0", "--rate"),
        ("log cat --from x", "`x` is not a position such as 10482, 10482.3 or 2:10482.3"),
        ("log cat --to 1.x", "`1.x` is not a position such as 10482, 10482.3 or 2:10482.3"),
        ("log cat --from " + "9" * 5000, "is not a position such as 10482, 10482.3 or 2:10482.3"),
        ("log tail -n -1", "-n"),
        ("restore Music --as-of 1", "give one of --into NEW, --key WORD and --in-place"),
        ("restore Music --as-of 1 --log . --in-place", "--log needs --into"),
        ("sample load music --events 4", "--events is for the sample `devices`"),
        ("serve --port 70000", "--port"),
        ("serve --port 0 --fsync maybe", "'maybe' is not one of 'always', 'interval', 'never'"),
        ("serve --port 0 --segment-bytes 0", "--segment-bytes"),
        ("serve --port 0 --memory-limit -1", "--memory-limit"),
        ("serve --port 0 --queue-bytes 0", "--queue-bytes"),
        ("serve --port 0 --table-delay -5", "`-5` is not a duration: write a number and a unit, like 200ms"),
        ("serve --port 0 --ttl-interval 10", "`10` is not a duration: write a number and a unit, like 200ms"),
        ("serve --port 0 --session-timeout 1ms", "1ms is below the minimum 1s"),
        ("serve --port 0 --db data --allowed-host a:1", "--allowed-host: 'a:1' is not a name or an address"),
        ("serve --port 0 --db data --limits 2013", "there are no limits called '2013': use modern or 2012"),
        ("serve --port 0", ", from --db or FOLDB_DB, is an address and not a folder: give a folder"),
        ("serve --port 0 --db http://127.0.0.1:8000", "is an address and not a folder: give a folder"),
        (
            "serve --port 0 --db kafka://127.0.0.1:9092/shop",
            "is a log in Kafka: serve it with --log kafka://127.0.0.1:9092/shop",
        ),
        ("serve --port 0 --db data --triggers nowhere", "'--triggers': there is no folder 'nowhere'. See"),
        ("serve --port 0 --db data --triggers=", "'--triggers': there is no folder ''. See"),
        (f"serve --port 0 --db data --triggers {__file__}", "is a file: give the folder that it is in"),
        (
            "serve --port 0 --db data --webhooks localhost",
            "--webhooks: 'localhost' is not an address or network.",
        ),
        (
            "serve --port 0 --db data --kafka-sink localhost:9092",
            "--kafka-sink: 'localhost:9092' is not an address like kafka://HOST:PORT",
        ),
        ("serve --port 0 --memory --host 8.8.8.8", "will not listen on 8.8.8.8"),
        ("status --db=", "--db is empty: give a folder or a server, or remove the flag"),
        ("status --db ftp://127.0.0.1", "is not an address such as http://127.0.0.1:8000"),
        ("status --db http://127.0.0.1:99999", "is not an address such as http://127.0.0.1:8000"),
        ("aws-config --db http://[::1", "is not an address such as http://127.0.0.1:8000"),
    ],
)
def test_wrong_usage_is_said_in_a_sentence_with_the_next_step(
    arguments: str, says: str, asked: Foldb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    check(asked(*arguments.split(" ")), 2, says)
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (
            "scan Nope --db 127.0.0.1:1",
            8,
            "there is no folder 127.0.0.1:1. For a server write http://127.0.0.1:1.",
        ),
        ("scan Nope --db db.example:80", 8, "For a server write http://db.example:80."),
        ("scan Nope", 3, "`foldb table list` lists the tables."),
        ("table describe Nope", 3, "`foldb table list` lists the tables."),
        ("table delete Nope --yes", 3, "`foldb table list` lists the tables."),
        ("query Music x --index nope", 3, "Music has no index nope; its indexes: none"),
        ("rebuild Music --index nope", 3, "has no index nope"),
        ("sample load nope", 3, "there is no sample nope; the samples are annotations, catalog,"),
        ("sample show goods --transaction x", 3, "goods has the transactions: item001-to-cx1"),
        ("item put Music {} --if attribute_exists(Song)", 7, "ValidationException"),
        ("item get Music {} --typed", 7, "ValidationException"),
        ('item get Music {"Artist":{"N":1},"Song":1} --typed', 7, "Exception: "),
        ("query Music x --where (", 7, "Invalid FilterExpression"),
        ("table create x id:S", 7, "length greater than or equal to 3"),
        ("sample load music", 7, "the table Music exists; give other names with --prefix"),
        ("table wait Music --gone --timeout 0", 10, "Music is still there, after 0s"),
    ],
)
def test_a_setting_that_contradicts_the_database_is_refused(
    arguments: str, code: int, says: str, asked: Foldb
) -> None:
    check(asked(*arguments.split(" ")), code, says)


@pytest.mark.parametrize(
    ("actions", "says"),
    [
        ("nonsense", "stdin is not JSON"),
        ("{}", "stdin is not a list of actions: see the forms in `foldb tx run --help`"),
        ("[1]", "stdin is not a list of actions: see the forms in `foldb tx run --help`"),
        ("[" * 200_000, "stdin is nested too deeply"),
        ('[{"put":1}]', "an action has one member, one of put, update, delete, check, get"),
        ('[{"fly":{"table":"Music"}}]', "an action has one member, one of put, update, delete, check, get"),
        ('[{"put":{"item":{}}}]', "not without a table"),
        ('[{"put":{"table":"Music","itm":{}}}]', "not itm"),
        ('[{"put":{"table":1}}]', "`table` of put must be a string"),
        ('[{"put":{"table":"Music","item":[]}}]', "`item` of put must be a JSON object"),
        (f'[{{"update":{{"table":"Music",{KEY},"set":1}}}}]', "`set` of update must be a string or a list"),
        (f'[{{"update":{{"table":"Music",{KEY},"set":[1]}}}}]', "`set` of update must be a string or a list"),
        (f'[{{"update":{{"table":"Music",{KEY},"names":{{"#a":1}}}}}}]', "`names` of update must be a JSON"),
        (f'[{{"check":{{"table":"Music",{KEY},"values":[1]}}}}]', "`values` of check must be a JSON object"),
        (f'[{{"get":{{"table":"Music",{KEY},"select":3}}}}]', "`select` of get must be a string"),
        (
            f'[{{"put":{{"table":"Music",{KEY}}}}}]',
            "put takes item, table, if, values, names, show_old; not key",
        ),
    ],
)
def test_a_transaction_that_is_none_is_refused_before_it_is_sent(
    actions: str, says: str, asked: Foldb
) -> None:
    check(asked("tx", "-", stdin=actions), 2, says)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"\xff\xfe{}", "line 1 is not UTF-8"),
        (b"{garbage", "line 1 is not JSON"),
        (b'"text"', "line 1 is not an item"),
        (b'{"a":' * 200_000, "line 1 is nested too deeply"),
    ],
)
def test_lines_that_are_no_items_are_named(
    line: bytes, says: str, music: tuple[Path, str], tmp_path: Path
) -> None:
    """From a file and from stdin, for every encoding of the environment."""
    source = tmp_path / "items"
    source.write_bytes(line)
    check(at(music[1])("item", "put", "Music", f"@{source}"), 2, says)

    put = [str(FOLDB), "item", "put", "Music", "-", "--db", music[1]]
    piped = subprocess.run(put, input=line, capture_output=True, timeout=60)
    assert (2, b"") == (piped.returncode, piped.stdout)
    assert says.encode() in piped.stderr


def test_a_bad_line_among_good_ones_says_how_many_were_put(folder: Path, cli: Foldb) -> None:
    assert cli("table", "create", "Numbers", "id:N").exit_code == 0
    items = "".join(f'{{"id":{number}}}\n' for number in range(60))
    result = cli("item", "put", "Numbers", "-", stdin=items + "{garbage\n")

    assert 10 == result.exit_code
    assert "line 61 is not JSON" in result.stderr
    assert "; 60 items were written before it; to put them again is harmless\n" in result.stderr


READERS = (
    "status",
    "scan Music",
    "item put Music {}",
    "log cat",
    "log stats",
    "log tail",
    "verify",
    "restore M --as-of -0 --into N",
)


@pytest.mark.guarantee("G20")
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nowhere", "there is no database in {}. `foldb serve --db {}` creates one."),
        ("file", "{} is a file: give the folder of a database"),
        ("strangers", "there is no log in {}: give a folder that `foldb serve` has served"),
        ("empty", "there is no log in {}: give a folder that `foldb serve` has served"),
    ],
)
def test_a_folder_without_a_database_is_refused_unchanged(
    reader: str, name: str, says: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("text")
    (tmp_path / "strangers").mkdir()
    (tmp_path / "strangers" / "notes.txt").write_text("text")
    (tmp_path / "empty").mkdir()
    before = contents(tmp_path)

    place = tmp_path / name
    check(at(place)(*reader.split(" ")), 8, says.format(place, place))
    assert before == contents(tmp_path)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("file", "{} is a file, not a folder: name another folder for the data"),
        ("file/below", "{} is a file, not a folder: name another folder for the data"),
        ("strangers", "it holds notes.txt and no segment. Name an empty or new folder."),
    ],
)
def test_a_server_takes_no_place_that_is_anothers(name: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    (tmp_path / "strangers").mkdir()
    (tmp_path / "strangers" / "notes.txt").write_text("text")
    before = contents(tmp_path)

    place = tmp_path / name
    check(at(place)("serve", "--port", "0"), 8, says.format(place))
    assert before == contents(tmp_path)


def test_a_log_that_another_process_writes_is_left_to_it(music: tuple[Path, str]) -> None:
    folder, _ = music
    before = contents(folder)
    check(command("serve", "--db", folder, "--port", "0"), 8, "is in use by another process (pid ")
    assert before == contents(folder)


def log_of(folder: Path, *, level: int = 1, limits: str = "modern") -> Path:
    """Return a log that has only Genesis."""
    LocalLog(
        folder,
        clock=lambda: 1_700_000_000_000,
        deliver=lambda callback: callback(),
        random_bytes=lambda count: bytes(range(count)),
        on_fatal=lambda error: pytest.fail(str(error)),
        limits=limits,
        level=level,
    ).close()
    return folder


def of_a_later_format(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as later:
        later.setattr(segment, "FORMAT", b"2")
        log_of(folder)


def of_a_later_schema(folder: Path, _: pytest.MonkeyPatch) -> None:
    """Replace the header by a valid one with another schema of entries."""
    path = log_of(folder) / segment.name(0)
    header = segment.read_header(path.read_bytes())
    head = path.read_bytes()[: header.size - segment.HASH_BYTES].replace(CURRENT.hex().encode(), b"a" * 16)
    path.write_bytes(head + segment._digest(head))


def of_a_later_level(folder: Path, _: pytest.MonkeyPatch) -> None:
    log_of(folder, level=LEVEL + 1)


def of_later_limits(folder: Path, _: pytest.MonkeyPatch) -> None:
    log_of(folder, limits="2099")


def damaged(folder: Path, _: pytest.MonkeyPatch) -> None:
    path = log_of(folder) / segment.name(0)
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)


def mixed_up(folder: Path, _: pytest.MonkeyPatch) -> None:
    """Add a segment of another log after ours."""
    log_of(folder)
    other = segment.header(bytes(16), CURRENT, segment.Chain(1, bytes(16), 0, [1]))
    (folder / segment.name(1)).write_bytes(other)


def without_its_segments(folder: Path, _: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    (folder / "mark").write_bytes(bytes(32))


Making = Callable[[Path, pytest.MonkeyPatch], None]


@pytest.mark.guarantee("G18")
@pytest.mark.parametrize("reader", ["serve --port 0", "log cat", "verify", "status"])
@pytest.mark.parametrize(
    ("making", "code", "says"),
    [
        (of_a_later_format, 8, "Start the version that wrote the log, or a later one."),
        (of_a_later_schema, 8, "Start the version that wrote the log, or a later one."),
        (of_a_later_level, 8, "Start that version, or a later one."),
        (of_later_limits, 8, "Start that version, or a later one."),
        (damaged, 9, "00000000000000000000.avro at byte 0: the header's hash does not match"),
        (mixed_up, 9, "Put it back where it came from."),
    ],
)
def test_a_log_that_must_not_be_used_is_refused_and_stays_as_it_is(
    making: Making, code: int, says: str, reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    making(tmp_path / "data", monkeypatch)
    before = segments(tmp_path / "data")

    check(at(tmp_path / "data")(*reader.split(" ")), code, says)
    assert before == segments(tmp_path / "data")


@pytest.mark.parametrize("reader", ["serve --port 0", "status"])
def test_a_log_without_its_segments_is_refused(
    reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_its_segments(tmp_path / "data", monkeypatch)
    before = contents(tmp_path)
    check(
        at(tmp_path / "data")(*reader.split(" ")),
        9,
        "the log's segments are missing, but its file `mark` exists",
    )
    assert before == contents(tmp_path)


def segments(folder: Path) -> dict[str, bytes]:
    """Return the segments in a folder."""
    return {
        path.name: path.read_bytes() for path in folder.iterdir() if segment.FILE_NAME.fullmatch(path.name)
    }
