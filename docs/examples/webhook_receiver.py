"""Receive webhooks, verify their signatures and print them.

foldb serve --webhooks 127.0.0.1
python docs/examples/webhook_receiver.py
foldb trigger add orders --table Orders --webhook http://127.0.0.1:9000/ --sink @webhook.json

webhook.json is {"Secrets": ["whsec_dGhlIHNlY3JldCBvZiBvcmRlcnMsIDAwMQ=="]}, the secret that both sides share.
"""

import base64
import hmac
import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

SECRET = base64.b64decode("dGhlIHNlY3JldCBvZiBvcmRlcnMsIDAwMQ==")


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"] or 0))
        signed = f"{self.headers['webhook-id']}.{self.headers['webhook-timestamp']}.".encode() + body
        expected = b"v1," + base64.b64encode(hmac.digest(SECRET, signed, "sha256"))
        signatures = (self.headers["webhook-signature"] or "").encode().split()
        genuine = any(hmac.compare_digest(expected, each) for each in signatures)
        if genuine:
            event = json.loads(body)
            print(event["type"], json.dumps(event["data"]["new"]), flush=True)
        self.send_response(204 if genuine else 401)
        self.end_headers()

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    server = HTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 9000), Receiver)
    print(f"listening on {server.server_port}", flush=True)
    server.serve_forever()
