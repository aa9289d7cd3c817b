"""The key file: its owner, its contents, and its atomic replacement."""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from foldb.server.auth.guard import Guard
from foldb.server.auth.keyfile import Key, KeyFileError, changed, new_key, read_keys
from foldb.server.auth.rights import Right, Rights

NOW = datetime(2026, 11, 21, 20, 0, tzinfo=UTC)
POLICY = '{"Statement": [{"Effect": "Deny", "Action": "dynamodb:*", "Resource": "*"}]}'
GOOD = '[keys.ONE]\nsecret = "sixteen or more characters"\ncreated = 2026-11-21T20:00:00Z\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.toml"


def write(path: Path, text: str, mode: int = 0o600) -> None:
    path.write_text(text)
    path.chmod(mode)


def test_a_written_key_file_is_read_back(path: Path) -> None:
    keys = [
        new_key(NOW, Rights(read=["*"], write=["Orders", "Orders-*"], admin=["Tests-*"]), NOW, "a\n\"b\" \x7f é"),
        new_key(NOW, Rights(read=["Log*"])),
        new_key(NOW, Rights(history=["Orders", "Log*"])),
        new_key(NOW, Rights(monitor=True)),
        new_key(NOW, Rights(policy=POLICY)),
    ]  # fmt: skip
    with changed(path) as by_id:
        by_id.update({key.id: key for key in keys})

    assert [said(key) for key in keys] == [said(key) for key in read_keys(path).by_id.values()]


def said(key: Key) -> tuple[Any, ...]:
    return (
        key.id,
        key.secret,
        key.created,
        key.expires,
        key.note,
        key.rights.patterns,
        key.rights.history,
        key.rights.monitor,
        key.rights.policy,
    )


def test_the_first_key_creates_a_cluster_secret_that_stays(path: Path) -> None:
    with changed(path) as by_id:
        by_id["ONE"] = replace(new_key(NOW, Rights()), id="ONE")
    secret = read_keys(path).cluster_secret
    with changed(path) as by_id:
        del by_id["ONE"]

    assert secret is not None
    assert 40 == len(secret)
    assert secret == read_keys(path).cluster_secret


def test_no_two_keys_are_alike_and_each_is_as_long_as_awss() -> None:
    keys = [new_key(NOW, Rights()) for _ in range(100)]

    assert 100 == len({key.id for key in keys}) == len({key.secret for key in keys})
    assert {(20, 40)} == {(len(key.id), len(key.secret)) for key in keys}


def test_a_secret_is_in_no_representation(path: Path) -> None:
    with changed(path) as by_id:
        key = new_key(NOW, Rights())
        by_id[key.id] = key
    keys = read_keys(path)

    assert keys.cluster_secret is not None
    for secret in (key.secret, keys.cluster_secret.decode(), keys.decoy):
        assert secret not in repr(keys)


@pytest.mark.guarantee("SEC6")
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660, 0o622, 0o666, 0o700 | 0o001])
def test_a_file_that_others_could_read_or_write_is_refused(path: Path, mode: int) -> None:
    write(path, GOOD, mode)

    with pytest.raises(KeyFileError, match=r"other users can read .*chmod 600"):
        read_keys(path)


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_file_that_is_its_owners_alone_is_read(path: Path, mode: int) -> None:
    write(path, GOOD, mode)

    assert ["ONE"] == list(read_keys(path).by_id)


def test_another_users_file_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(path, GOOD)
    if os.geteuid() == 0:
        os.chown(path, 12345, 12345)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)

    with pytest.raises(KeyFileError, match="belongs to another user"):
        read_keys(path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[keys", "is not TOML"),
        ("\0", "is not TOML"),
        ("[nodes]\n", "unknown member nodes"),
        ("keys = 1\n", "'1' is not a dict"),
        ('[keys.ONE]\nsecret = "x"\n', "the key ONE: a secret has at least 16"),
        ("[keys.ONE]\ncreated = 2026-11-21T20:00:00Z\n", "the key ONE: a secret has at least 16"),
        (GOOD + "rights = []\n", "the key ONE: unknown member rights"),
        (GOOD + "read = 'Orders'\n", "the key ONE: 'Orders' is not a list"),
        (GOOD + "read = ['Or ders']\n", "the key ONE: 'Or ders' cannot match the name of a table"),
        (GOOD + "read = [1]\n", "the key ONE: '1' is not a str"),
        (GOOD + "expires = 2027-01-01\n", "the key ONE: a time has the form"),
        (GOOD + "expires = 2027-01-01T00:00:00\n", "the key ONE: a time has the form"),
        (GOOD.replace("ONE", "'a/b'"), "the key a/b: an id consists of"),
        (GOOD + '[cluster]\nsecret = "short"\n', "a secret has at least 16"),
    ],
)
def test_the_error_names_the_mistake_and_no_secret(path: Path, text: str, says: str) -> None:
    write(path, text)

    with pytest.raises(KeyFileError) as caught:
        read_keys(path)
    assert says in str(caught.value)
    assert "sixteen or more" not in str(caught.value)


def test_a_file_that_is_not_there_is_refused(path: Path) -> None:
    with pytest.raises(KeyFileError, match="No such file"):
        read_keys(path)


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_a_new_file_is_private_to_its_owner_under_any_umask(path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        with changed(path):
            pass
    finally:
        os.umask(before)

    assert 0o600 == path.stat().st_mode & 0o777


def test_a_failed_change_leaves_the_key_file_as_it_was(path: Path) -> None:
    write(path, GOOD)
    with suppress(ZeroDivisionError), changed(path) as by_id:
        by_id.clear()
        raise ZeroDivisionError

    assert GOOD == path.read_text()
    assert [path] == list(path.parent.iterdir())


def test_two_that_change_it_at_a_time_both_succeed(path: Path) -> None:
    def make() -> None:
        for _ in range(10):
            with changed(path) as by_id:
                key = new_key(NOW, Rights())
                by_id[key.id] = key

    threads = [threading.Thread(target=make) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 30 == len(read_keys(path).by_id)


def test_a_link_leads_to_the_file_that_is_changed(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.toml"
    link.symlink_to(path)
    with changed(link) as by_id:
        by_id["ONE"] = replace(new_key(NOW, Rights()), id="ONE")

    assert link.is_symlink()
    assert ["ONE"] == list(read_keys(path).by_id)


def test_a_server_reloads_changed_keys_but_no_malformed_file(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(path, GOOD)
    guard = Guard(path, lambda: 0)
    assert ["ONE"] == list(guard.keys.by_id)

    first = guard.keys
    guard.reload_if_changed()
    assert guard.keys is first

    wrongs: list[Callable[[], None]] = [
        lambda: write(path, "[keys"),
        lambda: path.chmod(0o644),
        lambda: path.unlink(),
    ]
    for wrong in wrongs:
        wrong()
        guard.reload_if_changed()
        guard.reload_if_changed()
        assert guard.keys is first
    assert 3 == sum("cannot reload the keys" in record.message for record in caplog.records)

    write(path, GOOD.replace("ONE", "TWO") + "write = ['Cars']\n")
    guard.reload_if_changed()
    assert Right.WRITE == guard.keys.by_id["TWO"].rights.on("Cars")
    assert "ONE" not in guard.keys.by_id
