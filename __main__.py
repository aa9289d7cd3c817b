"""`python -m foldb` is `foldb`."""

from .cli.main import run

run()
