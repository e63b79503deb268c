"""Learners in other processes: of joblib, and of multiprocessing with spawn and forkserver."""

import multiprocessing

import numpy as np
import pytest
from joblib import Parallel, delayed
from joblib.externals.loky import get_reusable_executor
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score

from maxmargin import AMIRA, NORMA, PassiveAggressive, Perceptron

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:A worker stopped while some jobs were given"),
]


@pytest.fixture(scope="module", autouse=True)
def no_processes_left():
    yield
    get_reusable_executor().shutdown(wait=True)


# More than the megabyte from which on joblib maps arrays into its processes, read-only.
ROWS, WIDTH = 7000, 20
random = np.random.default_rng(3)
X = random.normal(size=(ROWS, WIDTH))
y = (X @ random.normal(size=(WIDTH, 3))).argmax(axis=1)
SPARSE = sparse.csr_matrix(np.where(np.abs(X) > 0.02, X, 0.0))
FEW = slice(300)

CASES = {
    "dense": (Perceptron(max_iter=2, random_state=0), X, y),
    "sparse": (Perceptron(max_iter=2, random_state=0), SPARSE, y),
    "budget": (NORMA(kernel="rbf", gamma=0.1, budget=20, max_iter=1, random_state=0), X, y == 0),
    "kernel": (AMIRA(kernel="rbf", gamma=0.1, max_iter=2, random_state=0), X[FEW], y[FEW] == 0),
}


def fitted(clf, rows, labels):
    values = rows.data if sparse.issparse(rows) else rows
    return values.flags.writeable, clf.fit(rows, labels)


def learned(clf, rows, labels):
    return clf.partial_fit(rows, labels)


def same(one, other, rows):
    return one.decision_function(rows).tobytes() == other.decision_function(rows).tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_joblib_gives_what_one_process_gives(case):
    clf, rows, labels = CASES[case]
    near = clone(clf).fit(rows, labels)
    far = Parallel(n_jobs=2)(delayed(fitted)(clone(clf), rows, labels) for _ in range(2))
    assert all(same(one, near, rows) for _, one in far)
    if case != "kernel":
        assert [writeable for writeable, _ in far] == [False, False]
    further = Parallel(n_jobs=2)(delayed(learned)(near, rows, labels) for _ in range(2))
    near.partial_fit(rows, labels)
    assert all(same(one, near, rows) for one in further)


def test_searches_and_scores_are_those_of_one_process():
    grid = {"C": [0.01, 1.0], "kernel": ["linear", "rbf"], "gamma": [0.1]}
    clf = PassiveAggressive(max_iter=2, random_state=0)
    found = [GridSearchCV(clf, grid, n_jobs=jobs, cv=2).fit(X[FEW], y[FEW] == 0) for jobs in (1, 2)]
    scores = [search.cv_results_["mean_test_score"].tolist() for search in found]
    assert scores[0] == scores[1]
    assert same(found[0].best_estimator_, found[1].best_estimator_, X[FEW])
    clf, rows, labels = CASES["dense"]
    scores = [cross_val_score(clf, rows, labels, n_jobs=jobs, cv=2).tolist() for jobs in (1, 2)]
    assert scores[0] == scores[1]


@pytest.mark.slow
@pytest.mark.parametrize("way", ["spawn", "forkserver"])
def test_a_child_learns_and_its_learner_comes_back(way):
    if way not in multiprocessing.get_all_start_methods():
        pytest.skip(f"there is no {way} here")
    near = Perceptron(max_iter=2, random_state=0).fit(X[FEW], y[FEW])
    with multiprocessing.get_context(way).Pool(1) as pool:
        _, far = pool.apply(fitted, (clone(near), X[FEW], y[FEW]))
        further = pool.apply(learned, (near, X[FEW], y[FEW]))
    assert same(far, near, X)
    assert same(further, near.partial_fit(X[FEW], y[FEW]), X)
