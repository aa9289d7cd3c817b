"""A folder that an older release wrote is served by this one, and comes to its level by itself."""

import shutil
from contextlib import closing
from pathlib import Path

import pytest

import foldb
from foldb.cli.lib.client import Client
from foldb.materializer.fold import LEVEL
from tests.support.served import foldb as run
from tests.unit.materializer.generate_golden import GOLDEN as ONE
from tests.unit.materializer.partitions.generate_golden import GOLDEN as SEVERAL
from tests.unit.materializer.test_levels import WRITTEN


@pytest.mark.parametrize(
    "golden", [ONE / "002", SEVERAL / "002", WRITTEN], ids=["one partition", "several", "level 3"]
)
def test_a_folder_of_an_older_release_is_served_at_the_new_level(golden: Path, tmp_path: Path) -> None:
    """No confirmation is needed: an older release could not read the log before, either."""
    path = tmp_path / "db"
    shutil.copytree(golden, path, ignore=shutil.ignore_patterns("digest*"))
    with foldb.serve(path) as server, closing(Client(server.endpoint_url)) as client:
        while client.admin("Status")["Level"] < LEVEL:
            pass
        again = client.admin("Upgrade", {})

    assert {"From": LEVEL, "Level": LEVEL} == again
    assert 0 == run("verify", path).returncode
