"""A server that runs some of docs/examples, on tables in memory."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest

import foldb
from tests.behaviour.examples.running import EXAMPLES, Running

Run = Callable[..., Running]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Runs the examples with these names. `edit` changes their text; `env` is the content of their .env file."""
    with ExitStack() as stack:

        def start(*names: str, edit: dict[str, str] | None = None, env: str = "", **settings: Any) -> Running:
            folder = tmp_path / "triggers"
            folder.mkdir(exist_ok=True)
            for name in names:
                shutil.copy(EXAMPLES / name, folder)
                for old, new in (edit or {}).items():
                    assert old in (folder / name).read_text()
                    (folder / name).write_text((folder / name).read_text().replace(old, new))
            (folder / ".env").write_text(env)
            return stack.enter_context(running(folder, **settings))

        yield start


@contextmanager
def running(folder: Path, **settings: Any) -> Iterator[Running]:
    with foldb.serve(triggers=folder, **settings) as server:
        resource = boto3.resource("dynamodb", **server.boto3)
        try:
            yield Running(server, resource, folder)
        finally:
            resource.meta.client.close()
