"""Servers that are not ours, or mean harm: the client ends in time, in little memory."""

import gzip
import json
import socket
import threading
from contextlib import closing, contextmanager, suppress

import pytest

from maxmargin import client as module
from maxmargin.client import Client, Refused, Unavailable

OK = b"HTTP/1.1 200 OK\r\n"
BUFFERS = 2**25  # what systems take of a sender while nobody reads, at most


class Hostile:
    """Reads requests, and says what it is told to; `sent` counts its bytes."""

    def __init__(self, says):
        self.says, self.sent, self.requests = says, 0, []
        self.over = threading.Event()
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self.lines = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with suppress(OSError):
            while True:
                line, _ = self.socket.accept()
                self.lines.append(line)
                threading.Thread(target=self.talk, args=(line,), daemon=True).start()

    def talk(self, line):
        with closing(line), suppress(OSError):
            while not self.over.is_set():
                request = b""
                while b"\r\n\r\n" not in request:
                    if not (part := line.recv(2**16)):
                        return
                    request += part
                self.requests.append(request)
                for part in self.says(self):
                    line.sendall(part)
                    self.sent += len(part)

    def close(self):
        self.over.set()
        for line in (self.socket, *self.lines):
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)
            line.close()


@contextmanager
def hostile(says):
    server = Hostile(says)
    try:
        yield server
    finally:
        server.close()


@contextmanager
def facing(says, **options):
    """Such a server, and a client of it."""
    with hostile(says) as server, Client(server.url, **options) as client:
        yield server, client


def answering(body, *headers, status=b"200 OK"):
    """Says one whole answer to each request."""
    lines = [b"HTTP/1.1 " + status, b"Content-Length: %d" % len(body), *headers]
    return lambda server: [b"\r\n".join([*lines, b"", body])]


def endless(begin, part):
    def says(server):
        yield begin
        while not server.over.is_set():
            yield part

    return says


def dripping(begin, part, end, count=60):
    """So slowly that it takes seconds, but never long for one part."""

    def says(server):
        yield begin
        for _ in range(count):
            if server.over.wait(0.05):
                return
            yield part
        yield end

    return says


GOOD = b'{"prediction": "yes"}'
DRIPS = {
    "status": dripping(b"HTTP/1.1 200 O", b"K", b"\r\nContent-Length: 21\r\n\r\n" + GOOD),
    "headers": dripping(OK, b"x: y\r\n", b"Content-Length: 21\r\n\r\n" + GOOD),
    "body": dripping(OK + b"Content-Length: 81\r\n\r\n", b" ", GOOD),
    "chunks": dripping(
        OK + b"Transfer-Encoding: chunked\r\n\r\n",
        b"1\r\n \r\n",
        b"15\r\n" + GOOD + b"\r\n0\r\n\r\n",
    ),
    "trailers": dripping(
        OK + b"Transfer-Encoding: chunked\r\n\r\n15\r\n" + GOOD + b"\r\n0\r\n", b"x: y\r\n", b"\r\n"
    ),
    "not yet": dripping(
        b"", b"HTTP/1.1 100 Continue\r\n\r\n", OK + b"Content-Length: 21\r\n\r\n" + GOOD
    ),
}


@pytest.mark.parametrize("what", DRIPS)
def test_answers_that_come_in_drips_have_the_timeout_in_all(what):
    with (
        facing(DRIPS[what], timeout=0.5, retries=0) as (_, client),
        pytest.raises(Unavailable, match="timed out"),
    ):
        client.predict([1])


ENDLESS = {
    "length": endless(OK + b"Content-Length: 1000000000000\r\n\r\n", b" " * 2**16),
    "no length": endless(OK + b"\r\n", b" " * 2**16),
    "chunks": endless(
        OK + b"Transfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b" " * 2**16 + b"\r\n"
    ),
}


@pytest.mark.parametrize("what", ENDLESS)
def test_endless_bodies_are_not_read(what):
    with facing(ENDLESS[what], timeout=600.0, retries=0) as (server, client):
        with pytest.raises(Refused, match="not a maxmargin server: an answer of more than"):
            client.predict([1])
        assert server.sent < module.MOST_BYTES + BUFFERS


def test_endless_reasons_are_not_read():
    says = endless(
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 1000000000000\r\n\r\n", b"no " * 9999
    )
    with facing(says, timeout=600.0, retries=0) as (server, client):
        with pytest.raises(Refused, match=r"^no no .* \(status 404\)$") as caught:
            client.predict([1])
        assert len(caught.value.reason) <= module.MOST_LETTERS
        assert server.sent < module.MOST_REASON_BYTES + BUFFERS


@pytest.mark.parametrize("part", [b"x: y\r\n", b"x" * 1000])
def test_endless_headers_are_not_read(part):
    with facing(endless(OK, part), timeout=600.0, retries=0) as (server, client):
        with pytest.raises(Unavailable, match="more than"):
            client.predict([1])
        assert server.sent < BUFFERS


def test_a_file_is_not_kept_in_memory_and_must_say_its_length(tmp_path):
    path = tmp_path / "model.mm"
    part = bytes(2**20)

    def says(server):
        yield OK + b"Content-Length: %d\r\n\r\n" % (40 * len(part))
        for _ in range(40):
            yield part

    with facing(says, retries=0) as (_, client):
        largest = []
        read = module.http.client.HTTPResponse.read

        def noted(response, size=None):
            largest.append(size)
            return read(response, size)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module.http.client.HTTPResponse, "read", noted)
            client.download(path)
    assert path.stat().st_size == 40 * len(part)
    assert max(largest) <= len(part)
    before = path.read_bytes()
    short = b"Content-Length: 1000\r\n\r\nabc"
    for told, error, message in (
        (b"\r\nabc", Refused, "without Content-Length"),
        (
            b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            Refused,
            "without Content-Length",
        ),
        (short, Unavailable, "IncompleteRead"),
    ):

        def answers(server, told=told):
            yield OK + told
            raise ConnectionError

        with facing(answers, retries=0) as (_, client), pytest.raises(error, match=message):
            client.download(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed_and_the_token_goes_nowhere(status):
    with hostile(answering(GOOD)) as elsewhere:
        for target in (elsewhere.url, "", "/model"):  # another host, and loops
            location = b"Location: " + (target or "/").encode()
            says = answering(b"", location, status=b"%d Moved" % status)
            with facing(says, token="secret", retries=3) as (server, client):
                with pytest.raises(Refused, match=str(status)):
                    client.predict([1])
                with pytest.raises(Refused, match=str(status)):
                    client.model()
                assert not client.is_ready()
                assert len(server.requests) == 3
                assert all(b"secret" in request for request in server.requests)
        assert not elsewhere.requests


STRANGE = {
    "no JSON": b"<html>",
    "compressed": gzip.compress(b" " * 2**20),
    "a list": b"[1]",
    "a text": b'"prediction"',
    "null": b"null",
    "nothing": b"",
    "nested": b"[" * 10**6,
    "NaN": b'{"prediction": NaN}',
    "infinite": b'{"prediction": -Infinity}',
    "not UTF-8": b'{"prediction": "\xff"}',
    "a long number": b'{"prediction": ' + b"9" * 10**5 + b"}",
    "other fields": b'{"predicted": "yes"}',
}


@pytest.mark.parametrize("what", STRANGE)
def test_answers_of_another_kind_are_refused_with_words(what):
    headers = [b"Content-Encoding: gzip"] if what == "compressed" else []
    with facing(answering(STRANGE[what], *headers), retries=3) as (server, client):
        with pytest.raises(Refused, match="is not a maxmargin server"):
            client.predict([1])
        assert len(server.requests) == 1
        for call in (client.models, lambda: client.predict_proba([1])):
            with pytest.raises(Refused, match="is not a maxmargin server"):
                call()
        assert isinstance(client.metrics(), str)


@pytest.mark.parametrize("status", [101, 102, 103, 199])
def test_an_answer_before_the_answer_does_not_shift_those_that_follow(status):
    first = b"HTTP/1.1 %d Early\r\n\r\n" % status
    says = lambda server: [first + answering(GOOD)(server)[0]]  # noqa: E731
    with facing(says, retries=0) as (server, client):
        for _ in range(2):
            with pytest.raises(Refused, match="not a maxmargin server: an informational answer"):
                client.predict([1])
        assert not client.is_ready()
        assert len(server.lines) == 3  # none is used again


@pytest.mark.parametrize(
    "patience",
    [b"1e400", b"9" * 400, b"nan", b"Thu, 01 Jan 1970 00:00:00 +99999999999999", b"0 0 0 0 0 0"],
)
def test_a_wait_that_makes_no_sense(patience, monkeypatch):
    monkeypatch.setattr(module, "FIRST_WAIT", 0.001)
    body = json.dumps({"error": "busy"}).encode()
    says = answering(body, b"Retry-After: " + patience, status=b"503 Busy")
    with facing(says, retries=2) as (server, client):
        with pytest.raises(Unavailable, match="busy"):
            client.predict([1])
        assert len(server.requests) in (1, 3)  # too long to wait, or no time at all


def test_what_a_server_says_does_not_command_a_terminal():
    body = json.dumps({"error": "\x1b[2J\x07gone\nline"}).encode()
    with (
        facing(answering(body, status=b"400 Bad")) as (_, client),
        pytest.raises(Refused) as caught,
    ):
        client.predict([1])
    assert caught.value.reason == "[2J gone line"


def test_a_connection_is_as_patient_with_each_request():
    """What is left of the time of one request is not the time of the next."""
    says = dripping(OK + b"Content-Length: 27\r\n\r\n", b" ", GOOD, count=6)
    with facing(says, timeout=2.0, retries=0) as (server, client):
        for _ in range(8):
            assert client.predict([1]) == "yes"
        assert len(server.lines) == 1
