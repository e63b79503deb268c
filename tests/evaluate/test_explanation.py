"""Contributions of columns to a prediction."""

import itertools
import math
import warnings

import numpy as np
import pandas as pd
import pytest
from problems import overlapping, three_classes
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import AutoMargin, ConformalClassifier, MaxMargin, PassiveAggressive, streams
from maxmargin.evaluate import explain
from maxmargin.streams import Recipe


def shapley(score, size):
    """The definition: the mean gain of each part over all orders."""
    gains = np.zeros(size)
    for order in itertools.permutations(range(size)):
        mask = np.zeros(size, bool)
        for part in order:
            before = score(mask)
            mask[part] = True
            gains[part] += score(mask) - before
    return gains / math.factorial(size)


@pytest.mark.parametrize("sparsely", [False, True])
def test_of_linear_learners_they_are_weights_times_values(sparsely):
    X, y = overlapping(n=200, d=4)
    X = sparse.csr_matrix(X * (X > 0.0)) if sparsely else X
    clf = MaxMargin().fit(X, y)
    for i in range(5):
        row = X[i : i + 1]
        why = explain(clf, row)
        sign = 1.0 if clf.predict(row)[0] == clf.classes_[1] else -1.0
        values = row.toarray().ravel() if sparsely else row.ravel()
        for name, value in why.contributions.items():
            place = int(name[1:])
            assert value == pytest.approx(sign * clf.coef_[0, place] * values[place])
        assert why.base == pytest.approx(sign * clf.intercept_[0])
        assert why.score == pytest.approx(abs(clf.decision_function(row)[0]))


@pytest.mark.parametrize(
    "clf",
    [
        MaxMargin(kernel="rbf", gamma=0.5),
        AutoMargin(random_state=0),
        AutoMargin(kernel="rbf", random_state=0),
    ],
)
def test_many_orders_approach_the_definition(clf):
    X, y = overlapping(n=150, d=4)
    clf.fit(X, y)
    row, reference = X[7], X.mean(axis=0)
    why = explain(clf, row, reference=reference, orders=400)
    sign = 1.0 if why.label == clf.classes_[1] else -1.0

    def score(mask):
        return sign * clf.decision_function(np.where(mask, row, reference)[None])[0]

    expected = shapley(score, 4)
    found = [why.contributions[f"x{k}"] for k in range(4)]
    np.testing.assert_allclose(found, expected, atol=0.03 * np.abs(expected).sum())
    assert sum(found) == pytest.approx(why.score - why.base)


def test_several_classes_and_pipelines():
    X, y = three_classes(n=200, d=3)
    clf = make_pipeline(StandardScaler(), MaxMargin(kernel="rbf")).fit(X, y)
    why = explain(clf, X[0], reference=X.mean(axis=0))
    outputs = clf.decision_function(X[:1])[0]
    assert why.label == clf.predict(X[:1])[0]
    assert why.score == pytest.approx(outputs.max())
    assert sum(why.contributions.values()) == pytest.approx(why.score - why.base)


TABLE = pd.DataFrame(
    {
        "age": np.tile([30.0, 40.0, np.nan, 50.0], 60),
        "plan": np.tile(["basic", "gold"], 120),
        "comment": np.tile(
            [
                "I want a refund now please",
                "all of it is very good",
                "a refund would be nice",
                "it is good, thank you",
            ],
            60,
        ),
    }
)
LABELS = np.tile(["leaves", "stays"], 120)
KINDS = {"comment": "text"}


def test_of_raw_tables_they_name_columns_and_words():
    rows = streams.open(TABLE.assign(label=LABELS), label="label", recipe=Recipe(kinds=KINDS))
    online = AutoMargin().fit_stream(rows)
    batch = make_pipeline(Recipe(kinds=KINDS), MaxMargin()).fit(TABLE, LABELS)
    for clf in (online, batch):
        why = explain(clf, TABLE.iloc[[0]])
        assert why.label == "leaves"
        assert set(why.contributions) >= {"age", "plan", "comment: refund"}
        words = {name: each for name, each in why.contributions.items() if ":" in name}
        assert max(words, key=words.get) in ("comment: refund", "comment: a")
        assert sum(why.contributions.values()) == pytest.approx(why.score - why.base)
    row = {"age": 30.0, "plan": "basic", "comment": "I want a refund now please"}
    assert explain(online, row).contributions == pytest.approx(
        explain(online, TABLE.iloc[[0]]).contributions
    )


def test_a_missing_value_contributes_nothing():
    rows = streams.open(TABLE.assign(label=LABELS), label="label", recipe=Recipe(kinds=KINDS))
    clf = AutoMargin().fit_stream(rows)
    assert "age" not in explain(clf, TABLE.iloc[[2]]).contributions


def test_of_dicts_and_prediction_sets():
    clf = ConformalClassifier(PassiveAggressive(C=0.1))
    for k in range(100):
        clf.learn_one({"a": 1.0, "b": float(k % 2)}, k % 2, classes=[0, 1])
    why = explain(clf, {"a": 1.0, "b": 1.0})
    assert why.label == 1
    assert next(iter(why.contributions)) == "b"
    plain = clf.estimator_
    weights = dict(zip(plain.columns_, plain.coef_[0], strict=True))
    assert why.contributions == pytest.approx(weights)


@pytest.mark.parametrize(
    "clf",
    [
        MaxMargin(),
        AutoMargin(random_state=0),
        make_pipeline(StandardScaler(), MaxMargin(kernel="rbf")),
        make_pipeline(StandardScaler().set_output(transform="pandas"), MaxMargin()),
    ],
)
def test_a_row_of_a_numeric_table_is_the_row_as_an_array(clf):
    X, y = overlapping(n=120, d=3)
    table = pd.DataFrame(X, columns=list("abc"))
    clf.fit(table, y)
    for reference in (None, table.mean()):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            why = explain(clf, table.iloc[[4]], reference=reference)
            by_series = explain(clf, table.iloc[4], reference=reference)
            array = None if reference is None else reference.to_numpy()
            by_array = explain(clf, X[4], reference=array, feature_names=list("abc"))
        assert why.contributions == pytest.approx(by_array.contributions)
        assert why.contributions == by_series.contributions
        assert (why.label, why.score) == (by_array.label, pytest.approx(by_array.score))


def test_rows_of_raw_tables_by_their_names():
    clf = make_pipeline(Recipe(kinds=KINDS), MaxMargin()).fit(TABLE, LABELS)
    frame, series = explain(clf, TABLE.iloc[[0]]), explain(clf, TABLE.iloc[0])
    assert series.contributions == pytest.approx(frame.contributions)


def test_dicts_where_none_are_taken():
    X, y = overlapping(n=50, d=2)
    with pytest.raises(TypeError, match="MaxMargin takes no dicts: pass a row of a table"):
        explain(MaxMargin().fit(X, y), {"a": 1.0})


def test_the_same_each_time():
    X, y = overlapping(n=100, d=5)
    clf = MaxMargin(kernel="rbf").fit(X, y)
    assert explain(clf, X[3]) == explain(clf, X[3])


def test_text_and_picture():
    pytest.importorskip("matplotlib")
    X, y = overlapping(n=100, d=20)
    why = explain(MaxMargin().fit(X, y), X[3])
    lines = str(why).splitlines()
    assert len(lines) == 14
    assert lines[-1].startswith("  8 others: ")
    ax = why.plot(n=5)
    assert [text.get_text() for text in ax.get_yticklabels()] == list(why.contributions)[:5][::-1]
    ax.figure.canvas.draw()


def test_of_the_reference_itself_nothing_contributes():
    X, y = overlapping(n=50, d=2)
    why = explain(MaxMargin().fit(X, y), X[0], reference=X[0])
    assert why.contributions == {}
    assert why.score == why.base


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"row": np.ones((2, 2))}, "a single row, got 2"),
        ({"reference": np.ones(3)}, "reference has 3 columns, row has 2"),
        ({"orders": 0}, "orders must be at least 1"),
    ],
)
def test_bad_input(change, message):
    X, y = overlapping(n=50, d=2)
    given = {"row": X[0], **change}
    with pytest.raises(ValueError, match=message):
        explain(MaxMargin().fit(X, y), given.pop("row"), **given)
