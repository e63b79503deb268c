"""The application: every answer that it can give, without a network."""

import asyncio
import datetime as dt
import decimal
import html
import json
import shutil
import threading

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("msgspec")
pytest.importorskip("pyarrow")

import pyarrow as pa

from maxmargin import AMIRA, PassiveAggressive, Perceptron, load, streams
from maxmargin.evaluate import progressive
from maxmargin.serve import Limits, arrow_tables, create_app, prediction_answers
from maxmargin.streams import Recipe

CLASSES = ["no", "yes"]
HOST = (b"host", b"127.0.0.1:8765")
JSON, NDJSON = "application/json", "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"


class Response:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, dict(headers), body

    def json(self):
        return json.loads(self.body)


def call(app, method, path, body=b"", kind=JSON, headers=(), query=b"", prefix="", parts=None):
    """One request, as a server would hand it over; ``parts`` are bodies, or None to wait."""
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    told = [HOST] if not any(name == b"host" for name, _ in headers) else []
    told += [(b"content-type", kind.encode())] if kind else []
    scope = {
        "type": "http",
        "method": method,
        "path": prefix + path,
        "root_path": prefix,
        "query_string": query,
        "headers": [*told, *headers],
    }
    left = [body] if parts is None else list(parts)
    sent = []

    async def receive():
        part = left.pop(0) if left else None
        if part is None:
            await asyncio.sleep(3600)
        return {"type": "http.request", "body": part, "more_body": bool(left)}

    async def send(message):
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return Response(sent[0]["status"], sent[0]["headers"], body)


def post(app, path, body, **options):
    return call(app, "POST", path, body, **options)


def get(app, path, **options):
    return call(app, "GET", path, **options)


def ready(app):
    app.wait(60.0)
    return app


@pytest.fixture
def app(tmp_path):
    app = ready(create_app(tmp_path, {"default": AMIRA()}, classes=CLASSES))
    yield app
    app.close()


def lines(*objects):
    return b"\n".join(json.dumps(each).encode() for each in objects)


def table_bytes(**columns):
    table, sink = pa.table(columns), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def test_rows_are_learned_predicted_and_labelled_in_json(app):
    one = post(app, "/learn", {"row": [1, 2.5], "label": "yes", "weight": 2, "id": "a"})
    assert (one.status, one.json()) == (200, {"learned": 1, "duplicate": False, "sequence": 1})
    header = [(b"idempotency-key", b"a")]
    again = post(app, "/learn", {"row": [1, 2.5], "label": "yes"}, headers=header)
    assert again.json() == {"learned": 0, "duplicate": True, "sequence": 1}
    several = {"rows": [[-1, 0], [2, 2]], "labels": ["no", "yes"], "weights": [1, 1], "id": "b"}
    assert post(app, "/models/default/learn", several).json()["learned"] == 2
    wanted = AMIRA(random_state=0).partial_fit(
        [[1, 2.5], [-1.0, 0], [2, 2]], ["yes", "no", "yes"], CLASSES, [2.0, 1, 1]
    )
    learner = app.default.model.live.learner
    assert np.array_equal(learner.coef_, wanted.coef_)
    score = wanted.decision_function([[1.0, 1.0]])[0]
    asked = {"row": [1, 1], "scores": True, "id": True}
    found = post(app, "/predict", asked).json()
    key = found.pop("id")
    assert found == {"prediction": "yes", "scores": {"no": -score, "yes": score}}
    found = post(app, "/predict", {"rows": [[1, 1], [-3, 0]], "ids": ["x", "y"]}).json()
    assert found == {"predictions": ["yes", "no"], "ids": ["x", "y"]}
    assert post(app, "/label", {"id": key, "label": "yes"}).json()["learned"] == 1
    both = {"labels": [{"id": "x", "label": "no"}, {"id": "y", "label": "no", "weight": 2}]}
    assert post(app, "/label", both).json() == {"learned": 2, "duplicates": 0, "sequence": 7}
    assert post(app, "/label", {"id": "x", "label": "yes"}).status == 409
    assert post(app, "/label", {"id": "z", "label": "yes"}).status == 404
    assert get(app, "/model").json()["rows"] == 6


def test_rows_are_learned_predicted_and_labelled_in_lines(app):
    rows = [{"row": {"age": 2.0, "town": "Ulm"}, "label": "yes", "id": "a"}]
    rows += [{"row": {"age": -1.0}, "label": "no"}, rows[0]]
    found = post(app, "/learn", lines(*rows) + b"\n\n", kind=NDJSON).json()
    assert found == {"learned": 2, "duplicates": 1, "sequence": 1}
    asked = lines({"row": {"age": 1.0}}, {"row": {"age": -9.0, "new": 1}, "id": "q"})
    found = post(app, "/predict", asked, kind=NDJSON)
    assert found.headers[b"content-type"] == NDJSON.encode()
    first, second = map(json.loads, found.body.splitlines())
    assert (first, second) == ({"prediction": "yes"}, {"prediction": "no", "id": "q"})
    found = post(app, "/label", lines({"id": "q", "label": "no"}), kind=NDJSON).json()
    assert found == {"learned": 1, "duplicates": 0, "sequence": 3}


def test_tables_are_learned_and_predicted(app):
    body = table_bytes(a=[1.0, -2.0], b=[0, 1], label=["yes", "no"], w=[1.0, 2.0])
    found = post(app, "/learn", body, kind=ARROW, query=b"weight=w")
    assert found.json() == {"learned": 2, "duplicate": False, "sequence": 1}
    found = post(app, "/predict", table_bytes(a=[1.0, -2.0], b=[0, 1]), kind=ARROW)
    table = pa.ipc.open_stream(found.body).read_all()
    assert table.to_pydict() == {"prediction": ["yes", "no"]}
    asked = table_bytes(a=[1.0], b=[0])
    found = post(app, "/predict", asked, kind=ARROW, query=b"ids=true")
    (key,) = pa.ipc.open_stream(found.body).read_all().to_pydict()["id"]
    assert post(app, "/label", {"id": key, "label": "no"}).json()["learned"] == 1
    for columns, status in (
        ({"a": [1.0], "b": [0]}, 400),
        ({"a": [1.0], "label": ["no"]}, 422),
        ({"a": [1.0], "b": ["x"], "label": ["no"]}, 422),
        ({"a": [None], "b": [1], "label": ["no"]}, 422),
        ({"a": [1.0], "b": [1], "label": [None]}, 422),
        ({"a": [], "b": [], "label": []}, 400),
    ):
        assert post(app, "/learn", table_bytes(**columns), kind=ARROW).status == status, columns
    assert post(app, "/learn", b"ARROW1" * 10, kind=ARROW).status == 400
    assert post(app, "/label", asked, kind=ARROW).status == 415


def test_raw_rows_go_through_the_recipe_of_the_model(tmp_path):
    rows = [({"age": 20.0 + k, "town": "UO"[k % 2]}, CLASSES[k % 2]) for k in range(40)]
    learner = AMIRA().fit_stream(rows, recipe=Recipe())
    app = ready(create_app(tmp_path, {"default": learner}))
    row = {"age": 30.0, "town": "U"}
    assert post(app, "/predict", {"row": row}).json() == {"prediction": "no"}
    assert post(app, "/learn", {"row": row, "label": "no"}).json()["learned"] == 1
    body = table_bytes(age=[21.0, None], town=["O", "U"], label=["yes", "no"])
    assert post(app, "/learn", body, kind=ARROW).json()["learned"] == 2
    asked = table_bytes(age=[21.0], town=["O"])
    found = post(app, "/predict", asked, kind=ARROW, query=b"ids=true")
    found = pa.ipc.open_stream(found.body).read_all().to_pydict()
    assert found["prediction"] == ["yes"]
    assert post(app, "/label", {"id": found["id"][0], "label": "yes"}).json()["learned"] == 1
    assert post(app, "/learn", {"row": {"age": {}}, "label": "no"}).status == 400
    assert app.default.model.live.learner.recipe_.running_.rows == 44
    state = get(app, "/model").json()
    assert state["columns"] == ["age", "town"]
    assert state["n_features"] == learner.n_features_in_
    app.close()
    again = ready(create_app(tmp_path))
    assert post(again, "/predict", {"row": row}).json() == {"prediction": "no"}
    again.close()


def test_a_shadow_reads_tables_as_the_model_does_whose_place_it_takes(tmp_path):
    text = "age,town,churned\n" + "\n".join(
        f"{20 + k},{'UO'[k % 2]},{CLASSES[k % 2]}" for k in range(40)
    )
    (tmp_path / "rows.csv").write_text(text)
    rows = streams.open(tmp_path / "rows.csv", label="churned", recipe=Recipe())
    app = ready(create_app(tmp_path / "data", {"default": AMIRA().fit_stream(rows)}))
    assert post(app, "/shadows", {"name": "s", "algorithm": "norma"}).status == 201
    app.close()
    app = ready(create_app(tmp_path / "data"))
    body = {"rows": [{"age": 30, "town": "U"}, {"age": 31, "town": "O"}], "labels": CLASSES}
    assert post(app, "/learn", body).status == 200
    assert post(app, "/promote", {"shadow": "s"}).status == 200
    (tmp_path / "got.mm").write_bytes(get(app, "/model/file").body)
    app.close()
    learner = load(tmp_path / "got.mm")
    again = streams.open(tmp_path / "rows.csv", schema=learner.schema_, frozen=True)
    (block,) = again.blocks()
    assert block.X.shape[0] == 40
    assert block.y.tolist() == CLASSES * 20


def test_tables_are_learned_by_names_and_again_from_the_log(tmp_path):
    app = ready(create_app(tmp_path / "one", {"default": AMIRA()}, classes=CLASSES))
    post(app, "/learn", {"row": {"age": 2, "town": "Ulm"}, "label": "yes"})
    day = dt.datetime(2020, 1, 1)
    odd = {
        "time": pa.array([day], pa.timestamp("us")),
        "fine time": pa.array([day], pa.timestamp("ns")),
        "day": pa.array([day.date()]),
        "coded day": pa.array([day.date()]).dictionary_encode(),
        "bytes": pa.array([b"x"]),
        "list": pa.array([[1]]),
    }
    for name, values in odd.items():
        body = table_bytes(age=[1], label=["no"], **{name: values})
        found = post(app, "/learn", body, kind=ARROW)
        assert found.status == 422
        assert f"column '{name}' holds neither numbers nor text" in found.json()["error"]
    price = pa.array([decimal.Decimal("1.50")])
    town = pa.array(["Oy"]).dictionary_encode()
    body = table_bytes(age=[1], price=price, town=town, label=["no"])
    assert post(app, "/learn", body, kind=ARROW).json()["learned"] == 1
    asked = table_bytes(age=[1], price=price)
    found = post(app, "/predict", asked, kind=ARROW, query=b"ids=true")
    key = pa.ipc.open_stream(found.body).read_all().to_pydict()["id"][0]
    assert post(app, "/label", {"id": key, "label": "no"}).json()["learned"] == 1
    learner = app.default.model.live.learner
    assert list(learner.columns_) == ["age", "town=Ulm", "price", "town=Oy"]
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    again = ready(create_app(tmp_path / "two"))
    assert again.default.model.rows == app.default.model.rows == 3
    assert np.array_equal(again.default.model.live.learner.coef_, learner.coef_)
    app.close()
    again.close()


BAD = {
    "no JSON": (b"{", 400, "the body is not valid JSON: truncated"),
    "no object": (b"[]", 400, "the body: expected `object`, got `array`"),
    "another field": (
        {"row": [1], "label": "no", "x": 1},
        400,
        "unknown field `x`",
    ),
    "no label": ({"row": [1, 2]}, 400, "missing required field `label`"),
    "no row": ({"label": "no"}, 400, "missing required field `row`"),
    "text in a row": ({"row": [1, "2"], "label": "no"}, 400, "row[1]: expected `bool | float`"),
    "nothing in a row": ({"row": [1, None], "label": "no"}, 400, "got `null`"),
    "an empty row": ({"row": [], "label": "no"}, 400, "row: expected `array` of length >= 1"),
    "a row that is text": ({"row": "1", "label": "no"}, 400, "row: expected `object | array`"),
    "rows of two widths": ({"rows": [[1, 2], [1]], "labels": ["no"] * 2}, 400, "rows[1] has 1"),
    "rows of two kinds": ({"rows": [[1, 2], {}], "labels": ["no"] * 2}, 400, "rows[1]"),
    "text among rows": ({"rows": [[1, 2], [1, "x"]], "labels": ["no"] * 2}, 400, "rows[1][1]"),
    "too few labels": ({"rows": [[1, 2], [1, 2]], "labels": ["no"]}, 400, "labels has 1 items"),
    "no rows": ({"rows": [], "labels": []}, 400, "rows: expected `array` of length >= 1"),
    "an odd id": ({"row": [1, 2], "label": "no", "id": 7}, 400, "id: expected `str | null`"),
    "a long id": ({"row": [1, 2], "label": "no", "id": "x" * 129}, 400, "id must have 1 to 128"),
    "an odd weight": (
        {"row": [1, 2], "label": "no", "weight": "1"},
        400,
        "weight: expected `float | null`",
    ),
    "an odd label": ({"row": [1, 2], "label": ["no"]}, 400, "label: expected"),
    "a weight below 0": (
        {"row": [1, 2], "label": "no", "weight": -1},
        400,
        "weight: expected `float` >= 0",
    ),
    "a new label": ({"row": [1, 2], "label": "perhaps"}, 422, "'perhaps' is not among"),
    "another width": ({"row": [1, 2, 3], "label": "no"}, 422, "3 columns; the model has 2"),
    "names": ({"row": {"a": 1}, "label": "no"}, 422, "dict"),
    "a huge row": ({"row": [1e300, 0], "label": "no"}, 422, "too large"),
    "an endless number": (
        b'{"row": [1e999, 0], "label": "no"}',
        400,
        "row[0]: number out of range",
    ),
    "NaN": (b'{"row": [NaN, 0], "label": "no"}', 400, "not valid JSON: invalid character"),
    "many rows": ({"rows": [[1, 2]] * 6, "labels": ["no"] * 6}, 413, "at most 5"),
    "a deep row": (
        b'{"row": {"a": %s}, "label": "no"}' % (b"[" * 300 + b"]" * 300),
        400,
        "row.a: expected",
    ),
    "half a character": (b'{"row": [1, 2], "label": "\\ud800"}', 400, "not valid JSON"),
}


@pytest.fixture(scope="module")
def strict(tmp_path_factory):
    limits = Limits(rows=5, body_bytes=1000, body_seconds=0.05, columns=6)
    folder = tmp_path_factory.mktemp("strict")
    app = ready(create_app(folder, {"default": AMIRA()}, classes=CLASSES, limits=limits))
    post(app, "/learn", {"rows": [[1, 2], [-1, 0]], "labels": ["yes", "no"]})
    yield app
    app.close()


@pytest.mark.parametrize("what", BAD)
def test_what_is_wrong_is_said_and_changes_nothing(strict, what):
    body, status, reason = BAD[what]
    before = strict.default.model.live.learner.coef_.copy()
    found = post(strict, "/learn", body)
    assert (found.status, reason in found.json()["error"]) == (status, True), found.body
    if isinstance(body, dict) and "row" in body and status == 400:
        found = post(strict, "/learn", lines({"row": [1, 2], "label": "no"}, body), kind=NDJSON)
        assert found.status == 400
    assert np.array_equal(strict.default.model.live.learner.coef_, before)
    assert strict.default.model.rows == 2


def test_bodies_that_are_too_large_or_too_slow_or_of_an_odd_kind(strict):
    body = {"row": [1, 2], "label": "no"}
    assert post(strict, "/learn", b" " * 1001).status == 413
    assert post(strict, "/learn", b"", parts=[b" " * 600, b" " * 600]).status == 413
    told = [(b"content-length", b"100000")]
    assert post(strict, "/learn", b"", headers=told).status == 413
    assert post(strict, "/learn", b"", parts=[b'{"row":', None]).status == 408
    assert post(strict, "/learn", body, kind="", headers=[(b"content-type", b"\xff")]).status == 415
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        assert post(strict, "/learn", body, kind=kind).status == 415
        assert post(strict, "/promote", {"shadow": "x"}, kind=kind).status == 415
    assert post(strict, "/learn", body, kind="application/json; charset=utf-8").status == 200
    assert post(strict, "/learn", lines(*[body] * 6), kind=NDJSON).status == 413
    assert post(strict, "/learn", b"\n\n", kind=NDJSON).status == 400
    strict.default.model.rows = 2  # as others expect


def test_columns_are_limited(tmp_path):
    limits = Limits(columns=3, classes=3)
    app = ready(create_app(tmp_path / "a", {"m": AMIRA()}, classes=CLASSES, limits=limits))
    assert post(app, "/learn", {"row": [1, 2, 3, 4], "label": "no"}).status == 413
    assert post(app, "/learn", {"row": {"a": 1, "b": 2}, "label": "no"}).status == 200
    assert post(app, "/learn", {"row": {"c": 1, "d": 2}, "label": "no"}).status == 413
    app.close()
    with pytest.raises(ValueError, match="4 classes, and at most 3"):
        create_app(tmp_path / "b", {"m": AMIRA()}, classes=list("abcd"), limits=limits)


def test_questions_that_are_wrong(strict):
    for body, status in (
        ({"row": [1]}, 422),
        ({"row": [1, 2], "scores": 1}, 400),
        ({"row": [1, 2], "proba": True}, 422),
        ({"row": [1, 2], "ids": True}, 400),
        ({"rows": [[1, 2]], "ids": ["a", "b"]}, 400),
        ({"rows": [[1, 2]] * 2, "ids": ["a", "a"]}, 400),
        ({"rows": [[1, 2]] * 6}, 413),
        ({"row": {"a": 1}}, 422),
        ({}, 400),
    ):
        assert post(strict, "/predict", body).status == status, body
        assert post(strict, "/predict", lines(body), kind=NDJSON).status == status, body
    found = post(strict, "/predict", {"row": [1, 2], "proba": True})
    assert "no probabilities" in found.json()["error"]
    found = post(strict, "/predict", {"row": [1, 2], "set": True})
    assert (found.status, "coverage=0.9 gives it" in found.json()["error"]) == (422, True)
    for body in ({"id": "a"}, {"label": "no"}, {"labels": []}, {"labels": 1}, []):
        assert post(strict, "/label", body).status == 400, body


def test_lines_and_labels_that_are_wrong_are_named(strict):
    good, key = {"row": [1, 2], "label": "no"}, [(b"idempotency-key", b"k")]
    found = post(strict, "/learn", lines(good, {**good, "id": 7}), kind=NDJSON)
    assert (found.status, found.json()["error"][:10]) == (400, "line 2: id")
    found = post(strict, "/learn", lines(good), kind=NDJSON, headers=key)
    assert (found.status, "Idempotency-Key" in found.json()["error"]) == (400, True)
    assert post(strict, "/predict", {"row": [1, 2], "id": "here"}).status == 200
    right = {"id": "here", "label": "no"}
    for wrong in ({"label": "perhaps"}, {"label": []}, {"id": 7}, {"weight": -1}):
        found = post(strict, "/label", lines(right, {**right, **wrong}), kind=NDJSON)
        assert "line 2: " in found.json()["error"]
        found = post(strict, "/label", {"labels": [right, {**right, **wrong}]})
        assert "labels[1]" in found.json()["error"]
    assert strict.default.model.rows == 2


def test_paths_and_methods_that_there_are_not(strict):
    assert get(strict, "/nothing").status == 404
    assert get(strict, "/models/nothing/model").status == 404
    assert post(strict, "/models/nothing/learn", {}).status == 404
    assert get(strict, "/learn").status == 405
    assert call(strict, "PUT", "/model").status == 405
    assert call(strict, "DELETE", "/shadows/x").status == 404


def test_before_anything_is_learned(app):
    assert post(app, "/predict", {"row": [1, 2]}).json() == {"prediction": "yes"}
    found = post(app, "/predict", {"rows": [{"a": 1}], "scores": True}).json()
    assert found == {"predictions": ["yes"], "scores": [{"no": 0.0, "yes": 0.0}]}
    state = get(app, "/model").json()
    assert state["progressive_accuracy"] is None
    assert state["answer_accuracy"] is None
    assert state["n_features"] is None
    assert state["certificate"] is None


STATE = """name algorithm parameters classes n_features columns sequence events rows updates
mistakes answers wrong_answers answer_accuracy recent_answer_accuracy
progressive_accuracy recent_progressive_accuracy loss recent_loss largest_class_share
events_per_second rows_per_second latency_ms waiting queue log_bytes snapshot_sequence
uptime_seconds certificate drift drift_alarms coverage largest_weights learners history
example"""


def test_the_state_the_file_the_metrics_and_the_pages(app, tmp_path):
    X = np.random.default_rng(0).normal(size=(300, 3))
    labels = np.where(X[:, 0] > 0, "yes", "no").tolist()
    post(app, "/shadows", {"name": "other", "algorithm": "perceptron"})
    post(app, "/learn", {"rows": X.tolist(), "labels": labels})
    state = get(app, "/model").json()
    assert set(STATE.split()) <= state.keys()
    assert state["updates"] == app.default.model.live.learner.n_updates_
    assert state["largest_weights"][0]["name"] == "0"
    assert [each["role"] for each in state["learners"]] == ["live", "shadow"]
    assert state["history"][-1][0] == 300
    assert state["example"] == X[-1].tolist()
    found = get(app, "/model/file")
    (tmp_path / "got.mm").write_bytes(found.body)
    assert np.array_equal(load(tmp_path / "got.mm").coef_, app.default.model.live.learner.coef_)
    text = get(app, "/metrics").body.decode()
    assert 'maxmargin_rows_total{model="default"} 300' in text
    assert 'maxmargin_up{model="default"} 1' in text
    assert get(app, "/health").json() == {"status": "ok"}
    (model,) = get(app, "/models").json()["models"]
    assert (model["name"], model["rows"]) == ("default", 300)
    for path, kind in (("/", b"text/html"), ("/docs", b"text/html"), ("/openapi.json", b"json")):
        found = get(app, path)
        assert found.status == 200
        assert kind in found.headers[b"content-type"]


def asked_and_labelled_later(app, X, labels, delay):
    """Rows that are predicted one by one, and labelled so many rows later; answers that are wrong.

    Every way to ask is taken in turn.
    """
    wrong = []
    for k in range(len(X) + delay):
        if k >= delay:
            told = {"id": f"row {k - delay}", "label": labels[k - delay]}
            assert post(app, "/label", told).json()["learned"] == 1
        if k < len(X):
            row, key = X[k].tolist(), f"row {k}"
            if k % 3 == 0:
                found = post(app, "/predict", {"row": row, "id": key}).json()["prediction"]
            elif k % 3 == 1:
                asked = {"rows": [row], "ids": [key], "scores": True}
                (found,) = post(app, "/predict", asked).json()["predictions"]
            else:
                told = lines({"row": row, "id": key})
                found = json.loads(post(app, "/predict", told, kind=NDJSON).body)["prediction"]
            wrong.append(found != labels[k])
    return np.array(wrong)


def delayed_rows(size, seed=0):
    """Rows of a target that turns: late labels cost answers."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(size, 2))
    angle = np.arange(size) / 15.0
    side = X[:, 0] * np.cos(angle) + X[:, 1] * np.sin(angle)
    return X, np.where(side > 0, "yes", "no").tolist()


def test_the_accuracy_of_answers_is_that_of_the_predictions_as_they_were_served(app, tmp_path):
    X, labels = delayed_rows(200)
    wrong = asked_and_labelled_later(app, X, labels, delay=20)
    state = get(app, "/model").json()
    right = 1.0 - wrong.mean()
    assert (state["answers"], state["wrong_answers"]) == (200, wrong.sum())
    assert state["answer_accuracy"] == state["recent_answer_accuracy"] == pytest.approx(right)
    late, at_once = (
        progressive(AMIRA(random_state=0), X, np.array(labels), delay=delay, classes=CLASSES)
        for delay in (20, 0)
    )
    assert state["answer_accuracy"] == pytest.approx(late.accuracy)
    assert state["progressive_accuracy"] == pytest.approx(at_once.accuracy)
    assert late.accuracy < at_once.accuracy - 0.2
    text = get(app, "/metrics").body.decode()
    for line in (
        "maxmargin_answers_total{} 200",
        f"maxmargin_wrong_answers_total{{}} {wrong.sum()}",
        f"maxmargin_answer_accuracy{{}} {state['answer_accuracy']}",
        f"maxmargin_progressive_accuracy{{}} {state['progressive_accuracy']}",
    ):
        assert line.replace("{}", '{model="default"}') in text
    (summary,) = get(app, "/models").json()["models"]
    for name in ("recent_answer_accuracy", "recent_progressive_accuracy"):
        assert summary[name] == state[name]
    learn = {"row": [1.0, 0.0], "label": "no"}  # nobody was given an answer for such a row
    assert post(app, "/learn", learn).status == 200
    assert get(app, "/model").json()["answers"] == 200


def test_answers_by_arrow_are_scored_as_they_were_served(app):
    post(app, "/learn", {"rows": [[1.0], [-1.0]], "labels": ["yes", "no"]})
    body = table_bytes(a=[2.0, -2.0, 3.0])
    found = post(app, "/predict", body, kind=ARROW, query=b"ids=true")
    table = pa.ipc.open_stream(found.body).read_all().to_pydict()
    assert table["prediction"] == ["yes", "no", "yes"]
    told = [{"id": key, "label": "no"} for key in table["id"]]
    assert post(app, "/label", {"labels": told}).json()["learned"] == 3
    state = get(app, "/model").json()
    assert (state["answers"], state["wrong_answers"]) == (3, 2)


def test_the_first_answer_under_an_id_is_the_one_that_is_scored(app):
    post(app, "/learn", {"rows": [[1.0], [-1.0]], "labels": ["yes", "no"]})
    asked = {"row": [1.0], "id": "a"}
    assert post(app, "/predict", asked).json()["prediction"] == "yes"
    post(app, "/learn", {"rows": [[1.0]] * 9, "labels": ["no"] * 9})
    assert post(app, "/predict", asked).json()["prediction"] == "no"
    assert post(app, "/label", {"id": "a", "label": "yes"}).json()["learned"] == 1
    state = get(app, "/model").json()
    assert (state["answers"], state["wrong_answers"]) == (1, 0)


@pytest.mark.parametrize("host", ["127.0.0.1:9123", "localhost", "[::1]:80"])
def test_the_commands_in_the_docs_have_the_address_of_the_request(app, host):
    for prefix in ("", "/below it"):
        found = get(app, "/docs", headers=[(b"host", host.encode())], prefix=prefix)
        text = html.unescape(found.body.decode())
        assert f"http://{host}{prefix.replace(' ', '%20')}/learn" in text
        assert "8765" not in text


@pytest.mark.parametrize(
    "host", ["", "a b", "<script>", 'a"b', "a'b", "$(id)", "a/b", "a:b", "a\u00e9", "[1", "a@b"]
)
def test_a_host_that_is_none_is_not_put_into_a_page(tmp_path, host):
    app = ready(create_app(tmp_path, {"default": AMIRA()}, classes=CLASSES, token="t"))
    found = get(app, "/docs", headers=[(b"host", host.encode("latin-1"))])
    assert found.status == 400
    assert "Host" in found.json()["error"]
    app.close()


def test_states_are_sent_to_those_who_listen(app):
    sent = []

    async def listen():
        async def receive():
            await asyncio.sleep(3600)

        async def send(message):
            sent.append(message)
            if message.get("body"):
                app.stopping.set()

        scope = {
            "type": "http",
            "method": "GET",
            "path": "/events",
            "query_string": b"",
            "headers": [HOST],
        }
        await app(scope, receive, send)

    asyncio.run(listen())
    assert dict(sent[0]["headers"])[b"content-type"].startswith(b"text/event-stream")
    event, data = sent[1]["body"].decode().strip().split("\n")
    assert event == "event: state"
    assert json.loads(data.removeprefix("data: "))["name"] == "default"


def test_who_asks_for_the_head_of_the_states_does_not_listen(app):
    found = call(app, "HEAD", "/events")
    assert found.headers[b"content-type"].startswith(b"text/event-stream")
    assert (found.status, found.body, app.listeners) == (200, b"", 0)


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"kernel": "precomputed"}, "partial_fit cannot use kernel='precomputed'"),
        ({"device": "cuda"}, "device='cuda' is for kernels"),
        ({"kernel_dtype": "tf32", "kernel": "rbf", "gamma": 1}, "is for device='cuda' only"),
        ({"class_weight": {"other": 2.0}, "soft_margin": 1}, "class_weight has 'other'"),
    ],
)
@pytest.mark.parametrize("rows", [0, 3])
def test_a_shadow_that_could_learn_from_no_row_is_refused(app, rows, parameters, reason):
    for _ in range(rows):
        post(app, "/learn", {"row": [1, 2.5], "label": "yes"})
    asked = {"name": "s", "algorithm": "perceptron", "parameters": parameters}
    found = post(app, "/shadows", asked)
    assert (found.status, reason in found.json()["error"]) == (422, True), found.json()
    assert app.default.model.sequence == rows
    assert not app.default.model.shadows


def test_shadows_by_requests(app):
    key = [(b"idempotency-key", b"k")]
    made = post(app, "/shadows", {"name": "s", "algorithm": "norma", "parameters": {"rate": 0.5}})
    assert made.status == 201
    assert post(app, "/shadows", {"name": "s", "algorithm": "norma"}).status == 409
    assert post(app, "/shadows", {"name": "t", "algorithm": "nothing"}).status == 422
    assert post(app, "/shadows", {"name": "/", "algorithm": "norma"}).status == 400
    first = post(app, "/promote", {"shadow": "s"}, headers=key).json()
    again = post(app, "/promote", {"shadow": "s"}, headers=key).json()
    assert (first["duplicate"], again["duplicate"]) == (False, True)
    assert first["sequence"] == again["sequence"]
    assert get(app, "/model").json()["algorithm"] == "NORMA"
    assert call(app, "DELETE", "/shadows/amira").status == 200
    assert post(app, "/promote", {"shadow": "amira"}).status == 404


def test_a_token_is_needed_for_all_but_what_anybody_may_see(tmp_path):
    app = ready(create_app(tmp_path, {"default": AMIRA()}, classes=CLASSES, token="secret"))
    right = [(b"authorization", b"Bearer secret"), (b"host", b"anywhere.example")]
    for headers in (
        [],
        [(b"authorization", b"Bearer wrong")],
        [(b"authorization", b"Bearer secret2")],
        [(b"authorization", b"Basic secret")],
        [(b"authorization", b"secret")],
        [(b"authorization", b"Bearer \xff")],
    ):
        found = post(app, "/learn", {"row": [1], "label": "no"}, headers=headers)
        assert found.status == 401
        assert found.headers[b"www-authenticate"] == b"Bearer"
        assert get(app, "/model", headers=headers, query=b"token=secret").status == 401
        assert get(app, "/metrics", headers=headers).status == 401
        for path in ("/health", "/", "/docs", "/openapi.json"):
            assert get(app, path, headers=headers).status == 200
    assert post(app, "/learn", {"row": [1], "label": "no"}, headers=right).status == 200
    assert get(app, "/model", headers=right).status == 200
    app.close()


def test_pages_of_others_cannot_use_a_server_without_a_token(app):
    body = {"row": [1], "label": "no"}
    for headers, status in (
        ([(b"host", b"evil.example:8765")], 403),
        ([(b"host", b"127.0.0.1.evil.example")], 403),
        ([(b"host", b"[")], 403),
        ([(b"host", b"")], 403),
        ([(b"origin", b"http://evil.example")], 403),
        ([(b"origin", b"null")], 403),
        ([(b"origin", b"http://127.0.0.1:9999")], 403),
        ([(b"origin", b"http://127.0.0.1:8765")], 200),
        ([(b"sec-fetch-site", b"cross-site")], 403),
        ([(b"sec-fetch-site", b"same-site")], 403),
        ([(b"sec-fetch-site", b"same-origin")], 200),
        ([(b"sec-fetch-site", b"none")], 200),
        ([(b"host", b"localhost")], 200),
        ([(b"host", b"[::1]:8765"), (b"origin", b"http://[::1]:8765")], 200),
    ):
        assert post(app, "/learn", body, headers=headers).status == status, headers
        assert get(app, "/", headers=headers).status == status, headers


def test_several_models_side_by_side_and_mounted_below_a_prefix(tmp_path):
    models = {"a": AMIRA(), "b": Perceptron()}
    app = ready(create_app(tmp_path, models, classes=CLASSES))
    with pytest.raises(ValueError, match="in use by another process"):
        create_app(tmp_path, models, classes=CLASSES)
    for name, count in (("a", 1), ("b", 2)):
        rows = {"rows": [[1.0]] * count, "labels": ["no"] * count}
        assert post(app, f"/models/{name}/learn", rows, prefix="/below").status == 200
    assert get(app, "/models/b/model", prefix="/below").json()["rows"] == 2
    assert get(app, "/model", prefix="/below").json()["name"] == "a"
    assert [each["name"] for each in get(app, "/models").json()["models"]] == ["a", "b"]
    app.close()
    snapshot = tmp_path / "b" / "snapshot.mm"  # of a process that is killed while it replaces it
    shutil.copy(snapshot, snapshot.with_name(".snapshot.mm.0123456789abcdef.new"))
    snapshot.rename(snapshot.with_name("snapshot.mm.previous"))
    again = ready(create_app(tmp_path))
    assert {name: each.model.rows for name, each in again.services.items()} == {"a": 1, "b": 2}
    again.close()
    for name in ("../x", "lock", ".default"):
        with pytest.raises(ValueError, match="cannot be called"):
            create_app(tmp_path, {name: AMIRA()}, classes=CLASSES)


def default_of(folder, *names):
    """The name of the model that routes without a name are for."""
    learners = {name: AMIRA() for name in names}
    app = ready(create_app(folder, learners, classes=CLASSES if names else None))
    found = get(app, "/model")
    body = {"row": [1.0], "label": "no"}
    assert post(app, "/learn", body).status == found.status
    assert get(app, f"/models/{next(iter(app.services))}/model").status == 200
    app.close()
    if found.status != 200:
        assert found.status == 404
        assert "is the default: ask /models/NAME/..." in found.json()["error"]
        return None
    return found.json()["name"]


def test_the_default_model_stays_the_same_over_restarts_and_more_models(tmp_path):
    assert default_of(tmp_path, "spam", "churn") == "spam"
    assert default_of(tmp_path) == "spam"
    shutil.copytree(tmp_path / "spam", tmp_path / "a-copy")
    assert default_of(tmp_path) == "spam"
    assert default_of(tmp_path, "before", "spam") == "spam"
    spam = tmp_path / "spam"
    spam.rename(tmp_path.parent / f"{tmp_path.name} spam")
    assert default_of(tmp_path) is None  # its clients must not reach another model
    for name in ("a-copy", "before"):
        shutil.rmtree(tmp_path / name)
    assert default_of(tmp_path) is None
    assert default_of(tmp_path, "churn") == "churn"  # which is named
    assert default_of(tmp_path) == "churn"


def test_a_folder_that_does_not_say_which_model_is_the_default(tmp_path):
    assert default_of(tmp_path, "spam", "churn") == "spam"
    choice = tmp_path / ".default"
    choice.unlink()  # as in folders of older servers
    assert default_of(tmp_path) is None
    shutil.rmtree(tmp_path / "churn")
    assert default_of(tmp_path) == "spam"  # the only one
    choice.write_text("../x")
    with pytest.raises(ValueError, match=r"\.default: it should hold the name"):
        create_app(tmp_path)
    choice.unlink()
    somebody = tmp_path.parent / f"{tmp_path.name} somebody"
    somebody.write_text("spam")
    choice.symlink_to(somebody)
    with pytest.raises(ValueError, match=r"\.default: it must be a plain file"):
        create_app(tmp_path)
    assert somebody.read_text() == "spam"


def test_a_service_that_stops_or_cannot_write_says_so(app, monkeypatch):
    body = {"row": [1.0, 2.0], "label": "no"}
    post(app, "/learn", body)

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("maxmargin.serve.event_log.os.write", full)
        found = post(app, "/learn", body)
        assert (found.status, found.headers[b"retry-after"]) == (503, b"1")
        assert get(app, "/health").status == 503
        assert post(app, "/predict", {"row": [1.0, 2.0]}).status == 200  # which writes nothing
        assert post(app, "/predict", {"row": [1.0, 2.0], "id": True}).status == 503
    assert post(app, "/learn", body).status == 200
    assert get(app, "/health").status == 200
    app.stop()
    assert post(app, "/learn", body).status == 503
    assert get(app, "/health").status == 503


def test_probabilities_and_several_classes(tmp_path):
    learner = PassiveAggressive(calibration="online")
    app = ready(create_app(tmp_path, {"default": learner}, classes=[1, 2, 3]))
    X = np.random.default_rng(0).normal(size=(200, 3))
    labels = (X.argmax(axis=1) + 1).tolist()
    assert post(app, "/learn", {"rows": X.tolist(), "labels": labels}).status == 200
    asked = {"row": [3, 0, 0], "scores": True, "proba": True}
    found = post(app, "/predict", asked).json()
    assert found["prediction"] == 1
    assert found["scores"].keys() == found["probabilities"].keys() == {"1", "2", "3"}
    assert sum(found["probabilities"].values()) == pytest.approx(1.0)
    app.close()


def test_prediction_sets(tmp_path):
    learner = PassiveAggressive(coverage=0.9)
    app = ready(create_app(tmp_path, {"default": learner}, classes=[1, 2, 3]))
    assert post(app, "/predict", {"row": [3, 0, 0], "set": True}).json()["set"] == [1, 2, 3]
    X = np.random.default_rng(0).normal(size=(200, 3))
    labels = (X.argmax(axis=1) + 1).tolist()
    assert post(app, "/learn", {"rows": X.tolist(), "labels": labels}).status == 200
    assert post(app, "/predict", {"row": [3, 0, 0], "set": True}).json()["set"] == [1]
    found = post(app, "/predict", {"rows": X[:20].tolist(), "set": True}).json()
    direct = PassiveAggressive(coverage=0.9).partial_fit(X, labels, classes=[1, 2, 3])
    expected = [direct.classes_[inside].tolist() for inside in direct.predict_set(X[:20])]
    assert found["sets"] == expected
    app.close()


# ----------------------------------------------------------------------------------------- floods
def stream_bytes(column, batches=1, compression="zstd"):
    table, sink = pa.table({"x": column, "label": ["no"] * len(column)}), pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        for _ in range(batches):
            writer.write_table(table)
    return sink.getvalue().to_pybytes()


def repeated(text, rows):
    return pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), [text])


def viewed(text, rows):
    """All rows are the same bytes of one buffer."""
    view = np.array([len(text), 0, 0, 0], dtype="<i4")
    view[1:2] = np.frombuffer(text[:4].encode(), "<i4")  # longer texts begin with a part of them
    buffers = [None, pa.py_buffer(np.tile(view, rows).tobytes()), pa.py_buffer(text.encode())]
    return pa.Array.from_buffers(pa.string_view(), rows, buffers)


def run_of(text, rows):
    return pa.RunEndEncodedArray.from_arrays(pa.array([rows], pa.int32()), pa.array([text]))


def lists_of_nothing(rows, each):
    return pa.ListArray.from_arrays(range(0, (rows + 1) * each, each), pa.nulls(rows * each))


LARGE = {
    "zeros": (lambda: stream_bytes(pa.array(np.zeros(5000))), 413),
    "batches": (lambda: stream_bytes(pa.array(np.zeros(500)), batches=10), 413),
    "text": (lambda: stream_bytes(pa.array(["x" * 50_000] * 50)), 413),
    "a large value": (lambda: stream_bytes(pa.array(["x" * 10**6] + [""] * 49)), 413),
    "a dictionary": (lambda: stream_bytes(repeated("x" * 50_000, 50)), 413),
    "a dictionary within lists": (
        lambda: stream_bytes(pa.ListArray.from_arrays([0, 50], repeated("x" * 50_000, 50))),
        422,
    ),
    "views": (lambda: stream_bytes(viewed("x" * 50_000, 50)), 413),
    "runs": (lambda: stream_bytes(run_of("x" * 50_000, 50)), 422),
    "lists of nothing": (lambda: stream_bytes(lists_of_nothing(10, 10_000)), 413),
}

# Those that are small until their values are written out for each row.
READ = ("a dictionary", "a dictionary within lists", "views", "runs")


@pytest.mark.parametrize("what", LARGE)
def test_tables_are_refused_before_they_are_large(tmp_path, monkeypatch, what):
    limits = Limits(rows=4000, values=20_000, table_bytes=10**6)
    app = ready(create_app(tmp_path, {"m": AMIRA()}, classes=CLASSES, limits=limits))
    assert post(app, "/learn", {"row": {"y": 1}, "label": "no"}).status == 200
    make, status = LARGE[what]
    body, read = make(), []
    assert len(body) < 150_000
    read_table = arrow_tables.table_from_bytes
    monkeypatch.setattr(
        arrow_tables, "table_from_bytes", lambda body: read.append(1) or read_table(body)
    )
    for path in ("/learn", "/predict"):
        found = post(app, path, body, kind=ARROW)
        assert found.status == status, found.body
    assert bool(read) is (what in READ)
    assert app.default.model.rows == 1
    app.close()


def test_a_table_within_the_limits_is_taken(tmp_path):
    limits = Limits(rows=1000, values=2001, table_bytes=30_000)
    app = ready(create_app(tmp_path, {"m": AMIRA()}, classes=CLASSES, limits=limits))
    assert post(app, "/learn", {"row": {"y": 1}, "label": "no"}).status == 200
    for column in (np.zeros(1000), repeated("x" * 10, 1000), viewed("x" * 20, 1000)):
        found = post(app, "/learn", stream_bytes(pa.array(column)), kind=ARROW)
        assert found.json().get("learned") == 1000, found.body
    assert set(app.default.model.live.learner.columns_) == {
        "y",
        "x",
        f"x={'x' * 10}",
        f"x={'x' * 20}",
    }
    app.close()


TOO_MANY = {
    "lines with rows": (lines(*[{"rows": [[1, 2]] * 4}] * 3), NDJSON, "/predict", "10 rows in all"),
    "rows": (b'{"rows":[' + b"[]," * 1100 + b"[]]}", JSON, "/predict", "arrays and objects"),
    "objects": (b'{"rows":[' + b"{}," * 1100 + b"{}]}", JSON, "/learn", "arrays and objects"),
    "objects in lines": (b'{"rows":[' + b"[]," * 1100 + b"[]]}", NDJSON, "/predict", "arrays and"),
    "labels": ({"labels": [{"id": "a", "label": "no"}] * 11}, JSON, "/label", "11 labels"),
    "scores": ({"rows": [[1, 2]] * 10, "scores": True}, JSON, "/predict", "500 bytes"),
    "scores in lines": (
        lines(*[{"row": [1, 2], "scores": True}] * 10),
        NDJSON,
        "/predict",
        "line 9: the answer would have more than 500 bytes",
    ),
}


@pytest.mark.parametrize("what", TOO_MANY)
def test_a_request_is_limited_as_a_whole(tmp_path, what):
    limits = Limits(rows=10, answer_bytes=500)
    app = ready(create_app(tmp_path, {"m": AMIRA()}, classes=CLASSES, limits=limits))
    body, kind, path, reason = TOO_MANY[what]
    found = post(app, path, body, kind=kind)
    assert (found.status, reason in found.json()["error"]) == (413, True), found.body
    app.close()


def test_brackets_in_texts_are_no_arrays(tmp_path):
    app = ready(
        create_app(tmp_path, {"m": AMIRA()}, classes=CLASSES, limits=Limits(rows=2, columns=9))
    )
    row = {"te[xt": "[{" * 1000, 'q"[[[[[': '"[[[[\\', "z": '\\"{{{{{{'}
    rows = {"rows": [row, row], "labels": ["no", "yes"]}
    assert post(app, "/learn", rows).json() == {"learned": 2, "duplicate": False, "sequence": 1}
    both = lines({"row": row}, {"rows": [row]})
    assert post(app, "/predict", both, kind=NDJSON).status == 200
    app.close()


def test_large_bodies_are_read_and_predicted_outside_of_the_loop(app, monkeypatch):
    threads = []
    answer = prediction_answers.answer

    def watched(*given):
        threads.append(threading.current_thread() is threading.main_thread())
        return answer(*given)

    monkeypatch.setattr(prediction_answers, "answer", watched)
    assert post(app, "/predict", lines(*[{"row": [1.0, 2]}] * 3), kind=NDJSON).status == 200
    assert threads == [True] * 3
    threads.clear()
    many = lines(*[{"rows": [[1.0, 2]] * 1000}] * 5)
    assert post(app, "/predict", many, kind=NDJSON).status == 200
    assert threads == [False] * 5


def test_ids_in_lines_wait_together_or_not_at_all(app):
    asked = [{"row": [1.0], "id": "a"}, {"rows": [[2.0], [3.0]], "ids": ["b", "a"]}]
    wrong = lines(*asked, {"row": [1.0], "id": ""})
    assert post(app, "/predict", wrong, kind=NDJSON).status == 400
    assert len(app.default.model.waiting) == 0
    found = post(app, "/predict", lines(*asked), kind=NDJSON)
    assert [json.loads(line).get("ids") for line in found.body.splitlines()] == [None, ["b", "a"]]
    assert len(app.default.model.waiting) == 2
    assert bytes(app.default.model.waiting.get("a", 0.0).row) == b"[1.0]"
    assert app.default.model.sequence == 1


def test_bodies_that_are_received_at_a_time_are_limited(tmp_path):
    limits = Limits(received_bytes=1000)
    app = ready(create_app(tmp_path, {"m": AMIRA()}, classes=CLASSES, limits=limits))
    scope = {"type": "http", "method": "POST", "path": "/learn", "query_string": b""}
    scope["headers"] = [HOST, (b"content-type", JSON.encode())]
    body = b'{"row":[1],"label":"no"}'

    async def asked(parts, stalled):
        """The status of a request that waits behind its first part."""
        left, sent = list(parts), []

        async def receive():
            if len(left) < len(parts):
                await stalled.wait()
            return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

        async def send(message):
            sent.append(message)

        await app(scope, receive, send)
        return sent[0]["status"], dict(sent[0]["headers"]).get(b"retry-after")

    async def main():
        stalled = asyncio.Event()
        large = [asyncio.create_task(asked([b" " * 400, body], stalled)) for _ in range(3)]
        found, _ = await asyncio.wait(large, return_when=asyncio.FIRST_COMPLETED)
        refused = [each.result() for each in found]
        whole = await asked([body], stalled)
        stalled.set()
        rest = await asyncio.gather(*large)
        return refused, whole, rest, await asked([b" " * 900, body], stalled)

    refused, whole, rest, later = asyncio.run(main())
    assert refused == [(429, b"1")]
    assert whole == later == (200, None)
    assert sorted(status for status, _ in rest) == [200, 200, 429]
    app.close()
