#!/bin/sh
# A command: one process per batch, one change per line on stdin. Exit status 0 means that the batch is handled.
#
#     foldb trigger add journal --table Orders --run ./journal.sh
#
# The lines are appended to journal.jsonl beside this file, or to the file that JOURNAL=... in the file .env names.
exec cat >> "${JOURNAL:-$(dirname "$0")/journal.jsonl}"
