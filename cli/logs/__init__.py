"""Logs as a command line names them (`places`), and what happened in them (`story`)."""
