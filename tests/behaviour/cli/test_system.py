"""Errors of the operating system: ports, folders, disks, terminals, pipes.

Each command is a process. Root passes every permission check, so a process that needs a refused permission drops its
privileges; the others are forks.
"""

import ctypes
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import foldb
from tests.behaviour.cli.conftest import at
from tests.behaviour.cli.terminals import on_a_terminal
from tests.behaviour.cli.test_processes import heeding_interrupts
from tests.behaviour.cli.test_refusals import check, contents
from tests.support.served import FOLDB
from tests.support.served import foldb as run_foldb

Finished = subprocess.CompletedProcess[str]

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_CAPBSET_DROP = 24
_PRIVILEGES = (
    1,
    2,
    3,
    10,
)  # to read and write the files of every user, to own them, to take ports below 1024
_MS_RDONLY = 1


def _drop_privileges() -> None:
    for privilege in _PRIVILEGES:
        _LIBC.prctl(_PR_CAPBSET_DROP, privilege, 0, 0, 0)


def unprivileged(*arguments: str | Path, **options: Any) -> Finished:
    """Return a command without privileges."""
    return subprocess.run(
        [FOLDB, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=_drop_privileges,
        **options,
    )


@pytest.fixture
def music(folder: Path) -> Path:
    """Return a folder with the sample `music` and no server."""
    with foldb.serve(folder, fsync="never") as server:
        assert at(server.endpoint_url)("sample", "load", "music").exit_code == 0
    return folder


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Mount a tmpfs, or bind a folder read-only at another path."""
    if os.geteuid():
        pytest.skip("mounting takes root")
    mounted: list[Path] = []

    def mount(*arguments: str | Path) -> Path:
        place = tmp_path / f"mounted-{len(mounted)}"
        place.mkdir()
        done = subprocess.run(["mount", *arguments, place], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"mount: {done.stderr.strip()}")
        mounted.append(place)
        return place

    yield mount
    for place in reversed(mounted):
        subprocess.run(["umount", "--lazy", place], check=True)


def test_a_port_that_is_taken_is_named_and_no_folder_is_made(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = run_foldb("serve", "--db", tmp_path / "data", "--port", port)

    check(
        refused,
        8,
        f"cannot listen on 127.0.0.1:{port}: Address already in use. Choose another port with --port.",
    )
    assert [] == list(tmp_path.iterdir())


def test_a_privileged_port_is_refused_and_no_folder_is_made(tmp_path: Path) -> None:
    if int(Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text()) <= 1:
        pytest.skip("on this machine no port is privileged")
    refused = unprivileged("serve", "--db", tmp_path / "data", "--port", "1")

    check(refused, 8, "cannot listen on 127.0.0.1:1: Permission denied. Choose another port with --port.")
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("arguments", ["serve --port 0", "log cat"])
def test_a_folder_without_permission_is_refused(arguments: str, music: Path) -> None:
    before = contents(music)
    music.chmod(0)
    try:
        refused = unprivileged(*arguments.split(), "--db", music)
    finally:
        music.chmod(0o700)

    check(refused, 8, "Permission denied: run as its owner, or give another path")
    assert str(music) in refused.stderr
    assert before == contents(music)


def test_a_place_where_no_folder_can_be_made_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        refused = unprivileged("serve", "--db", tmp_path / "data", "--port", "0")
    finally:
        tmp_path.chmod(0o700)

    check(refused, 8, "Permission denied: run as its owner, or give another path")
    assert [] == list(tmp_path.iterdir())


@pytest.mark.guarantee("G20")
@pytest.mark.parametrize("arguments", ["serve --port 0", "scan Music"])
def test_a_read_only_disk_is_refused_where_something_is_to_be_written(
    arguments: str, music: Path, mount: Callable[..., Path]
) -> None:
    place = mount("--bind", "-o", "ro", music)
    before = contents(music)
    refused = run_foldb(*arguments.split(), "--db", place)

    check(
        refused, 8, "Read-only file system: `foldb log` and `foldb verify` only read; for other commands copy"
    )
    assert before == contents(music)


def test_a_read_only_disk_is_read(music: Path, mount: Callable[..., Path]) -> None:
    place = mount("--bind", "-o", "ro", music)
    read = run_foldb("verify", "--db", place)

    assert 0 == read.returncode, read.stderr
    assert read.stdout


def test_a_full_disk_is_refused_before_a_log_begins(mount: Callable[..., Path]) -> None:
    place = mount("-t", "tmpfs", "-o", "size=16k", "tmpfs")
    (place / "ballast").write_bytes(bytes(12 * 1024))
    refused = run_foldb("serve", "--db", place / "data", "--port", "0")

    assert (8, "") == (refused.returncode, refused.stdout)
    assert refused.stderr.endswith(": make room, then start again\n")
    assert [] == [path for path in (place / "data").iterdir() if path.suffix == ".avro"]


def test_a_write_that_finds_a_full_disk_says_so(music: Path, mount: Callable[..., Path]) -> None:
    place = mount("-t", "tmpfs", "-o", "size=128k", "tmpfs")
    for path in music.iterdir():
        (place / path.name).write_bytes(path.read_bytes())
    before = run_foldb("scan", "Music", "--db", place).stdout
    item = '{"Artist": "A", "Song": "B", "text": "' + "x" * 120_000 + '"}'
    refused = run_foldb("-q", "item", "put", "Music", item, "--db", place)

    assert (8, "") == (refused.returncode, refused.stdout)
    assert "The disk is full. Writes succeed again by themselves when there is space." in refused.stderr
    assert "Traceback" not in refused.stderr
    assert before == run_foldb("scan", "Music", "--db", place).stdout


@pytest.mark.parametrize("arguments", ["log cat", "scan Music -o table", "sample show music"])
def test_a_reader_that_goes_is_no_error(arguments: str, music: Path) -> None:
    """`foldb log cat | head -1`, but the reader is gone before the first byte: nothing is left to chance."""
    ours, theirs = os.pipe()
    os.close(ours)
    with open(theirs, "wb") as output:
        process = subprocess.run(
            [FOLDB, "-q", *arguments.split(), "--db", music],
            stdout=output,
            stderr=subprocess.PIPE,
            timeout=60,
        )

    assert (0, b"") == (process.returncode, process.stderr)


def test_output_that_finds_no_space_is_an_error_in_a_sentence(music: Path) -> None:
    with open("/dev/full", "wb") as output:
        process = subprocess.run(
            [FOLDB, "-q", "log", "cat", "--db", music], stdout=output, stderr=subprocess.PIPE, timeout=60
        )

    assert 8 == process.returncode
    assert b"foldb: No space left on device: free space, or give another path\n" == process.stderr


def without(closed: str, *arguments: str | Path) -> Finished:
    """Return a command that starts with some of stdin, stdout and stderr closed."""
    script = f'exec "$0" "$@" {closed}'
    return subprocess.run(["sh", "-c", script, FOLDB, *arguments], capture_output=True, text=True, timeout=60)


@pytest.mark.guarantee("G20")
def test_output_without_a_stdout_is_not_written_into_the_log(music: Path) -> None:
    """The system assigns the lowest free descriptor. If 1 and 2 were closed, the log got one of them, and the next
    warning of a library overwrote its first bytes.
    """
    read = without("<&- >&- 2>&-", "scan", "Music", "--db", music)
    put = without("<&- >&- 2>&-", "item", "put", "Music", '{"Artist": "A", "Song": "B"}', "--db", music)

    assert (0, 0) == (read.returncode, put.returncode)
    assert 4 == run_foldb("-q", "scan", "Music", "--db", music).stdout.count("\n")
    assert 0 == run_foldb("verify", "--db", music).returncode


def test_where_there_is_no_stdin_none_is_read(music: Path) -> None:
    check(without("<&-", "item", "put", "Music", "-", "--db", music), 2, "there is no stdin to read")


def test_a_question_without_a_terminal_is_answered_no(music: Path) -> None:
    asked = run_foldb("table", "delete", "Music", "--db", music)

    assert (2, "") == (asked.returncode, asked.stdout)
    assert asked.stderr.endswith("[y/N] \nfoldb: there was no answer, and nothing was done: give --yes\n")
    assert 3 == run_foldb("-q", "scan", "Music", "--db", music).stdout.count("\n")


def test_words_that_are_not_utf8_are_refused(music: Path) -> None:
    process = subprocess.run(
        [os.fsencode(FOLDB), b"item", b"get", b"Music", b"\xff", b"x", b"--db", os.fsencode(music)],
        capture_output=True,
        timeout=60,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    )

    assert (2, b"") == (process.returncode, process.stdout)
    assert b"foldb: `?` is not UTF-8: set your terminal to UTF-8\n" == process.stderr


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (
            b"HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\nContent-Type: text/plain\r\n\r\nnot found",
            "`HTTP 404 not found`",
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "`HTTP 200`"),
        (b"220 mail.example ESMTP\r\n", "`a response that is not HTTP`"),
    ],
)
def test_a_server_that_is_not_foldb_is_not_taken_for_it(answer: bytes, says: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        refused = run_foldb("table", "list", "--db", f"http://127.0.0.1:{listener.getsockname()[1]}")
        thread.join()

    check(refused, 8, f"answers {says}, which no DynamoDB endpoint does: is it foldb, and is that its port?")


@pytest.mark.parametrize("where", ["before it answers", "while it writes"])
def test_an_interrupt_ends_a_command_in_a_sentence(where: str, music: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        arguments = (
            ("status", "--db", address) if where == "before it answers" else ("log", "tail", "-f", music)
        )
        with subprocess.Popen(
            heeding_interrupts(str(FOLDB), *map(str, arguments)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            if where == "before it answers":
                connection, _ = silent.accept()
                with connection:
                    process.send_signal(signal.SIGINT)
                    said = process.stderr.read()
            else:
                process.stdout.readline()
                process.send_signal(signal.SIGINT)
                said = process.stderr.read()

    assert 130 == process.returncode
    assert "foldb: interrupted\n" == said


def test_a_terminal_shows_the_same_fields_as_a_pipe(music: Path) -> None:
    assert "Kyuss" in on_a_terminal("scan", "Music", "--db", music).stdout
