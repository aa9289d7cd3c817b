"""`foldb trigger`: subscriptions that call a target when items change."""
