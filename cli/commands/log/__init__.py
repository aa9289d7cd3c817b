"""`foldb log`: read, copy, back up and restore the log of a database."""
