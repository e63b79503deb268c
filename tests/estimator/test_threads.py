"""Several threads on one estimator: learning is serialised, and readers see a whole model."""

import threading

import numpy as np
import pytest
from sklearn.base import clone

from maxmargin import AMIRA, PUMMA, Forgetron, MaxMargin, Perceptron

ROWS = 300
random = np.random.default_rng(0)
X = random.normal(size=(ROWS, 4))
y = (X[:, 0] > 0.0).astype(int)
NAMED = [dict(zip("abcd", row, strict=True)) for row in X.tolist()]


def together(*jobs):
    """Run them at once; what one raises is raised here."""
    failures, start = [], threading.Barrier(len(jobs))

    def run(job):
        start.wait()
        try:
            job()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


@pytest.mark.parametrize(
    "learner", [Perceptron(), PUMMA(), AMIRA(), Forgetron(budget=10, gamma=0.5, random_state=0)]
)
@pytest.mark.parametrize("rows", [X, NAMED], ids=["dense", "dicts"])
def test_no_row_is_lost_and_none_learned_twice(learner, rows):
    learner = clone(learner).learn_one(rows[0], 0, classes=[0, 1])

    def learn():
        for row, label in zip(rows, y.tolist(), strict=True):
            learner.learn_one(row, label)

    together(learn, learn, learn)
    assert learner._state.model.trials() == 3 * ROWS + 1


def test_one_row_and_many_rows_and_new_names():
    clf = Perceptron().learn_one(NAMED[0], 0, classes=[0, 1])

    def names(first):
        for k in range(150):
            clf.learn_one({"a": 1.0, f"{first}{k}": 2.0}, k % 2)

    together(lambda: names("x"), lambda: names("y"), lambda: [clf.predict_one(r) for r in NAMED])
    assert clf._state.model.trials() == 301
    assert clf.n_features_in_ == len(clf.columns_) == 4 + 2 * 150
    assert sorted(clf.columns_.values()) == list(range(304))


def test_readers_see_a_whole_model():
    """All coordinates of a row are the same, and so are those of w, at every moment."""
    wide = np.ones((1, 200_000))
    clf = Perceptron(margin=1e9).partial_fit(wide, [0], classes=[0, 1])
    done = threading.Event()

    def learn():
        for k in range(60):
            clf.partial_fit(wide, [k % 3 == 0])
        done.set()

    def read():
        while not done.is_set():
            coef = clf.coef_
            assert coef.min() == coef.max()

    together(learn, read)


def test_a_fit_waits_for_rows_and_rows_for_a_fit():
    clf = Perceptron(max_iter=2, warm_start=True, random_state=0).fit(X, y)
    trials = clf._state.model.trials()

    def fit():
        for _ in range(5):
            clf.fit(X, y)

    together(fit, lambda: [clf.learn_one(row, label) for row, label in zip(X, y, strict=True)])
    assert clf._state.model.trials() >= trials + ROWS + 5 * ROWS


@pytest.mark.parametrize(
    "learner",
    [
        MaxMargin(loss="hinge"),
        MaxMargin(loss="hinge", kernel="rbf"),
        MaxMargin(kernel="rbf", calibration="loo"),
    ],
    ids=["hinge", "hinge, rbf", "rbf"],
)
def test_an_exact_fit_is_seen_as_a_whole(learner):
    """While one thread fits to other labels again and again, others see one model or the next."""
    labels = y, 1 - y
    wanted = [clone(learner).fit(X, each).decision_function(X[:20]) for each in labels]
    clf, done = clone(learner).fit(X, y), threading.Event()

    def fit():
        try:
            for k in range(6):
                clf.fit(X, labels[k % 2])
        finally:
            done.set()

    def read():
        while not done.is_set():
            found = clf.decision_function(X[:20])
            assert any(np.array_equal(found, each) for each in wanted)

    together(fit, read, read)
