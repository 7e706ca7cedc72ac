"""A server of S3 with a proxy before it, which lets chosen requests fail."""

import http.client
import itertools
import os
import random
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from unittest import mock

from tests import brokers

BUCKET = "estimates"
SECRET = "a-key-that-no-message-has"  # noqa: S105 - of a server in this process
FAULTS = ("500", "503", "expired", "lost", "cut", "tag")
"""500 and 503 with Retry-After, an expired credential, an answer that never comes after the store has accepted, an
answer that is cut off, and a wrong ETag."""
EXPIRY = b"<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"
_NUMBERS = itertools.count()
HEADERS = ("authorization", "content-type", "content-length", "if-none-match", "if-match", "range")


class Proxy(ThreadingHTTPServer):
    """A proxy before a server. `choose` names the fault of a request by its method and path, or None."""

    daemon_threads = True

    def __init__(self, server, choose=lambda method, path: None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.server_of_store = server
        self.choose = choose
        self.requests = 0
        self.faults = Counter()
        self.is_conditional = True
        Thread(target=self.serve_forever, daemon=True).start()

    def environment(self):
        """Return the variables with which a process finds the store behind this proxy."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.server_address[1]}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "somebody",
            "AWS_SECRET_ACCESS_KEY": SECRET,
        }

    def handle_error(self, request, client_address):
        """Pass over clients that have gone."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self._pass_on()

    do_PUT = do_POST = do_DELETE = do_HEAD = do_GET

    def log_message(self, *_):
        pass

    def _pass_on(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.requests += 1
        fault = self.server.choose(self.command, self.path)
        self.server.faults[fault] += 1
        if fault in ("500", "503"):
            return self._answer(int(fault), {"Retry-After": "1"}, b"")
        if fault == "expired":
            return self._answer(403, {}, EXPIRY)

        status, headers, content = self._ask(body)
        if fault == "lost":
            self.close_connection = True
            return None
        if fault == "tag" and "ETag" in headers:
            headers["ETag"] = '"no version of anything"'
        return self._answer(status, headers, content, is_cut=fault == "cut")

    def _ask(self, body):
        headers = {name: text for name, text in self.headers.items() if name.lower() in HEADERS}
        if not self.server.is_conditional:
            headers = {name: text for name, text in headers.items() if not name.lower().startswith("if-")}
        connection = http.client.HTTPConnection(*self.server.server_of_store, timeout=60)
        try:
            connection.request(self.command, self.path, body, headers)
            answer = connection.getresponse()
            names = ("ETag", "Last-Modified", "Content-Type", "Content-Range", "Accept-Ranges")
            copies = {name: answer.headers[name] for name in names if name in answer.headers}
            return answer.status, copies, answer.read()
        finally:
            connection.close()

    def _answer(self, status, headers, content, *, is_cut=False):
        self.send_response(status)
        for name, text in headers.items():
            self.send_header(name, text)
        # An answer without a body is cut too: the client waits for a byte that never comes.
        length = max(1, len(content)) if is_cut else len(content)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        if is_cut:
            self.close_connection = True
            content = content[: len(content) // 2]
        if self.command != "HEAD":
            self.wfile.write(content)


def random_faults(seed, share):
    """Return a choice that lets a share of all requests fail, with each fault in turn."""
    rng = random.Random(seed)
    faults = itertools.cycle(FAULTS)
    return lambda method, path: next(faults) if rng.random() < share else None


def unused_address():
    """Return the address of a part of the bucket that no other test uses."""
    return f"s3://{BUCKET}/{next(_NUMBERS)}/prefix"


@contextmanager
def s3():
    """Run moto's server with an empty bucket, and yield its address."""
    try:
        from moto.server import ThreadedMotoServer
    except ImportError as error:
        brokers.skip(error)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        address = server.get_host_and_port()
        connection = http.client.HTTPConnection(*address)
        connection.request("PUT", f"/{BUCKET}")
        assert connection.getresponse().status == 200
        connection.close()
        yield address
    finally:
        server.stop()


@contextmanager
def proxied(server, choose=lambda method, path: None):
    """Yield a proxy before a server, whose variables this process has meanwhile."""
    proxy = Proxy(server, choose)
    try:
        with mock.patch.dict(os.environ, proxy.environment()):
            yield proxy
    finally:
        proxy.shutdown()
        proxy.server_close()
