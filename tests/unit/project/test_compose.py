"""The container files use existing options of `foldb serve`, and brokers have the settings of the tests' brokers."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from foldb.cli.commands.serve import serve
from tests.support.containers import instruction
from tests.unit.project.source import ROOT

COMPOSE = ROOT / "compose" / "compose.yaml"
DEVELOPMENT = ROOT / "compose" / "development.yaml"


def test_every_option_of_a_node_is_one_of_serve() -> None:
    options = set(re.findall(r"^ +- --([a-z-]+)", COMPOSE.read_text(), re.MULTILINE))
    options |= {word.removeprefix("--") for word in instruction("CMD") if word.startswith("--")}
    known = {name.replace("_", "-") for name in serve.__annotations__} | {"db"}

    assert options
    assert options <= known


def test_brokers_share_their_settings_with_those_of_the_tests() -> None:
    assert COMPOSE.read_text().count("./broker.properties:") == 3
    assert (ROOT / "compose" / "broker.properties").exists()
    assert '"broker.properties"' in (ROOT / "compose" / "kafka-local").read_text()


@pytest.mark.parametrize("file", [COMPOSE, DEVELOPMENT], ids=lambda file: file.name)
def test_docker_reads_it_where_there_is_docker(file: Path) -> None:
    docker = shutil.which("docker")
    if (
        docker is not None
        and not subprocess.run([docker, "compose", "version"], capture_output=True).returncode
    ):
        done = subprocess.run([docker, "compose", "-f", file, "config", "--quiet"], capture_output=True)
        assert (done.returncode, done.stderr) == (0, b"")
