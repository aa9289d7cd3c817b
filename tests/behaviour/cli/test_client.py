"""The client with servers that misbehave, and its handling of responses."""

import json
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from io import StringIO
from typing import Any

import pytest

from foldb.cli.lib.batch_writer import BatchWriter
from foldb.cli.lib.client import Client
from foldb.cli.lib.errors import CommandError, ExitCode, exit_code
from foldb.cli.lib.key_arguments import KeyArguments
from foldb.cli.lib.output import Output
from foldb.cli.lib.progress import progress
from foldb.cli.lib.settings import Format, SessionSettings
from foldb.cli.lib.terminal import Terminal
from tests.behaviour.cli.conftest import at

THROTTLED = {
    "__type": "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException",
    "message": "slow",
}
SHAPE = KeyArguments({"TableName": "Notes", "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}]})


@contextmanager
def answering(*answers: tuple[int, Any], request_id: str | None = "R1") -> Iterator[str]:
    """Serve these responses, one after another, to any request."""
    rest = iter(answers)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            status, content = next(rest)
            data = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            if request_id:
                self.send_header("x-amzn-RequestId", request_id)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def failure(url: str) -> CommandError:
    """Return the error of a call."""
    with closing(Client(url, sleep=lambda _: None)) as client, pytest.raises(CommandError) as caught:
        client.call("UpdateItem", {})
    return caught.value


def test_throttling_is_waited_out() -> None:
    pauses: list[float] = []
    answers = [(400, THROTTLED), (400, THROTTLED), (200, {"ok": 1})]
    with answering(*answers) as url, closing(Client(url, sleep=pauses.append)) as client:
        assert {"ok": 1} == client.call("GetItem", {})

    assert [0.05, 0.1] == pauses


def test_throttling_without_end_is_exit_code_6() -> None:
    with answering(*[(400, THROTTLED)] * 6) as url:
        assert ExitCode.THROTTLED == failure(url).code


def test_a_500_is_not_sent_again_because_it_may_have_happened() -> None:
    error = {"__type": "com.amazonaws.dynamodb.v20120810#InternalServerError", "message": "oh"}
    with answering((500, error), (200, {})) as url:
        assert ExitCode.UNREACHABLE == failure(url).code


@pytest.mark.parametrize("content", [b"<html>", b"[]"])
def test_an_answer_that_is_not_dynamodbs_is_said_to_be_none(content: bytes) -> None:
    with answering((200, content)) as url:
        assert "is it foldb" in failure(url).sentence


def test_json_of_another_program_is_not_taken_for_an_answer() -> None:
    with answering((404, {"detail": "Not Found"}), request_id=None) as url:
        assert f"{url} answers `HTTP 404`, which no DynamoDB endpoint does" in failure(url).sentence


@pytest.mark.parametrize(
    "url",
    [
        "ftp://127.0.0.1:8000",
        "http://",
        "ftp://x",
        "http://[::1",
        "http://h:x",
        "http://h:99999",
        "http://a b",
    ],
)
def test_an_address_that_is_none_is_wrong_usage(url: str) -> None:
    with pytest.raises(CommandError) as caught:
        Client(url)

    assert ExitCode.USAGE == caught.value.code


@pytest.mark.spec("S84", served=False)
def test_unprocessed_items_of_a_batch_are_sent_again_and_counted() -> None:
    left = {"UnprocessedItems": {"Notes": [{"PutRequest": {"Item": {"id": {"N": "2"}}}}]}}
    items = [(f"item {n}", {"id": {"N": str(n)}}) for n in (1, 2)]
    with answering((200, left), (200, {})) as url, closing(Client(url)) as client:
        loader = BatchWriter(client, SHAPE, sleep=lambda _: None)
        loader.load(items)
        assert 2 == loader.written

    with answering(*[(200, left)] * 7) as url, closing(Client(url)) as client:
        loader = BatchWriter(client, SHAPE, sleep=lambda _: None)
        with pytest.raises(CommandError, match="1 item not processed") as caught:
            loader.load(items)
        assert (1, ExitCode.PARTLY) == (loader.written, caught.value.code)


@pytest.mark.spec("S60", served=False)
def test_a_batch_is_sent_again_while_the_table_makes_progress() -> None:
    """A table with one write unit processes one item in each of eleven batches."""
    items = [(f"item {n}", {"id": {"N": str(n)}}) for n in range(12)]
    answers = [
        {"UnprocessedItems": {"Notes": [{"PutRequest": {"Item": item}} for _, item in items[n:]]}}
        for n in range(1, 12)
    ]
    with answering(*((200, each) for each in [*answers, {}])) as url, closing(Client(url)) as client:
        loader = BatchWriter(client, SHAPE, sleep=lambda _: None)
        loader.load(items)

    assert (12, 0) == (loader.written, loader.unprocessed)


def test_a_refused_right_names_a_next_step() -> None:
    body = {
        "__type": "x#AccessDeniedException",
        "Message": "User: me is not authorized to perform: a on resource: b",
    }
    with answering((400, body)) as url, closing(Client(url)) as client, pytest.raises(CommandError) as caught:
        client.call("ListTables", {})

    assert "Use a key with this right: `foldb key create` makes one" in caught.value.sentence


@pytest.mark.parametrize(
    ("name", "status", "code"),
    [
        ("ResourceNotFoundException", 400, 3),
        ("TableNotFoundException", 400, 3),
        ("ConditionalCheckFailedException", 400, 4),
        ("TransactionCanceledException", 400, 5),
        ("ThrottlingException", 400, 6),
        ("ValidationException", 400, 7),
        ("ResourceInUseException", 400, 7),
        ("ServiceUnavailableException", 503, 8),
    ],
)
def test_every_error_has_its_exit_code(name: str, status: int, code: int) -> None:
    assert code == exit_code(name, status)


ROWS = [{"id": 1, "tags": {"$set": ["a", "b"]}}, {"id": 20, "name": 'say "hi", Ada'}]


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (Format.JSONL, '{"id":1,"tags":{"$set":["a","b"]}}\n{"id":20,"name":"say \\"hi\\", Ada"}\n'),
        (Format.CSV, 'name,id,tags\n,1,"{""$set"":[""a"",""b""]}"\n"say ""hi"", Ada",20,\n'),
        (Format.RAW, '1\t{"$set":["a","b"]}\n20\tsay "hi", Ada\n'),
        (
            Format.TABLE,
            'name           id  tags             \n                1  {"$set":["a","b"]}\n'
            'say "hi", Ada  20\n',
        ),
    ],
)
def test_each_format_writes_rows_that_differ(
    form: Format, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Output(SessionSettings(db="", format=form)).rows(ROWS, first=["name"])

    written = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert [line.rstrip() for line in text.splitlines()] == written


def test_json_is_one_list_and_one_thing_is_an_object(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(SessionSettings(db="", format=Format.JSON))

    output.rows(ROWS)
    assert ROWS == json.loads(capsys.readouterr().out)
    output.row(ROWS[0])
    assert ROWS[0] == json.loads(capsys.readouterr().out)


def test_in_a_pipe_progress_is_a_line_every_five_seconds() -> None:
    written = StringIO()
    now = iter([0.0, 1.0, 5.0, 6.0, 10.0])
    console = Terminal(file=written, width=80)
    with progress(SessionSettings(db=""), console, "Music", 100, clock=lambda: next(now)) as advance:
        for _ in range(4):
            advance(10)

    assert "Music: 20 of 100 · 4/s\nMusic: 40 of 100 · 4/s\n" == written.getvalue()


@pytest.mark.parametrize(
    "settings", [SessionSettings(db="", quiet=True), SessionSettings(db="", progress=False)]
)
def test_progress_can_be_silenced(settings: SessionSettings) -> None:
    written = StringIO()
    with progress(settings, Terminal(file=written), "Music", 100) as advance:
        advance(10)

    assert "" == written.getvalue()


def test_a_key_that_may_not_list_tables_gets_no_suggestion() -> None:
    """The failure at hand is reported, and not that of the listing."""
    missing = {
        "__type": "x#ResourceNotFoundException",
        "message": "Requested resource not found: Table: Ordrs not found",
    }
    denied = {"__type": "x#AccessDeniedException", "message": "no"}
    with answering((400, missing), (400, denied)) as url:
        result = at(url)("scan", "Ordrs")

    assert 3 == result.exit_code
    assert result.stderr.endswith("not found. `foldb table list` lists the tables.\n")
