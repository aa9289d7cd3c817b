"""The API: dispatch of requests to operations, and the request parsing that operations share."""
