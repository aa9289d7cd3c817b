"""HTTP, as much of it as the API needs: bytes to requests, answers to bytes.

listener.py accepts, protocol.py is one connection, heads.py and bodies.py read what comes in, answers.py writes what
goes out. request_log.py writes a line about each request. What a request means is dispatch.py's.
"""
