"""The messages of a server as lines of JSON."""

import json
import logging

from foldb.cli.lib.log_format import JsonFormatter


def record(exc_info: object = None) -> logging.LogRecord:
    made = logging.LogRecord("foldb.log", logging.WARNING, "", 0, "cannot write %s", ("x.avro",), exc_info)  # type: ignore[arg-type]
    made.created = 1_700_000_000.123
    return made


def test_a_message_is_one_line_of_json() -> None:
    assert {
        "time": "2023-11-14T22:13:20.123Z",
        "level": "WARNING",
        "logger": "foldb.log",
        "message": "cannot write x.avro",
    } == json.loads(JsonFormatter().format(record()))


def test_a_traceback_is_a_member() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError as error:
        line = JsonFormatter().format(record((ValueError, error, error.__traceback__)))

    assert "\n" not in line
    assert "ValueError: two\nlines" in json.loads(line)["traceback"]
