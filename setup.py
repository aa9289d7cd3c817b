"""The fast build: `FOLDB_COMPILE=1 pip install .` compiles the hot modules with mypyc.

pyproject.toml holds all else. Without the variable the package is pure Python; with it, the same sources become
extension modules, and each source stays beside its module. A checkout never holds built files: mypyc's C sources and
the extension modules are made in a temporary folder and in the wheel alone.
"""

import os
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent

# The modules between the bytes of a request and the bytes of its answer, and those that keep a history up to date with
# the log. To compile the others gains nothing.
HOT = (
    "expressions/*.py",
    "log/avro.py",
    "log/binary.py",
    "log/codec.py",
    "log/commands.py",
    "log/context.py",
    "log/local/segment.py",
    "materializer/consistent_partition.py",
    "materializer/fold/**/*.py",
    "materializer/history/attribution.py",
    "materializer/history/base.py",
    "materializer/history/decided_parts.py",
    "materializer/history/follower.py",
    "materializer/history/past_store.py",
    "materializer/history/rocks_engine.py",
    "materializer/history/timeline.py",
    "materializer/history/version_keys.py",
    "materializer/history/version_store.py",
    "materializer/lagging_partition.py",
    "materializer/local_partition.py",
    "materializer/long_reads.py",
    "materializer/owner/copy_sources.py",
    "materializer/owner/restores.py",
    "materializer/partition.py",
    "materializer/portions.py",
    "materializer/recent_writes.py",
    "materializer/replicated/worker.py",
    "materializer/worker.py",
    "model/capacity.py",
    "model/index_keys.py",
    "model/key_schema.py",
    "model/keys.py",
    "model/limits.py",
    "model/numbers.py",
    "model/sequence_numbers.py",
    "model/service.py",
    "model/slots.py",
    "model/tables.py",
    "model/values.py",
    "server/api/checksums.py",
    "server/api/dispatch.py",
    "server/api/long_answers.py",
    "server/api/operation.py",
    "server/api/page_requests.py",
    "server/api/parameters.py",
    "server/api/record_cache.py",
    "server/api/reply.py",
    "server/api/response_json.py",
    "server/api/strict_json.py",
    "server/api/write_requests.py",
    "server/api/operations/batch_*.py",
    "server/api/operations/*_item.py",
    "server/api/operations/query.py",
    "server/api/operations/scan.py",
    "server/api/operations/transact_*.py",
    "server/http/buffer_limit.py",
    "server/http/fair_scheduler.py",
    "server/http/listener.py",
    "server/http/origin_policy.py",
    "server/http/protocol.py",
    "server/http/request_body.py",
    "server/http/request_head.py",
    "server/http/response.py",
    "server/throttling/buckets.py",
    "server/throttling/load_sampler.py",
    "server/throttling/metered_partition.py",
    "server/throttling/meters.py",
    "server/usage/counted_partition.py",
    "server/usage/usage.py",
    "streams/formats/dynamodb.py",
    "streams/formats/plain.py",
    "streams/formats/table_view.py",
)


def hot_modules() -> list[str]:
    """Return the paths of the modules that the fast build compiles, from the root."""
    found = {path.relative_to(ROOT).as_posix() for pattern in HOT for path in ROOT.glob(pattern)}
    return sorted(path for path in found if not path.endswith("/__init__.py"))


def requirement() -> str:
    """Return the release of mypy that checks the project: mypyc comes with it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return next(str(each) for each in project["optional-dependencies"]["dev"] if each.startswith("mypy=="))


def compile_modules(work: Path, *, separately: bool = False) -> dict[str, object]:
    """Write the modules as C into a folder, and return the arguments of setup() that build them there.

    With `separately` each module is a library of its own without optimisation, so a change of one compiles that one.
    The folder may then hold the files of the run before.

    Raises:
        SystemExit: mypy reports an error.
    """
    from mypyc.build import mypycify

    # mypy has to see the root of the repository as the package `foldb`, and nothing of this machine's packages.
    (work / "src").mkdir(exist_ok=True)
    if not (work / "src/foldb").exists():
        (work / "src/foldb").symlink_to(ROOT)
    os.environ["MYPYPATH"] = str(work / "src")
    options = ["--config-file=", "--explicit-package-bases", "--no-site-packages", "--ignore-missing-imports"]
    options += ["--cache-dir=/dev/null"]  # mypyc cannot build separate modules from a cache
    paths = [str(work / "src/foldb" / path) for path in hot_modules()]
    modules = mypycify(
        [*options, *paths],
        target_dir=str(work / "c"),
        debug_level="0",
        opt_level="0" if separately else "3",
        separate=separately,
        group_name=None if separately else "foldb",
        multi_file=not separately,  # one large file takes the C compiler twice as long
    )
    return {"ext_modules": modules, "options": {"build": {"build_base": str(work / "build")}}}


if __name__ == "__main__":
    from setuptools import setup  # a test reads this file where only pip's own environment has it

    if os.environ.get("FOLDB_COMPILE") != "1":
        setup()
    elif "bdist_wheel" not in sys.argv:  # pip asks for the requirements first
        setup(setup_requires=[requirement()])
    else:
        with tempfile.TemporaryDirectory(prefix="foldb-compile-") as folder:
            setup(**compile_modules(Path(folder)))
