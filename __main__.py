"""Run `foldb` as `python -m foldb`."""

from .cli import run

run()
