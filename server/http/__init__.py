"""The subset of HTTP/1.1 that the API needs, from bytes to requests and from answers to bytes.

listener.py accepts connections; protocol.py handles one connection; request_head.py and request_body.py parse requests;
response.py formats answers; request_log.py logs each request. api/dispatch.py handles the requests.
"""
