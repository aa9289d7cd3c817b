"""The settings of `foldb aws-config` and of the banner of `foldb serve` work as printed."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.served import FOLDB, foldb, served

BIN = str(Path(sys.executable).parent)


def clean(**more: str) -> dict[str, str]:
    """Return an environment without variables of AWS and foldb, in which the installed programs are found."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "FOLDB_"))}
    return {**kept, "PATH": f"{BIN}:{os.environ['PATH']}", "AWS_EC2_METADATA_DISABLED": "true", **more}


def bash(script: str, home: Path, **more: str) -> str:
    run = subprocess.run(
        ["bash", "-euc", script],
        env=clean(HOME=str(home), **more),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert 0 == run.returncode, run.stderr
    return run.stdout


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """Return a key file, and the variables with which the command line signs."""
    file = tmp_path / "keys.toml"
    made = foldb("-o", "json", "key", "create", "--keys", file, "--admin", "*").stdout
    found = re.findall(r'"([^"]+)"\s*:\s*"([^"]+)"', made)
    values = dict(found)
    return file, {
        "FOLDB_ACCESS_KEY_ID": values["AccessKeyId"],
        "FOLDB_SECRET_ACCESS_KEY": values["SecretAccessKey"],
    }


CALLS = "aws dynamodb list-tables --query TableNames && aws dynamodbstreams list-streams --query Streams"


def test_the_shell_form_points_the_aws_cli_at_tables_and_streams(tmp_path: Path) -> None:
    with served(tmp_path / "data") as url:
        said = bash(f'eval "$(foldb aws-config --shell --db {url})" && {CALLS}', tmp_path)

    assert ["[]", "[]"] == said.split()


def test_the_python_form_makes_both_clients(tmp_path: Path) -> None:
    with served(tmp_path / "data") as url:
        code = foldb("aws-config", "--python", "--db", url).stdout
        known: dict[str, Any] = {}
        exec(compile(code, "aws-config", "exec"), known)
        tables = known["dynamodb"].meta.client.list_tables()["TableNames"]
        streams = known["streams"].list_streams()["Streams"]
        known["dynamodb"].meta.client.close()
        known["streams"].close()

    assert ([], []) == (tables, streams)


def test_the_terraform_form_is_one_provider_block(tmp_path: Path) -> None:
    with served(tmp_path / "data") as url:
        block = foldb("aws-config", "--terraform", "--db", url).stdout

    assert re.search(r'^provider "aws" \{$', block, re.MULTILINE)
    assert f'dynamodb = "{url}"' in block
    assert block.count("{") == block.count("}")


def test_a_server_with_keys_gets_the_key_of_the_caller(
    tmp_path: Path, keys: tuple[Path, dict[str, str]]
) -> None:
    file, key = keys
    with served(tmp_path / "data", "--keys", str(file)) as url:
        said = bash(f'eval "$(foldb aws-config --shell --db {url})" && {CALLS}', tmp_path, **key)
        without = subprocess.run(
            [FOLDB, "aws-config", "--db", url], env=clean(HOME=str(tmp_path)), capture_output=True, text=True
        )

    assert ["[]", "[]"] == said.split()
    assert (2, "") == (without.returncode, without.stdout)
    assert "set FOLDB_ACCESS_KEY_ID and FOLDB_SECRET_ACCESS_KEY" in without.stderr


def test_two_forms_at_once_are_refused() -> None:
    run = foldb("aws-config", "--shell", "--python", "--db", "http://127.0.0.1:1")

    assert 2 == run.returncode
    assert "choose one" in run.stderr


@contextmanager
def banner(*options: str) -> Iterator[str]:
    """Return the last command that a server prints, without the address."""
    command = [str(FOLDB), "serve", "--port", "0", *options]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=clean()
    )
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said = line.strip()
        if "aws dynamodb" in line:
            break
    rest = threading.Thread(target=process.stderr.read)
    rest.start()
    try:
        yield said
    finally:
        process.terminate()
        process.wait(timeout=30)
        rest.join()
        process.stderr.close()


def test_the_banners_line_works_as_printed(tmp_path: Path) -> None:
    with banner("--memory") as line:
        said = bash(f"{line} --query TableNames", tmp_path)

    assert "[]" == said.strip()


def test_the_banners_line_works_with_keys(tmp_path: Path, keys: tuple[Path, dict[str, str]]) -> None:
    file, key = keys
    with banner("--memory", "--keys", str(file)) as line:
        said = bash(f"{line} --query TableNames", tmp_path, **key)

    assert "[]" == said.strip()
