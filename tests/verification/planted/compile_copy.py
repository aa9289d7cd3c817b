"""`python compile_copy.py COPY WORK`: compile the hot modules of a copy of the repository, beside their sources.

A second run compiles those that have changed. mypyc keeps its state in the process, so each run is a process.
"""

import runpy
import sys
from pathlib import Path

from setuptools import setup


def main(copy: Path, work: Path) -> None:
    """See the module.

    Raises:
        SystemExit: mypy reports an error, or the C compiler.
    """
    work.mkdir(exist_ok=True)
    compile_modules = runpy.run_path(str(copy / "setup.py"))["compile_modules"]
    modules = compile_modules(work, separately=True)["ext_modules"]
    where = ["--build-lib", str(copy.parent), "--build-temp", str(work / "objects")]
    setup(name="foldb", ext_modules=modules, packages=[], script_args=["--quiet", "build_ext", "-j2", *where])


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
