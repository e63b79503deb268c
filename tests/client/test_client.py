"""The client: what it sends, and what it does when the server or the network has troubles."""

import json
import pickle
import subprocess
import sys
import threading
import time
from datetime import datetime, timezone
from email.utils import format_datetime

import numpy as np
import pytest
from client.server import CLOSED, LOST, SLOW, running

import maxmargin
from maxmargin import client as module
from maxmargin.client import Client, Refused, ServeError, Unavailable, new_id

BUSY = (503, {"Retry-After": "0.05"}, {"error": "The disk is full."})
MANY = (429, {}, {"error": "Too many events."})


@pytest.fixture
def server():
    with running() as server:
        yield server


@pytest.fixture
def client(server, monkeypatch):
    monkeypatch.setattr(module, "FIRST_WAIT", 0.001)
    with Client(server.url) as client:
        yield client


def sent(server):
    return [json.loads(request.body) for request in server.requests]


# ------------------------------------------------------------------------------------------- rows
def test_one_row(server, client):
    assert client.learn({"clicks": 3}, "buys")["learned"] == 1
    assert client.learn([1.0, 2.0], 1, weights=2.0, id="mine")["learned"] == 1
    assert client.predict({"clicks": 2}) == "yes"
    first, second, third = sent(server)
    assert (first["row"], first["label"], len(first["id"])) == ({"clicks": 3}, "buys", 32)
    assert second == {"row": [1.0, 2.0], "label": 1, "weight": 2.0, "id": "mine"}
    assert third == {"row": {"clicks": 2}}


def test_many_rows(server, client):
    answer = client.learn([{"a": 1}, {"a": 2}], ["x", "y"], weights=[1, 2])
    assert answer["learned"] == 2
    assert client.predict([[1, 2], [3, 4]], id=["p", "q"]) == ["yes", "yes"]
    learned, asked = sent(server)
    assert learned.pop("id")
    assert learned == {"rows": [{"a": 1}, {"a": 2}], "labels": ["x", "y"], "weights": [1, 2]}
    assert asked == {"rows": [[1, 2], [3, 4]], "ids": ["p", "q"]}


def test_arrays_and_frames(server, client):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    pyarrow = pytest.importorskip("pyarrow")
    X = np.array([[1.5, 2.0], [3.0, 4.0]], dtype=np.float32)
    columns = {"n": [1.5, None], "day": [datetime(2024, 5, 6), None], "w": ["a", None]}
    frame = pandas.DataFrame(columns)
    client.learn(X, np.array([0, 1]))
    client.learn(X[0], np.int64(1))
    client.learn(list(X), pandas.Series([True, False]))
    client.learn(frame, frame["w"].fillna("b"), weights=np.ones(2))
    client.learn(frame.iloc[0], "a")
    client.learn(pandas.DataFrame({"n": pandas.array([1, None], dtype="Int64")}), [0, 1])
    client.learn(polars.DataFrame(columns), polars.Series([0, 1]))
    client.learn(pyarrow.table(columns), pyarrow.array([0, 1]))
    client.learn({"n": np.float32(1.5), "list": np.arange(2)}, np.str_("a"))
    rows = [question.get("rows", question.get("row")) for question in sent(server)]
    full = {"n": 1.5, "day": "2024-05-06T00:00:00", "w": "a"}
    nothing = dict.fromkeys(full)
    numbers = [[1.5, 2.0], [3.0, 4.0]]
    assert rows[:3] == [numbers, numbers[0], numbers]
    assert rows[3:5] == [[full, nothing], full]
    assert rows[5] == [{"n": 1}, {"n": None}]
    assert rows[6:] == [[full, nothing], [full, nothing], {"n": 1.5, "list": [0, 1]}]
    labels = [question.get("labels", question.get("label")) for question in sent(server)]
    assert labels[:5] == [[0, 1], 1, [True, False], ["a", "b"], "a"]


@pytest.mark.parametrize(
    ("rows", "labels", "error", "message"),
    [
        ([[1.0], [2.0]], [1], ValueError, "labels: expected 2 values, one for each row, got 1"),
        ([[1.0], [2.0]], "ab", TypeError, "one value for each row, got str"),
        ([1.0, float("nan")], 1, ValueError, "NaN or infinite"),
        ([np.inf], 1, ValueError, "NaN or infinite"),
        (iter([[1.0]]), [1], TypeError, "not list_iterator"),
        ("words", 1, TypeError, "not str"),
        (np.zeros((1, 1, 1)), 1, ValueError, "not of 3"),
        ([object()], 1, TypeError, "type object cannot be sent as JSON"),
    ],
)
def test_what_cannot_be_sent_is_not_sent(server, client, rows, labels, error, message):
    with pytest.raises(error, match=message):
        client.learn(rows, labels)
    assert not server.requests


def test_sparse_rows_are_to_be_dicts(client):
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(TypeError, match="send sparse rows as dicts"):
        client.predict(sparse.eye(2))


# ------------------------------------------------------------------------------------ other calls
def test_labels(server, client):
    client.label("p", "yes")
    client.label(["p", "q"], ["yes", "no"], weights=[1.0, 2.0])
    client.label(np.array(["p"]), [1])
    one, two, three = sent(server)
    assert one == {"id": "p", "label": "yes"}
    assert two["labels"] == [
        {"id": "p", "label": "yes", "weight": 1.0},
        {"id": "q", "label": "no", "weight": 2.0},
    ]
    assert three == {"labels": [{"id": "p", "label": 1}]}
    with pytest.raises(ValueError, match="label: expected 2 values, one for each row, got 1"):
        client.label(["p", "q"], ["yes"])


def test_prediction_sets(server):
    with Client(server.url) as client:
        server.answer = {"prediction": "a", "set": ["a", "b"]}
        assert client.predict_set({"x": 1}) == ["a", "b"]
        server.answer = {"predictions": ["a", "b"], "sets": [["a"], []]}
        assert client.predict_set([{"x": 1}, {"x": 2}]) == [["a"], []]
        server.answer = {"prediction": "a"}
        with pytest.raises(ServeError, match="set"):
            client.predict_set({"x": 1})
    one, two, _ = (json.loads(request.body) for request in server.requests)
    assert one == {"row": {"x": 1}, "set": True}
    assert two == {"rows": [{"x": 1}, {"x": 2}], "set": True}


def test_models_and_shadows_by_name(server):
    with Client(f"{server.url}/below/", model="a b/c", token="secret") as client:
        client.add_shadow("s", "NORMA", rate=0.1)
        client.remove_shadow("s/t")
        client.promote("s")
        assert client.model()["path"] == "/below/models/a%20b%2Fc/model"
        server.answer = {"models": [{"name": "a"}]}
        assert client.models() == [{"name": "a"}]
        server.answer = {"scores": {"a": 1.0}, "probabilities": {"a": 0.5}}
        assert client.decision_function([1]) == {"a": 1.0}
        assert client.predict_proba([1]) == {"a": 0.5}
        server.answer = b"events 1\n"
        assert client.metrics() == "events 1\n"
    below = "/below/models/a%20b%2Fc"
    assert [(request.method, request.path) for request in server.requests] == [
        ("POST", f"{below}/shadows"),
        ("DELETE", f"{below}/shadows/s%2Ft"),
        ("POST", f"{below}/promote"),
        ("GET", f"{below}/model"),
        ("GET", "/below/models"),
        ("POST", f"{below}/predict"),
        ("POST", f"{below}/predict"),
        ("GET", "/below/metrics"),
    ]
    assert sent_first(server) == {"name": "s", "algorithm": "NORMA", "parameters": {"rate": 0.1}}
    assert all(request.headers["Authorization"] == "Bearer secret" for request in server.requests)


def sent_first(server):
    return json.loads(server.requests[0].body)


def test_a_file_is_written_whole_or_not_at_all(server, client, tmp_path):
    path = tmp_path / "model.mm"
    path.write_text("before")
    server.troubles.append((404, {}, {"error": "No such model."}))
    with pytest.raises(Refused, match="No such model"):
        client.download(path)
    assert path.read_text() == "before"
    server.answer = b"\x00model"
    client.download(path)
    assert path.read_bytes() == b"\x00model"
    assert list(tmp_path.iterdir()) == [path]


def test_health_is_asked_once(server, client):
    server.troubles += [BUSY]
    assert not client.is_ready()
    assert client.is_ready()
    assert len(server.requests) == 2


# ---------------------------------------------------------------------------------------- troubles
def test_connections_are_kept(server, client):
    for _ in range(5):
        client.predict([1])
    assert server.connections == 1


@pytest.mark.parametrize(
    "troubles",
    [[LOST], [CLOSED], [LOST, CLOSED, LOST], [BUSY], [MANY], [MANY, LOST, BUSY]],
    ids=lambda troubles: f"{len(troubles)}",
)
def test_events_are_learned_once(server, client, troubles):
    server.troubles += troubles
    client.learn([1.0], 1)
    client.learn([2.0], 1)
    keys = {question["id"] for question in sent(server)}
    assert len(keys) == 2
    assert keys == set(server.learned)


def test_promotions_are_repeated_by_the_same_key(server, client):
    server.troubles += [LOST, BUSY]
    client.promote("s")
    assert len(server.requests) == 3
    assert len({request.headers["Idempotency-Key"] for request in server.requests}) == 1


def test_a_connection_that_the_server_closed_meanwhile_is_no_failure(server):
    with Client(server.url, retries=0) as client:
        client.predict([1])
        server.hang_up()
        assert client.predict([1]) == "yes"
    assert server.connections == 2


def test_the_server_says_how_long_to_wait(server, client):
    server.troubles.append((429, {"Retry-After": "0.3"}, {"error": "Too many events."}))
    before = time.monotonic()
    client.predict([1])
    assert time.monotonic() - before >= 0.3


@pytest.mark.parametrize(
    "patience", ["3600", format_datetime(datetime(2999, 1, 1, tzinfo=timezone.utc), usegmt=True)]
)
def test_nobody_waits_for_hours(server, client, patience):
    server.troubles.append((503, {"Retry-After": patience}, {"error": "The disk is full."}))
    with pytest.raises(Unavailable, match="The disk is full") as caught:
        client.learn([1], 1)
    assert caught.value.status == 503


@pytest.mark.parametrize("patience", ["soon", "Thu, 01 Jan 1970 00:00:00 GMT", "-1"])
def test_a_wait_that_is_over_or_nonsense_is_none(server, client, patience):
    server.troubles.append((503, {"Retry-After": patience}, b"not even JSON"))
    assert client.predict([1]) == "yes"


def test_it_gives_up_in_the_end(server, monkeypatch):
    monkeypatch.setattr(module, "FIRST_WAIT", 0.001)
    server.troubles += 4 * [MANY]
    with Client(server.url, retries=3) as client:
        with pytest.raises(Unavailable, match="Too many events") as caught:
            client.predict([1])
        assert (caught.value.status, len(server.requests)) == (429, 4)
        server.troubles += 5 * [LOST]  # of the connection that was kept, and of four new ones
        with pytest.raises(Unavailable, match="closed connection") as caught:
            client.predict([1])
        assert caught.value.status is None


def test_a_server_that_says_nothing(server):
    server.troubles.append(SLOW)
    with Client(server.url, timeout=0.1, retries=0) as client:
        with pytest.raises(Unavailable, match="timed out"):
            client.predict([1])
        assert client.predict([1]) == "yes"


def test_nobody_there(server):
    url = server.url
    server.shutdown()
    server.server_close()
    with Client(url, retries=0) as client:
        assert not client.is_ready()
        with pytest.raises(Unavailable, match="refused"):
            client.predict([1])


@pytest.mark.parametrize("status", [400, 401, 404, 409, 413, 422])
def test_what_is_refused_is_not_tried_again(server, client, status):
    server.troubles.append((status, {}, {"error": 'Row 3: column "age" is NaN.'}))
    with pytest.raises(Refused, match=r'^Row 3: column "age" is NaN\. \(status \d+\)$') as caught:
        client.learn([1], 1)
    assert caught.value.status == status
    assert caught.value.reason == 'Row 3: column "age" is NaN.'
    assert len(server.requests) == 1
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again), again.status) == (Refused, str(caught.value), status)


@pytest.mark.parametrize("content", [b"<html>", b"[]", b"null", b"\xff", b'{"error": 1}', b""])
def test_refusals_of_others_than_our_server(server, client, content):
    server.troubles.append((404, {}, content))
    with pytest.raises(Refused, match="404") as caught:
        client.predict([1])
    assert caught.value.reason
    server.answer = b"<html>"
    with pytest.raises(ServeError, match="not a maxmargin server"):
        client.model()


# ------------------------------------------------------------------------------------------ threads
def test_threads_have_connections_of_their_own(server, client):
    def learn(number):
        for at in range(20):
            client.learn([float(number), float(at)], 1)

    threads = [threading.Thread(target=learn, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rows = {tuple(question["row"]) for question in server.learned.values()}
    assert len(rows) == len(server.learned) == 160
    assert server.connections == 8


def test_a_client_that_is_closed_stays_closed(server):
    with Client(server.url) as client:
        client.predict([1])
    for call in (client.model, client.is_ready):
        with pytest.raises(ValueError, match="closed"):
            call()


def test_closing_ends_the_waiting(server):
    server.troubles += [(503, {"Retry-After": "30"}, {"error": "Stopping."})]
    client = Client(server.url)
    threading.Timer(0.1, client.close).start()
    with pytest.raises(Unavailable, match="Stopping"):
        client.predict([1])


def test_closing_ends_requests_of_others(server):
    server.troubles.append(SLOW)
    client = Client(server.url)
    threading.Timer(0.2, client.close).start()
    with pytest.raises(Unavailable, match="closed connection"):
        client.predict([1])


# ------------------------------------------------------------------------------------- construction
@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("127.0.0.1:8765", {}),
        ("ftp://host", {}),
        ("http://", {}),
        ("http://me:secret@host", {}),
        ("http://host?token=secret", {}),
        ("http://host:secret", {}),
        ("http://host:65536", {}),
        ("http://host", {"token": "secret€"}),
        ("http://host", {"token": "secret\n"}),
        ("http://host", {"timeout": 0.0}),
        ("http://host", {"retries": -1}),
    ],
)
def test_bad_parameters(url, options):
    with pytest.raises(ValueError, match="must") as caught:
        Client(url, **options)
    assert "secret" not in str(caught.value)


def test_ids_differ():
    assert len({new_id() for _ in range(100)}) == 100


def test_nothing_large_is_imported():
    program = "import sys, maxmargin.client\n"
    program += (
        "print({'numpy', 'scipy', 'sklearn', 'numba', 'pandas', 'starlette'} & {*sys.modules})"
    )
    command = [sys.executable, "-c", program]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "set()\n"
    assert maxmargin.client is module
