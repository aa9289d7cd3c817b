#!/bin/sh
# A command: one process a batch, a change a line on stdin. Exit status 0 says that all of it is handled.
#
#     foldb trigger add journal --table Orders --run ./journal.sh
#
# The lines are added to journal.jsonl beside this file, unless a line JOURNAL=... in the file .env there names another.
exec cat >> "${JOURNAL:-$(dirname "$0")/journal.jsonl}"
