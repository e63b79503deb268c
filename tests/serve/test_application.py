"""The application: what it answers, without a network."""

import asyncio
import io
import json
import random
import re

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("starlette")
pytest.importorskip("msgspec")

from serve.asking import NDJSON, ask, asked, learn, lines
from sklearn.base import clone

from maxmargin import (
    AMIRA,
    AutoMargin,
    LabelQueries,
    PassiveAggressive,
    Perceptron,
    load,
    streams,
)
from maxmargin.certificates.error_bound import error_bound
from maxmargin.evaluate import explain, progressive
from maxmargin.serve import create_app
from maxmargin.serve.beginnings import as_file
from maxmargin.streams import Recipe

CLASSES = ["no", "yes"]


@pytest.fixture
def opened(tmp_path):
    """Applications that are closed in the end; the folder of the first is "data"."""
    apps = []

    def make(learner=None, classes=CLASSES, folder="data", **options):
        given = AMIRA() if learner is None and classes is not None else learner
        apps.append(create_app(tmp_path / folder, given, classes=classes, **options))
        apps[-1].wait(60)
        return apps[-1]

    yield make
    for app in apps:
        app.close()


@pytest.fixture
def app(opened):
    return opened()


def rows_and_labels(count, seed=0):
    chance = random.Random(seed)
    rows = [
        {"clicks": chance.randint(0, 9), "from": chance.choice(["mail", "ad"])}
        for _ in range(count)
    ]
    return rows, ["yes" if row["clicks"] > 4 else "no" for row in rows]


# ------------------------------------------------------------------------------------- learning
def test_one_row_at_a_time_or_many_give_the_same_model_as_learning_without_a_server(opened):
    rows, labels = rows_and_labels(60)
    expected = AMIRA(random_state=0)
    for row, label in zip(rows, labels, strict=True):
        expected.learn_one(row, label, classes=CLASSES)
    single, batch, text = (opened(folder=each) for each in ("single", "batch", "text"))
    for row, label in zip(rows, labels, strict=True):
        assert learn(single, row, label).json["learned"] == 1
    told = ask(batch, "POST", "/learn", {"rows": rows, "labels": labels}).json
    assert told == {"learned": 60, "duplicate": False, "sequence": 1}
    body = lines(*({"row": r, "label": y} for r, y in zip(rows, labels, strict=True)))
    assert ask(text, "POST", "/learn", body, NDJSON).json["learned"] == 60
    for app in (single, batch, text):
        found = load(io.BytesIO(ask(app, "GET", "/model/file").body))
        assert np.array_equal(found.coef_, expected.coef_)
        assert found.decision_one(rows[0]) == expected.decision_one(rows[0])
        assert found.n_updates_ == expected.n_updates_


def test_progressive_scores_are_those_of_progressive_evaluation(opened):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 3))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=1500) > 0, "yes", "no")
    app = opened(PassiveAggressive())
    for at in range(0, 1500, 250):
        body = {"rows": X[at : at + 250].tolist(), "labels": y[at : at + 250].tolist()}
        ask(app, "POST", "/learn", body)
    state = ask(app, "GET", "/model").json
    found = progressive(PassiveAggressive(random_state=0), X, y, classes=CLASSES)
    assert state["mistakes"] == found.mistakes[-1]
    assert state["rows"] == 1500
    assert state["progressive_accuracy"] == pytest.approx(1 - found.mistakes[-1] / 1500)
    assert state["history"][-1][0] == 1500


def test_weights_count(opened):
    plain, weighted = (
        opened(PassiveAggressive(C=0.1), folder="plain"),
        opened(PassiveAggressive(C=0.1)),
    )
    for app, weight in ((plain, None), (weighted, 0.25)):
        more = {} if weight is None else {"weight": weight}
        learn(app, [1.0, 2.0], "yes", **more)
    expected = PassiveAggressive(C=0.1, random_state=0).learn_one(
        [1.0, 2.0], "yes", w=0.25, classes=CLASSES
    )
    assert ask(weighted, "GET", "/model/file").body == as_file(expected)
    assert ask(plain, "GET", "/model/file").body != as_file(expected)


def test_an_id_is_learned_once(app):
    assert learn(app, {"a": 1}, "yes", id="x").json == {
        "learned": 1,
        "duplicate": False,
        "sequence": 1,
    }
    again = learn(app, {"a": 9}, "no", id="x").json
    assert again == {"learned": 0, "duplicate": True, "sequence": 1}
    body = lines(
        {"row": {"a": 1}, "label": "yes", "id": "x"},
        {"row": {"a": 2}, "label": "no", "id": "y"},
        {"row": {"a": 2}, "label": "no", "id": "y"},
    )
    told = ask(app, "POST", "/learn", body, NDJSON).json
    assert told == {"learned": 1, "duplicates": 2, "sequence": 2}
    assert ask(app, "GET", "/model").json["rows"] == 2


def test_the_same_id_many_times_at_once_is_learned_once(app):
    async def together():
        body = {"row": {"a": 1}, "label": "yes", "id": "x"}
        return await asyncio.gather(*(asked(app, "POST", "/learn", body) for _ in range(20)))

    answers = [each.json for each in asyncio.run(together())]
    assert sum(each["learned"] for each in answers) == 1
    assert {each["sequence"] for each in answers} == {1}


# --------------------------------------------------------------------------------------- predicting
def test_predictions_scores_and_probabilities(opened):
    app = opened(AutoMargin())
    rows, labels = rows_and_labels(100)
    untaught = ask(app, "POST", "/predict", {"row": rows[0], "scores": True}).json
    assert untaught["scores"] == {"no": 0.0, "yes": 0.0}
    ask(app, "POST", "/learn", {"rows": rows, "labels": labels})
    clf = load(io.BytesIO(ask(app, "GET", "/model/file").body))
    one = ask(app, "POST", "/predict", {"row": rows[0], "scores": True, "proba": True}).json
    assert one["prediction"] == clf.predict_one(rows[0])
    assert one["scores"]["yes"] == clf.decision_one(rows[0])
    assert one["probabilities"] == clf.predict_proba_one(rows[0])
    many = ask(app, "POST", "/predict", {"rows": rows}).json
    assert many["predictions"] == [clf.predict_one(row) for row in rows]
    body = lines({"row": rows[0]}, {"rows": rows[:2]})
    text = ask(app, "POST", "/predict", body, NDJSON).body.splitlines()
    assert [json.loads(each) for each in text] == [
        {"prediction": many["predictions"][0]},
        {"predictions": many["predictions"][:2]},
    ]


def test_prediction_sets(opened):
    app = opened(PassiveAggressive(), coverage=0.8)
    rows, labels = rows_and_labels(200)
    row = {"row": rows[0], "set": True}
    assert ask(app, "POST", "/predict", row).json["set"] == CLASSES
    ask(app, "POST", "/learn", {"rows": rows, "labels": labels})
    clf = load(io.BytesIO(ask(app, "GET", "/model/file").body))
    assert set(ask(app, "POST", "/predict", row).json["set"]) == clf.predict_set_one(rows[0])
    coverage = ask(app, "GET", "/model").json["coverage"]
    assert coverage["target"] == 0.8
    assert abs(coverage["observed"] - 0.8) <= coverage["bound"]
    assert ask(opened(folder="plain"), "POST", "/predict", row).status == 422


def test_questions(opened):
    """Rows are asked for as outside of the server; what is learned is learned in any case."""
    clf = LabelQueries(AutoMargin(random_state=0), budget=0.3, random_state=0)
    app = opened(clf)
    alone, (rows, labels) = clone(clf), rows_and_labels(120)
    assert ask(app, "POST", "/predict", {"row": rows[0], "ask": True}).json["ask"]
    assert alone.query_one(rows[0])
    body = {"rows": rows[:60], "labels": labels[:60]}
    assert ask(app, "POST", "/learn", body).json["learned"] == 60
    order = np.arange(60, dtype=np.int32)
    alone.learn_labelled(rows[:60], np.array(labels[:60]), order, CLASSES)
    one = ask(app, "POST", "/predict", {"row": rows[60], "ask": True}).json
    predicted = alone.predict_one(rows[60])
    assert one == {"prediction": predicted, "ask": alone.query_one(rows[60])}
    many = ask(app, "POST", "/predict", {"rows": rows[61:], "ask": True}).json
    assert many["ask"] == [alone.query_one(row) for row in rows[61:]]
    assert 0 < sum(many["ask"]) < 59
    learn(app, rows[60], labels[60])
    alone.learn_one(rows[60], labels[60])
    served = load(io.BytesIO(ask(app, "GET", "/model/file").body))
    assert served.decision_one(rows[3]) == alone.decision_one(rows[3])
    assert (served.n_rows_, served.n_queries_) == (alone.n_rows_, alone.n_queries_)
    assert ask(app, "POST", "/predict", {"row": rows[1], "why": True}).status == 200
    plain = opened(folder="plain")
    assert ask(plain, "POST", "/predict", {"row": {"a": 1}, "ask": True}).status == 422
    app.close()
    again = opened(None, None)
    assert ask(again, "POST", "/predict", {"row": rows[0], "ask": True}).status == 200
    served = load(io.BytesIO(ask(again, "GET", "/model/file").body))
    assert served.n_rows_ == alone.n_rows_ + 1


def test_labels_that_come_later(app):
    learn(app, {"a": 1}, "yes")
    told = ask(app, "POST", "/predict", {"row": {"a": 3}, "id": "v"}).json
    assert told == {"prediction": "yes", "id": "v"}
    for _ in range(4):  # the first answer under an id is the one that is scored
        learn(app, {"a": 3}, "no")
    assert ask(app, "POST", "/predict", {"row": {"a": 3}, "id": "v"}).json["prediction"] == "no"
    assert ask(app, "GET", "/model").json["waiting"] == 1
    assert ask(app, "POST", "/label", {"id": "v", "label": "yes"}).json["learned"] == 1
    assert ask(app, "POST", "/label", {"id": "v", "label": "yes"}).json["duplicate"]
    assert ask(app, "POST", "/label", {"id": "v", "label": "no"}).status == 409
    assert ask(app, "POST", "/label", {"id": "unknown", "label": "no"}).status == 404
    assert learn(app, {"a": 3}, "no", id="v").json["duplicate"]
    state = ask(app, "GET", "/model").json
    assert (state["answers"], state["wrong_answers"], state["waiting"]) == (1, 0, 0)


def test_several_labels_are_learned_all_or_none(app):
    learn(app, {"a": 1}, "yes")
    ids = ask(app, "POST", "/predict", {"rows": [{"a": 3}, {"a": 4}], "ids": True}).json["ids"]
    given = [{"id": key, "label": "no"} for key in ids]
    refused = ask(app, "POST", "/label", {"labels": [*given, {"id": "unknown", "label": "no"}]})
    assert refused.status == 404
    assert ask(app, "POST", "/label", {"labels": [*given, given[0]]}).json == {
        "learned": 2,
        "duplicates": 1,
        "sequence": 3,
    }
    assert ask(app, "POST", "/label", lines(*given), NDJSON).json["duplicates"] == 2


# ---------------------------------------------------------------------------------------- refusals
@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/learn", {"row": {"a": 1}, "label": "perhaps"}, 422, "not among the classes no, yes"),
        ("/learn", {"row": {"a": [1]}, "label": "no"}, 400, "row.a: expected"),
        ("/learn", {"rows": [[1], ["x"]], "labels": ["no", "no"]}, 400, "rows[1][0]: expected"),
        ("/learn", {"rows": [[1, 2], [3]], "labels": ["no", "no"]}, 400, "rows[1] has 1 columns"),
        ("/learn", {"rows": [[1], {"a": 1}], "labels": ["no", "no"]}, 400, "not of the same kind"),
        ("/learn", {"rows": [[1]], "labels": ["no", "no"]}, 400, "labels has 2 items"),
        ("/learn", {"rows": [], "labels": []}, 400, "rows: expected"),
        ("/learn", {"row": {"a": 1}}, 400, "missing required field `label`"),
        ("/learn", {"row": {"a": 1}, "labels": ["no"], "label": "no"}, 400, "go with rows"),
        ("/learn", {"row": {"a": 1}, "label": "no", "weight": -1}, 400, "weight: expected"),
        ("/learn", {"row": {"a": 1}, "label": "no", "wait": 1}, 400, "wait"),
        ("/learn", {"row": {"a": 1}, "label": "no", "id": "x" * 129}, 400, "id: expected"),
        ("/learn", {"row": {"a": 1e300, "b": None}, "label": "no"}, 422, "b"),
        ("/learn", b"{", 400, "not valid JSON"),
        ("/learn", b'{"row": {"a": "\xff"}, "label": "no"}', 400, "not valid JSON"),
        ("/learn", b"[" * 100_000, 400, "expected `object`"),
        ("/predict", {"row": {"b": 1, "c": 2}}, 422, "none of the columns b, c is known"),
        ("/predict", {"row": {}}, 422, "the model knows a, z"),
        ("/predict", {"rows": [{"a": 1}, {"c": 2}]}, 422, "rows[1]: none of the columns c"),
        ("/predict", {"row": [1, 2, 3]}, 422, "features are expected"),
        ("/predict", {"rows": [{"a": 1}] * 2, "ids": ["x", "x"]}, 400, "same id twice"),
        ("/predict", {"row": {"a": 1}, "proba": True}, 422, "AutoMargin has"),
        ("/label", {"id": "x"}, 400, "missing required field `label`"),
        ("/label", {"labels": []}, 400, "labels: expected"),
    ],
)
def test_refused_requests_say_why_and_change_nothing(app, path, body, status, words):
    learn(app, {"a": 1, "z": "red"}, "yes")
    before = ask(app, "GET", "/model/file").body
    found = ask(app, "POST", path, body)
    assert (found.status, words in found.json["error"]) == (status, True), found
    assert ask(app, "GET", "/model/file").body == before
    assert learn(app, {"a": 1}, "no").json["sequence"] <= 3


def test_lines_are_named(app):
    body = lines({"row": {"a": 1}, "label": "no"}, {"row": {"a": 1}, "label": 3.5, "x": 1})
    assert ask(app, "POST", "/learn", body, NDJSON).json["error"].startswith("line 2: ")
    assert ask(app, "POST", "/learn", b"\n\n", NDJSON).json["error"] == "the body has no lines."
    assert ask(app, "GET", "/model").json["events"] == 0


def test_routes_and_types(app):
    assert ask(app, "GET", "/nothing").json == {"error": "there is no /nothing."}
    assert ask(app, "GET", "/learn").status == 405
    assert ask(app, "POST", "/learn", b"x=1", "text/plain").status == 415
    assert ask(app, "POST", "/learn", b" " * (2**26 + 1)).status == 413
    assert ask(app, "GET", "/health").json == {"status": "ok"}
    assert asyncio.run(asked(app, "GET", "/health", root="/below")).status == 200


def test_an_event_that_the_learner_refuses_is_marked_and_its_id_is_free(opened, tmp_path):
    app = opened(Perceptron())
    learn(app, [1.0, 2.0], "yes")
    refused = learn(app, [1.0, 2.0, 3.0], "no", id="x")
    assert refused.status == 422
    assert "features" in refused.json["error"]
    ask(app, "POST", "/predict", {"row": [1.0, 2.0], "id": "v"})
    assert learn(app, [3.0, 1.0], "no", id="x").json == {
        "learned": 1,
        "duplicate": False,
        "sequence": 3,
    }
    state = ask(app, "GET", "/model").json
    assert (state["events"], state["refused"], state["sequence"]) == (2, 1, 3)
    file = ask(app, "GET", "/model/file").body
    app.close()
    again = opened(None, None)
    assert ask(again, "GET", "/model/file").body == file


def test_odd_bodies_never_break_it(app):
    """What is cut, changed or repeated gets an answer from 200 to 499."""
    learn(app, {"a": 1, "b": "x"}, "yes", id="first")
    chance = random.Random(0)
    bodies = [
        {"row": {"a": 2, "b": "y"}, "label": "no", "weight": 0.5, "id": "e"},
        {"rows": [[1, 2], [3, 4]], "labels": ["no", "yes"], "weights": [1, 2], "ids": ["p", None]},
        {"row": {"a": 1}, "id": True, "scores": True},
        {"labels": [{"id": "first", "label": "no"}]},
    ]
    letters = b'{}[]",:0123456789.-eEtrufalsn\\u\x00\xff'
    statuses = set()
    for _ in range(400):
        body = bytearray(json.dumps(chance.choice(bodies)).encode())
        for _ in range(chance.randint(0, 3)):
            at = chance.randrange(len(body))
            body[at : at + chance.randint(0, 2)] = bytes(
                chance.choices(letters, k=chance.randint(0, 2))
            )
        path = chance.choice(["/learn", "/predict", "/label"])
        kind = chance.choice(["application/json", NDJSON])
        statuses.add(ask(app, "POST", path, bytes(body), kind).status)
    assert {200, 400} <= statuses
    assert statuses <= {200, 400, 404, 409, 422}
    assert ask(app, "GET", "/health").status == 200


# ------------------------------------------------------------------------------------------- access
def test_two_tokens(opened):
    app = opened(learn_token="teach", predict_token="ask")
    learned = {"row": {"a": 1}, "label": "yes"}
    for token, status in (("teach", 200), ("ask", 403), ("other", 401), ("", 401)):
        headers = {"authorization": f"Bearer {token}"} if token else {}
        assert ask(app, "POST", "/learn", learned, **headers).status == status
    for path in ("/model", "/metrics"):
        assert ask(app, "GET", path, authorization="Bearer ask").status == 200
        assert ask(app, "GET", path).headers["www-authenticate"] == "Bearer"
    row = {"row": {"a": 1}, "id": "v"}
    assert ask(app, "POST", "/predict", row, authorization="bearer ask").status == 200
    assert ask(app, "GET", "/model/file", authorization="Bearer ask").status == 403
    for path in ("/", "/health", "/openapi.json"):
        assert ask(app, "GET", path, host="elsewhere").status == 200


def test_without_a_token_other_sites_are_refused(app):
    assert ask(app, "GET", "/health", host="evil.example").status == 403
    assert ask(app, "GET", "/health", origin="http://evil.example").status == 403
    assert ask(app, "GET", "/health", origin="http://127.0.0.1:8765").status == 200
    assert ask(app, "GET", "/health", sec_fetch_site="cross-site").status == 403
    assert ask(app, "GET", "/health", host="[::1]:80").status == 200
    assert ask(app, "GET", "/health", host="[").status == 403


# ------------------------------------------------------------------------------ columns and metrics
def test_a_recipe_and_its_columns(opened):
    table = [{"age": float(k), "city": "Ulm" if k % 3 else "Rome"} for k in range(30)]
    pairs = [(row, "yes" if row["age"] > 15 else "no") for row in table]
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([{**row, "label": label} for row, label in pairs])
    clf = PassiveAggressive(random_state=0)
    clf.fit_stream(streams.open(frame, label="label", recipe=streams.Recipe()))
    app = opened(clf, None)
    assert learn(app, {"age": 50.0, "city": "Ulm", "height": 2}, "yes").status == 200
    assert learn(app, {"age": None}, "yes").status == 200
    unknown = learn(app, {"height": 2}, "yes")
    assert (unknown.status, "none of the columns height" in unknown.json["error"]) == (422, True)
    body = {"rows": [{"age": 50.0, "city": "Oslo"}, {"age": None, "city": None}]}
    assert ask(app, "POST", "/predict", body).status == 200
    text = ask(app, "GET", "/metrics").body.decode()
    assert "maxmargin_unknown_columns_total 1\n" in text
    assert "maxmargin_missing_columns_total 1\n" in text


def test_metrics(app):
    learn(app, {"a": 1}, "yes")
    ask(app, "POST", "/predict", {"row": {"a": 1}})
    ask(app, "POST", "/predict", {"row": {"b": 1}})
    text = ask(app, "GET", "/metrics").body.decode()
    for line in (
        "maxmargin_up 1",
        "maxmargin_events_total 1",
        'maxmargin_requests_total{route="/predict",status="200"} 1',
        'maxmargin_requests_total{route="/predict",status="422"} 1',
        'maxmargin_request_seconds_bucket{route="/learn",le="+Inf"} 1',
        'maxmargin_request_seconds_count{route="/predict"} 2',
    ):
        assert f"{line}\n" in text
    assert 'maxmargin_build_info{version="' in text
    names = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    for line in text.splitlines():
        if not line.startswith("#"):
            plain = line.partition("{")[0].split()[0]
            assert (
                plain.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count") in names
            )


def test_drift_alarms_are_a_function_of_the_events(opened):
    app = opened(PassiveAggressive())
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3))
    y = np.where((X[:, 0] > 0) == (np.arange(3000) < 2000), "yes", "no")
    for at in range(0, 3000, 300):
        body = {"rows": X[at : at + 300].tolist(), "labels": y[at : at + 300].tolist()}
        ask(app, "POST", "/learn", body)
    found = ask(app, "GET", "/model").json["drift"]
    assert found["alarms"]
    assert 2000 < found["alarms"][0] < 2400
    app.close()
    again = opened(None, None)
    assert ask(again, "GET", "/model").json["drift"] == found


# ---------------------------------------------------------------------------------- explanations
@pytest.mark.parametrize("options", [{}, {"coverage": 0.8}])
def test_why(opened, options):
    app = opened(AutoMargin(), **options)
    rows, labels = rows_and_labels(100)
    asking = {"row": rows[0], "why": True}
    assert ask(app, "POST", "/predict", asking).json["why"] == {}  # nothing is learned yet
    ask(app, "POST", "/learn", {"rows": rows, "labels": labels})
    clf = load(io.BytesIO(ask(app, "GET", "/model/file").body))
    expected = [explain(clf, row) for row in rows[:3]]
    found = ask(app, "POST", "/predict", asking).json
    assert found == {"prediction": expected[0].label, "why": expected[0].contributions}
    assert list(found["why"]) == list(expected[0].contributions)  # the largest first
    found = ask(app, "POST", "/predict", {"rows": rows[:3], "why": True}).json
    assert found["why"] == [each.contributions for each in expected]


def test_why_has_the_largest_contributions_and_limits(opened):
    app, wide = opened(), {f"c{k}": float(k) for k in range(40)}
    learn(app, wide, "yes")
    found = ask(app, "POST", "/predict", {"row": wide, "why": True}).json["why"]
    assert list(found) == [f"c{k}" for k in range(39, 19, -1)]
    long = {"c1": 1.0, "text": "a-b " * 250}
    refused = ask(app, "POST", "/predict", {"row": long, "why": True})
    assert refused.status == 422
    assert "500 values and words, these have 501" in refused.json["error"]
    assert ask(app, "POST", "/predict", {"row": long}).status == 200


def test_why_with_a_recipe_and_a_list(opened):
    rows, labels = rows_and_labels(200)
    source = streams.open(pd.DataFrame(rows).assign(label=labels), label="label", recipe=Recipe())
    app = opened(AutoMargin().fit_stream(source), classes=None)
    found = ask(app, "POST", "/predict", {"row": {"clicks": 8, "from": None}, "why": True}).json
    assert (found["prediction"], list(found["why"])) == ("yes", ["clicks"])
    listed = opened(folder="listed")
    learn(listed, [1.0, 0.0], "yes")
    found = ask(listed, "POST", "/predict", {"row": [2.0, 0.0], "why": True}).json
    assert list(found["why"]) == ["x0"]


def test_the_error_has_a_proved_bound(app):
    assert ask(app, "GET", "/model").json["error_bound"] is None
    assert "maxmargin_error_bound\n" not in ask(app, "GET", "/metrics").body.decode()
    rows, labels = rows_and_labels(300)
    ask(app, "POST", "/learn", {"rows": rows, "labels": labels})
    state = ask(app, "GET", "/model").json
    expected = error_bound(state["mistakes"], 300).bound
    assert state["mistakes"] / 300 < state["error_bound"] == expected < 1.0
    assert f"maxmargin_error_bound {expected}\n" in ask(app, "GET", "/metrics").body.decode()


def test_the_largest_weights_of_a_mixture_are_means(opened):
    app = opened(AutoMargin())
    rows, labels = rows_and_labels(200)
    ask(app, "POST", "/learn", {"rows": rows, "labels": labels})
    clf = load(io.BytesIO(ask(app, "GET", "/model/file").body))
    found = ask(app, "GET", "/model").json["largest_weights"]
    assert {each["name"]: each["weight"] for each in found} == {
        name: clf.mean_coef_[0, place] for name, place in clf.columns_.items()
    }


@pytest.mark.parametrize(
    "row",
    [{"age": None}, {"age": "old"}, {"age": 1e200}, {"age": 10**400}, [1.0, 2.0, 3.0]],
    ids=str,
)
def test_refusals_speak_of_the_request(opened, row):
    rows = [({"age": float(k), "size": 2.0 * k}, "yes" if k % 2 else "no") for k in range(20)]
    app = opened(PassiveAggressive().fit_stream(rows), None)
    learned = learn(app, row, "yes")
    assert learned.status == 422
    assert not re.search(r"\bx\b|None", learned.json["error"])
    predicted = ask(app, "POST", "/predict", {"row": row})
    assert predicted.status == 200 or not re.search(r"\bx\b|None", predicted.json["error"])
