"""A server that speaks as ours does, keeps what it is told, and has what troubles a script says."""

import json
import socket
import threading
from collections import deque
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LOST = "the event is taken, and the connection lost before the answer"
CLOSED = "the connection is lost before the event is read"
SLOW = "no answer comes"


class Request(tuple):
    """Method, path, headers and body of one request."""

    method, path, headers, body = (property(lambda self, at=at: self[at]) for at in range(4))


class Fake(ThreadingHTTPServer):
    """Takes events once by their ids; `troubles` happen to requests in turn, None is none."""

    daemon_threads = True

    def __init__(self, handler):
        super().__init__(("127.0.0.1", 0), handler)
        self.released = threading.Event()
        self.troubles = deque()
        self.requests = []
        self.connections = 0
        self.learned = {}
        self.lock = threading.Lock()
        self.open = set()
        self.answer = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    def hang_up(self):
        """Close all connections that are kept."""
        for connection in list(self.open):
            with suppress(OSError):  # it may have gone by itself
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request, client_address):
        pass  # a client that has gone


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self):
        super().setup()
        self.server.connections += 1
        self.server.open.add(self.connection)

    def finish(self):
        self.server.open.discard(self.connection)
        super().finish()

    def handle_any(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with self.server.lock:
            trouble = self.server.troubles.popleft() if self.server.troubles else None
            if trouble == CLOSED:
                self.close_connection = True
                return
            self.server.requests.append(Request((self.command, self.path, self.headers, body)))
            status, answer, headers = 200, self.take(body), {}
        if trouble == LOST:
            self.close_connection = True
            return
        if trouble == SLOW:
            self.server.released.wait(10.0)
            self.close_connection = True
            return
        if trouble is not None:
            status, headers, answer = trouble
        content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_DELETE = handle_any

    def take(self, body):
        if self.server.answer is not None:
            return self.server.answer
        question = json.loads(body or b"{}")
        key = question.get("id") or self.headers.get("Idempotency-Key")
        if self.path.endswith("/learn"):
            known = key in self.server.learned
            self.server.learned.setdefault(key, question)
            rows = len(question.get("rows", [0]))
            return {"learned": rows, "duplicate": known, "sequence": len(self.server.learned)}
        if self.path.endswith("/predict"):
            if "rows" in question:
                return {"predictions": ["yes"] * len(question["rows"])}
            return {"prediction": "yes"}
        return {"path": self.path}

    def log_message(self, *_):
        pass


@contextmanager
def running(handler=Handler):
    server = Fake(handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        server.shutdown()
        thread.join()
        server.hang_up()
        server.server_close()
