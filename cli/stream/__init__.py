"""The change feed at a terminal: reading it (`stream`), what is called for it (`trigger`), what failed (`dlq`)."""
