"""Which foldb this is: its release and its build."""

from importlib.util import find_spec

__version__ = "0.1.0"


def build() -> str:
    """Return "compiled" if the hot modules are extension modules (setup.py), else "pure"."""
    # Found and not imported: every run of pytest, with the plugin, loads this file.
    module = find_spec(".model.values", __package__)
    assert module is not None
    assert module.origin is not None
    return "pure" if module.origin.endswith(".py") else "compiled"
