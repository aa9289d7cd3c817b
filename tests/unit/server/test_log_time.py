"""The log time in an answer is that at its position, as the log itself has it."""

import threading
from pathlib import Path

import pytest

from tests.support.log_times import LogTimes, reported
from tests.support.raw import Answer, ask
from tests.support.served import served
from tests.support.tables import table_request

ROUNDS = 25


def ask_all(url: str, name: str) -> list[Answer]:
    """Ask for all kinds of answers, over one key and over several."""
    answers = []
    for nth in range(ROUNDS):
        keys = [{"pk": {"S": f"{name} {nth} {n}"}} for n in range(4)]
        bodies = {
            "PutItem": {"TableName": "T", "Item": keys[0]},
            "TransactWriteItems": {
                "TransactItems": [{"Put": {"TableName": "T", "Item": key}} for key in keys]
            },
            "BatchWriteItem": {"RequestItems": {"T": [{"PutRequest": {"Item": key}} for key in keys]}},
            "GetItem": {"TableName": "T", "Key": keys[0]},
            "BatchGetItem": {"RequestItems": {"T": {"Keys": keys}}},
            "Scan": {"TableName": "T"},
            "ListTables": {},
        }
        answers += [ask(url, operation, body) for operation, body in bodies.items()]
        answers.append(ask(url, "GetItem", {"TableName": "T", "Key": {}}))  # refused
    return answers


@pytest.mark.spec("S23")
@pytest.mark.parametrize("partitions", [1, 4])
def test_every_answer_names_log_time_at_its_position(partitions: int, tmp_path: Path) -> None:
    """Others write at the same time, so a state that is looked at later is another one."""
    answers: list[Answer] = []
    with served(tmp_path, "--partitions", str(partitions)) as url:
        ask(url, "CreateTable", table_request("T", "pk:S"))
        askers = [
            threading.Thread(target=lambda name=name: answers.extend(ask_all(url, name)))
            for name in ("a", "b", "c")
        ]
        for asker in askers:
            asker.start()
        for asker in askers:
            asker.join()

    times = LogTimes(str(tmp_path))
    assert 3 * ROUNDS * 8 == len(answers)
    assert [times.of(answer) for answer in answers] == [reported(answer) for answer in answers]
