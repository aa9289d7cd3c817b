"""The change feed: what the fold's outcomes changed. Shards, iterators and subscriptions will read it from here."""
