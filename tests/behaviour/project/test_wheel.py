"""The wheel serves in an empty environment, and the source distribution holds what a packager needs.

Long, because pip builds and installs everything: `make soak` runs it.
"""

import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from foldb.version import __version__
from tests.unit.project.source import ROOT

pytestmark = pytest.mark.soak


def run(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT)
    [wheel] = folder.iterdir()
    return wheel


def test_the_wheel_holds_the_package_alone(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()

    assert {"foldb", f"{'-'.join(wheel.name.split('-')[:2])}.dist-info"} == {
        each.split("/")[0] for each in names
    }
    assert not [
        each for each in names if each.startswith(("foldb/tests/", "foldb/docs/", "foldb/benchmarks/"))
    ]


def test_the_wheel_serves_the_example_of_the_readme(wheel: Path, tmp_path: Path) -> None:
    """The environment has nothing but the wheel, the extra `boto3` and their dependencies."""
    venv.create(tmp_path / "empty", with_pip=True)
    python = tmp_path / "empty" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", f"{wheel}[boto3]")
    readme = (ROOT / "README.md").read_text()
    example = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)[1]
    expected = re.findall(r"```text\n(.*?)```", readme, re.DOTALL)[1]

    assert expected == run(python, "-P", "-c", example)
    assert f"foldb {__version__}\n" == run(python.with_name("foldb"), "--version")


def test_the_source_distribution_holds_tests_and_documents(tmp_path: Path) -> None:
    run(sys.executable, "-m", "pip", "install", "--quiet", "--target", tmp_path / "build", "build")
    program = "import runpy, sys; sys.path.insert(0, sys.argv.pop(1)); runpy.run_module('build', run_name='__main__')"
    run(sys.executable, "-c", program, tmp_path / "build", "--sdist", "--outdir", tmp_path, ROOT)
    [archive] = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as found:
        names = {name.partition("/")[2] for name in found.getnames()}

    assert {"CHANGELOG.md", "LICENSE", "docs/architecture.md", "tests/conftest.py", "log/FORMAT.md"} <= names
