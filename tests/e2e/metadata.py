# SPDX-License-Identifier: Apache-2.0
"""Metadata servers of clouds on 127.0.0.1: they answer, hold an answer back, hang, refuse and lie."""

import contextlib
import http.server
import json
import socket
import threading

from harness import PATIENCE, Unmet


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle_one_request(self):
        with contextlib.suppress(ConnectionError):
            super().handle_one_request()

    def _serve(self):
        self.server.cloud.took(self)

    do_GET = do_PUT = _serve

    def give(self, status, body="", **headers):
        data = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass  # whoever asked has gone


class Cloud:
    """A server that answers as self.answer(handler, path) says, and remembers who asked what."""

    def __init__(self, answer=None):
        self.changed = threading.Condition()
        self.closed = False
        self.requests = []  # (method, path, headers)
        if answer:
            self.answer = lambda h, path: answer(self, h, path)
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.cloud = self
        self.address = f"127.0.0.1:{self.server.server_address[1]}"
        self.url = f"http://{self.address}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()

    def close(self):
        with self.changed:
            self.closed = True
            self.changed.notify_all()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def took(self, handler):
        with self.changed:
            self.requests.append((handler.command, handler.path, dict(handler.headers)))
            self.changed.notify_all()
        self.answer(handler, handler.path)

    def wait(self, condition, what):
        with self.changed:
            if not self.changed.wait_for(condition, PATIENCE):
                raise Unmet(f"not in {PATIENCE} s: {what}; asked were {self.requests[-5:]}")

    def wait_asked(self, text, count=1):
        """Until so many requests have had text in their paths."""
        self.wait(lambda: len(self.asked(text)) >= count, f"{count} requests for {text}")

    def asked(self, text=""):
        return [r for r in self.requests if text in r[1]]

    def set(self, **values):
        with self.changed:
            self.__dict__.update(values)
            self.changed.notify_all()

    def hold(self, until=lambda: False, seconds=None):
        """Holds an answer back until that is so, the time is over, or the server is closed: then True is
        returned."""
        with self.changed:
            self.changed.wait_for(lambda: self.closed or until(), seconds)
            return self.closed


class Gce(Cloud):
    maintenance, preempted, etag = "NONE", "FALSE", 1

    def value(self, path):
        return self.preempted if "/preempted" in path else self.maintenance

    def answer(self, handler, path):
        if handler.headers.get("Metadata-Flavor") != "Google":
            handler.give(403)
            return
        if path.endswith("/instance/id"):
            handler.give(200, "4711", Metadata_Flavor="Google")
            return
        before = self.value(path)
        if "wait_for_change=true" in path and f"last_etag={before.encode().hex()}" in path:
            limit = int(path.partition("timeout_sec=")[2])
            if self.hold(lambda: self.value(path) != before, limit):
                return
        value = self.value(path)
        handler.give(200, value, Metadata_Flavor="Google", ETag=value.encode().hex())


class Aws(Cloud):
    action = rebalance = None
    token = "dG9rZW4="

    def answer(self, handler, path):
        if path == "/latest/api/token":
            if handler.command == "PUT" and "X-aws-ec2-metadata-token-ttl-seconds" in handler.headers:
                handler.give(200, self.token)
            else:
                handler.give(400)
        elif handler.headers.get("X-aws-ec2-metadata-token") != self.token:
            handler.give(401)
        else:
            value = {"/latest/meta-data/spot/instance-action": self.action,
                     "/latest/meta-data/events/recommendations/rebalance": self.rebalance}.get(path)
            if value:
                handler.give(200, json.dumps(value))
            else:
                handler.give(404, "<html>not found</html>")


class Azure(Cloud):
    name, events = "trainer_3", ()

    def answer(self, handler, path):
        if handler.headers.get("Metadata") != "true":
            handler.give(400)
        elif path.startswith("/metadata/instance/compute/name?"):
            handler.give(200, self.name)
        elif path == "/metadata/scheduledevents?api-version=2020-07-01":
            handler.give(200, json.dumps({"DocumentIncarnation": 1, "Events": list(self.events)}))
        else:
            handler.give(404)


class Nobody:
    """An address where every connection is refused, for as long as this is open."""

    def __init__(self):
        self.sock = socket.socket()
        self.sock.bind(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.sock.getsockname()[1]}"

    def close(self):
        self.sock.close()
