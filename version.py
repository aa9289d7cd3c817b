"""Which foldb this is: its release and its build."""

from .model import values

__version__ = "0.1.0"


def build() -> str:
    """Return "compiled" if the hot modules are extension modules (setup.py), else "pure"."""
    return "pure" if values.__file__.endswith(".py") else "compiled"
