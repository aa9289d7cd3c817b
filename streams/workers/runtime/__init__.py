"""The code that runs in a worker. It imports few modules, so that a worker starts fast, and none of the server's."""
