"""The parts that commands share: the session, the client, input, output and errors."""
