"""Single events, and scores before learning: the same as by the slower ways, in few calls."""

import copy
import sys

import numpy as np
import pytest
from problems import label
from scipy import sparse
from sklearn.base import clone

from maxmargin import AMIRA, NORMA, Forgetron, PassiveAggressive, Perceptron, Projectron
from maxmargin.evaluate import progressive
from maxmargin.training.protocol import state_of

pytestmark = pytest.mark.compiled

WIDTH = 14
AVERAGED = [
    Perceptron(average=True),
    PassiveAggressive(average=True, soft_margin=0.5),
    NORMA(average=True, fit_intercept=False),
    AMIRA(average=True),  # of several classes together
    Perceptron(average=True, kernel="rbf", gamma=0.1),
]
EVENTS = {
    "average": Perceptron(average=True),
    "oldest": Forgetron(gamma=0.1, budget=10),
    "project": Projectron(kernel="rbf", gamma=0.1, budget=10),
}


def rows_of(classes, n=120):
    random = np.random.default_rng(classes)
    X = random.standard_normal((n, WIDTH))
    X[3] = 0.0
    return X, np.digitize(X[:, 0] + 0.5 * random.standard_normal(n), [-0.5, 0.5][: classes - 1])


def dicts(X):
    return [{f"feature {j}": value for j, value in enumerate(row)} for row in X.tolist()]


def calls_in(work):
    """Calls of Python functions of the package and of what it uses."""
    made = 0

    def count(frame, event, arg):
        nonlocal made
        made += event == "call"

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return made


# ------------------------------------------------------------------------- scores before learning
@pytest.mark.parametrize("learner", AVERAGED, ids=label)
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("form", ["dense", "CSR"])
def test_scores_by_averages_are_those_of_single_rows(learner, classes, form):
    X, y = rows_of(classes)
    X = sparse.csr_matrix(X) if form == "CSR" else X
    order = np.arange(y.size, dtype=np.int32)
    order[5:60:7] = -1 - order[5:60:7]  # only looked at
    clf, alone = clone(learner), clone(learner)
    clf.partial_fit(X[:1], y[:1], classes=range(classes))
    alone.partial_fit(X[:1], y[:1], classes=range(classes))
    scores, updates = clf.score_then_learn(X, y, order)
    before = alone.n_updates_
    for i, found, made in zip(order, scores, updates, strict=True):
        k = max(i, -1 - i)
        row, expected = X[k : k + 1], np.ravel(alone.decision_function(X[k : k + 1]))
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
        if getattr(learner, "kernel", "linear") == "linear":  # both by the same products
            x = row.toarray()[0] if form == "CSR" else row[0]
            pair = (np.flatnonzero(x), x[np.flatnonzero(x)])
            np.testing.assert_array_equal(found, alone.decision_one(pair if form == "CSR" else x))
        if i >= 0:
            alone.partial_fit(row, y[k : k + 1])
        assert made == alone.n_updates_ - before
    np.testing.assert_array_equal(state_of(clf).model.weights(), state_of(alone).model.weights())


@pytest.mark.slow
@pytest.mark.parametrize("learner", AVERAGED[:-1], ids=label)
def test_any_chunking_gives_the_same_scores_by_averages(learner):
    X, y = rows_of(3)
    whole, pieces, found = clone(learner), clone(learner), []
    expected, _ = whole.score_then_learn(X, y, np.arange(y.size, dtype=np.int32), [0, 1, 2])
    for part in (slice(0, 1), slice(1, 50), slice(50, None)):
        order = np.arange(y[part].size, dtype=np.int32)
        found.append(pieces.score_then_learn(X[part], y[part], order, [0, 1, 2])[0])
    np.testing.assert_array_equal(np.concatenate(found), expected)


@pytest.mark.parametrize("average", [False, True])
def test_progressive_evaluation_makes_no_calls_for_rows(average):
    X, y = rows_of(2, n=3000)
    clf = Perceptron(average=average)
    progressive(clone(clf), X, y)  # which compiles
    few, many = (
        calls_in(lambda n=n: progressive(clone(clf), X[:n], y[:n], step=5000)) for n in (300, 3000)
    )
    assert many - few < 900  # snapshots at each doubling of the updates, of 2700 rows more


# ---------------------------------------------------------------------------------- single events
@pytest.mark.parametrize("classes", [2, 3])
def test_an_event_takes_few_calls(classes):
    clf, (X, y) = clone(EVENTS["average"]), rows_of(classes)
    rows = dicts(X)
    for row, code in zip(rows[:60], y[:60].tolist(), strict=True):
        clf.predict_one(row, grow=True)
        clf.learn_one(row, code, grow=True)

    def event(row, code):
        clf.predict_one(row, grow=True)
        clf.learn_one(row, code, grow=True)

    pairs = zip(rows[60:], y[60:].tolist(), strict=True)
    assert np.median([calls_in(lambda p=pair: event(*p)) for pair in pairs]) <= 60


@pytest.mark.parametrize("name", EVENTS)
@pytest.mark.parametrize("look", [False, True])
def test_events_teach_what_partial_fit_does(name, look):
    learner, (X, y) = EVENTS[name], rows_of(3)
    clf, expected, matrix = clone(learner), clone(learner), sparse.csr_matrix(X)
    for k, row in enumerate(dicts(X)):
        if look and k:
            scores = np.ravel(expected.decision_function(matrix[k : k + 1]))
            np.testing.assert_allclose(clf.decision_one(row), scores, rtol=1e-9, atol=1e-9)
            clf.predict_one(dict.fromkeys(row, 0.5))  # another row in between
        clf.learn_one(row, int(y[k]), classes=[0, 1, 2])
        expected.partial_fit(matrix[k : k + 1], y[k : k + 1], classes=[0, 1, 2])
        if k == 60:
            clf = copy.deepcopy(clf)
    assert clf.n_updates_ == expected.n_updates_ > 0
    assert clf.n_mistakes_ == expected.n_mistakes_
    one, other = (each.decision_function(matrix) for each in (clf, expected))
    np.testing.assert_array_equal(one, other)
