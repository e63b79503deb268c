"""The client: against the real server, and against one that loses requests and answers."""

import json
import pickle
import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from maxmargin import AMIRA, load
from maxmargin.client import Client, Refused, ServeError, Unavailable, new_id

CLASSES = ["no", "yes"]


@pytest.fixture
def real(tmp_path):
    for package in ("starlette", "uvicorn", "msgspec"):
        pytest.importorskip(package)
    from serve.test_page import served

    with served(tmp_path / "data", AMIRA(), CLASSES) as url, Client(url) as client:
        yield client


def test_it_learns_predicts_and_reports(real, tmp_path):
    assert real.is_ready()
    assert real.learn({"a": 3, "b": "x"}, "yes")["learned"] == 1
    rows = [{"a": 1, "b": "y"}, {"a": 4, "b": "x"}]
    assert real.learn(rows, ["no", "yes"], weights=[1, 2], id="e")["learned"] == 2
    assert real.learn(rows, ["no", "yes"], id="e")["duplicate"]
    assert real.predict(rows) == ["no", "yes"]
    assert real.predict(rows[0]) == "no"
    assert set(real.decision_function(rows[0])) == set(CLASSES)
    assert [list(each) for each in real.decision_function(rows)] == [CLASSES] * 2
    assert set(real.explain(rows[0])) == {"a", "b"}
    assert [set(each) for each in real.explain(rows)] == [{"a", "b"}] * 2
    assert real.predict(rows[1], id="v") == "yes"
    assert real.predict(rows, id=["v1", "v2"]) == ["no", "yes"]
    assert real.label("v", "yes") == {"learned": 1, "duplicate": False, "sequence": 3}
    assert real.label(["v1", "v2"], ["no", "yes"], weights=[1, 1])["learned"] == 2
    assert real.model()["answers"] == 3
    real.download(tmp_path / "model.mm")
    assert load(tmp_path / "model.mm").predict_one(rows[1]) == "yes"
    for call, status in (
        (lambda: real.learn(rows[0], "maybe"), 422),
        (lambda: real.label("unknown", "no"), 404),
        (lambda: real.predict_proba(rows), 422),
        (lambda: real.predict_set(rows[0]), 422),
    ):
        with pytest.raises(Refused) as refused:
            call()
        assert refused.value.status == status


def test_rows_of_all_kinds(real):
    X = np.array([[1.0, 2.0], [3.0, 4.0]])
    y = np.array(["no", "yes"])
    assert real.learn(X, y)["learned"] == 2
    assert real.predict(X[0]) == real.predict([1.0, 2.0]) == real.predict((1.0, 2.0))
    assert real.predict(X) == real.predict([X[0], X[1]]) == real.predict(X.tolist())
    with pytest.raises(ValueError, match="JSON"):
        real.predict([np.nan, 1.0])
    for odd in (3, "text", {1.0, 2.0}):
        with pytest.raises(TypeError, match="rows must be"):
            real.predict(odd)
    with pytest.raises(TypeError, match="cannot be sent"):
        real.predict({"a": object()})


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames(real, library):
    module = pytest.importorskip(library)
    columns = {"a": [1.0, 5.0, None], "b": ["x", "y", "x"]}
    frame = module.table(columns) if library == "pyarrow" else module.DataFrame(columns)
    assert real.learn(frame[:2], ["no", "yes"])["learned"] == 2
    assert real.predict(frame[:2]) == ["no", "yes"]
    with pytest.raises(Refused, match="a"):  # a missing value, without a recipe
        real.predict(frame)


def test_addresses_and_errors():
    for url in ("localhost:8765", "ftp://host", "http://"):
        with pytest.raises(ValueError, match="url must begin"):
            Client(url)
    error = pickle.loads(pickle.dumps(Refused(422, "no")))
    assert (str(error), error.status, error.reason) == ("no (status 422)", 422, "no")
    assert issubclass(Unavailable, ServeError)
    assert len(new_id()) == 32
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        client = Client(f"http://127.0.0.1:{free.getsockname()[1]}", retries=1)
        assert not client.is_ready()
        with pytest.raises(Unavailable) as unavailable:
            client.learn([1.0], "no")
        assert unavailable.value.status is None


# --------------------------------------------------------------------------------- a bad connection
class Lossy(BaseHTTPRequestHandler):
    """Learns each id once; `server.troubles` happen to requests in turn."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        trouble = self.server.troubles.pop(0) if self.server.troubles else None
        self.server.tokens.append(self.headers["Authorization"])
        again = body["id"] in self.server.learned
        if trouble is None or trouble == "lost after":
            self.server.learned.append(body["id"])
        if isinstance(trouble, str):
            self.close_connection = True
            return
        answer = {"learned": int(not again), "duplicate": again}
        content = json.dumps({"error": "busy"} if trouble else answer).encode()
        self.send_response(trouble or 200)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Retry-After", "0")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


@contextmanager
def lossy(*troubles):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Lossy)
    server.daemon_threads = True
    server.troubles, server.learned, server.tokens = list(troubles), [], []
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("trouble", ["lost before", "lost after", 429, 503, 507])
def test_what_is_lost_or_refused_for_now_is_sent_again_with_the_same_id(trouble):
    with lossy(trouble, trouble) as (server, url), Client(url, token="secret") as client:
        told = client.learn([1.0], "no", id="e")
    assert set(server.learned) == {"e"}
    assert told["duplicate"] == (trouble == "lost after")
    assert server.tokens == ["Bearer secret"] * 3


def test_it_gives_up_in_the_end():
    with lossy(*[503] * 9) as (_, url), Client(url, retries=2) as client:
        with pytest.raises(Unavailable) as unavailable:
            client.learn([1.0], "no")
        assert (unavailable.value.status, unavailable.value.reason) == (503, "busy")
    with lossy(400) as (_, url), Client(url) as client, pytest.raises(Refused, match="busy"):
        client.learn([1.0], "no")


def test_threads_share_a_client():
    with lossy() as (server, url), Client(url) as client:

        def teach():
            for _ in range(20):
                client.learn([1.0], "no")
            client.close()

        threads = [threading.Thread(target=teach) for _ in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert client.learn([1.0], "no")["learned"] == 1
    assert len(set(server.learned)) == 81
