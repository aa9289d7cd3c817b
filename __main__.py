"""`python -m foldb` is `foldb`."""

from .cli import run

run()
