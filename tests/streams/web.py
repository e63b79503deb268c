"""A server of files with ranges and ETags, that can be told to misbehave."""

import email.utils
import functools
import hashlib
import re
import threading
import time
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Site:
    """Files by their names.

    Attributes
    ----------
    ranges : does the server know ranges?
    tags : does it say ETags? "weak" ones?
    modified : does it say when files were modified?
    lengths : does it say how long files are?
    announced : how long files are according to HEAD; None for the truth
    obeys : does it answer 412 where an ETag is not the one of If-Match?
    changes : what the files become before each of the next requests of content; None for no change
    troubles : for the next requests of content: a status, "cut" to break off halfway, or
        "silence" for half a second
    asked : (method, first byte or None) of each request
    conditions : what If-Match said, in each request of content
    """

    def __init__(self):
        self.files = {}
        self.behave()
        self.lock = threading.Lock()

    def behave(self):
        self.ranges = self.tags = self.lengths = self.obeys = True
        self.modified, self.announced = False, None
        self.troubles, self.changes = [], []
        self.asked, self.conditions = [], []

    def url(self, name):
        return f"http://127.0.0.1:{self.port}/{name}"

    def bytes_asked_for(self):
        """First bytes of all ranges."""
        return [at for method, at in self.asked if method == "GET"]


@functools.lru_cache
def tag(content):
    return f'"{hashlib.sha256(content).hexdigest()[:16]}"'


@functools.lru_cache
def modified(content):
    """A time for each content."""
    seconds = int(hashlib.sha256(content).hexdigest()[:6], 16)
    return email.utils.formatdate(seconds, usegmt=True)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and content come without a pause between them

    def log_message(self, *_):
        pass

    def handle(self):
        with suppress(ConnectionError):  # who asked has heard enough
            super().handle()

    def do_HEAD(self):
        self.answer(None)

    def do_GET(self):
        site = self.server.site
        with site.lock:
            trouble = site.troubles.pop(0) if site.troubles else None
            if site.changes and (files := site.changes.pop(0)) is not None:
                site.files = dict(files)
            site.conditions.append(self.headers.get("If-Match"))
        self.answer(trouble)

    def answer(self, trouble):
        site = self.server.site
        content = site.files.get(self.path[1:].partition("?")[0])
        range_ = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        with site.lock:
            site.asked.append((self.command, int(range_[1]) if range_ else None))
        if content is None or isinstance(trouble, int):
            self.refuse(trouble if isinstance(trouble, int) else 404)
            return
        size, wanted = len(content), self.headers.get("If-Match")
        if site.obeys and site.tags and wanted not in (None, self.tag(content)):
            self.refuse(412)
            return
        if range_ and site.ranges and int(range_[1]) >= size:
            self.refuse(416, ("Content-Range", f"bytes */{size}"))
            return
        if range_ and site.ranges:
            begin, end = int(range_[1]), min(int(range_[2] or size - 1) + 1, size)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{size}")
            part = content[begin:end]
        else:
            self.send_response(200)
            part = content
        if site.tags:
            self.send_header("ETag", self.tag(content))
        if site.modified:
            self.send_header("Last-Modified", modified(content))
        if self.command == "HEAD" and site.announced is not None:
            self.send_header("Content-Length", str(site.announced))
        elif site.lengths:
            self.send_header("Content-Length", str(len(part)))
        else:
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        if self.command == "GET":
            time.sleep(0.5 if trouble == "silence" else 0.0)
            self.wfile.write(part[: len(part) // 2] if trouble == "cut" else part)
            if trouble == "cut":
                self.close_connection = True

    def tag(self, content):
        return f"W/{tag(content)}" if self.server.site.tags == "weak" else tag(content)

    def refuse(self, status, *headers):
        self.send_response(status)
        for name, value in (("Content-Length", "0"), *headers):
            self.send_header(name, value)
        self.end_headers()


@contextmanager
def a_site():
    """A site, served by another thread."""
    site = Site()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.site, site.port = site, server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
