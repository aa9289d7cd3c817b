"""A database is private: its address, its files and its folder."""

import os
import socket
import stat
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import foldb
from foldb.model.errors import FoldbError
from tests.support.raw import ask
from tests.support.served import foldb as command
from tests.support.served import served
from tests.support.tables import table_request


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.guarantee("SEC19")
@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_the_folder_and_every_file_in_it_are_the_owners_alone(tmp_path: Path, umask: int) -> None:
    """Under any umask of the shell, for files made later too."""
    folder = tmp_path / "data"
    before = os.umask(umask)
    try:
        with served(folder, "--segment-bytes", "1000") as url:
            ask(url, "CreateTable", table_request("Cars", "pk:S"))
            for n in range(20):
                ask(url, "PutItem", {"TableName": "Cars", "Item": {"pk": {"S": f"{n} " + "x" * 100}}})
            modes = {path.name: mode(path) for path in folder.rglob("*")}
    finally:
        os.umask(before)

    assert 0o700 == mode(folder)
    assert len(modes) > 4
    assert {} == {name: oct(bits) for name, bits in modes.items() if bits & 0o077}


@pytest.mark.guarantee("SEC19")
def test_a_folder_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    with foldb.serve(folder):
        assert 0o700 == mode(folder)
        assert 0o600 == mode(folder / "server.json")


def test_a_link_of_our_own_is_followed(tmp_path: Path) -> None:
    """An operator moved the data to a larger disk."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "data").symlink_to(tmp_path / "disk")
    with foldb.serve(tmp_path / "data") as server:
        assert 200 == ask(server.endpoint_url, "CreateTable", table_request("Cars", "pk:S")).status

    assert list((tmp_path / "disk").glob("*.avro"))


@pytest.mark.guarantee("SEC19")
def test_a_link_of_another_user_is_refused(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to make another user's link")
    (tmp_path / "disk").mkdir()
    (tmp_path / "data").symlink_to(tmp_path / "disk")
    os.chown(tmp_path / "data", 65534, 65534, follow_symlinks=False)
    with pytest.raises(FoldbError, match="a link that another user made"):
        foldb.serve(tmp_path / "data")
    result = command("serve", "--db", tmp_path / "data", "--port", "0")

    assert 2 == result.returncode
    assert "name the folder itself" in result.stderr
    assert [] == list((tmp_path / "disk").iterdir())


# Who can reach it


def addresses_of_this_machine() -> list[str]:
    """One that other machines reach us by, where there is one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            return []
        return [str(probe.getsockname()[0])]


@pytest.mark.parametrize(
    "host",
    [
        "0.0.0.0",
        "::",
        "",
        "*",
        "0",
        "127.1",
        "2130706433",
        "::ffff:0.0.0.0",
        "192.168.1.1",
        "10.0.0.1",
        "169.254.1.1",
        "fe80::1",
        "::ffff:192.168.1.1",
        "224.0.0.1",
        "255.255.255.255",
        "example.com",
        "localhost.example.com",
        "localhost ",
        socket.gethostname(),
        *addresses_of_this_machine(),
    ],
)
def test_it_does_not_start_where_others_could_reach_it(tmp_path: Path, host: str) -> None:
    with pytest.raises(FoldbError, match=r"Use 127\.0\.0\.1"):
        foldb.serve(tmp_path / "data", host=host)

    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", "0100007F"),
        ("127.0.0.9", "0900007F"),
        ("localhost", "0100007F"),
        ("::1", "0" * 24 + "01000000"),
    ],
)
def test_it_listens_on_the_given_address_only(host: str, expected: str) -> None:
    """As the kernel says it."""
    if not Path("/proc/net/tcp6").exists():
        pytest.skip("needs /proc/net, to see what listens")
    with foldb.serve(host=host) as server:
        port = urlsplit(server.endpoint_url).port or 0
        lines = [
            line.split()
            for table in ("tcp", "tcp6")
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
        ]
        own = set()
        for descriptor in Path("/proc/self/fd").iterdir():
            with suppress(FileNotFoundError):  # closed since
                own.add(descriptor.readlink().name)

    # Another process may listen on this port of another address.
    listening = {line[1] for line in lines if line[3] == "0A" and f"socket:[{line[9]}]" in own}
    assert {f"{expected}:{port:04X}"} == {
        address for address in listening if address.endswith(f":{port:04X}")
    }
