"""The command line: `foldb` and its commands, a thin client of a server, and the sample data."""
