"""Rows far from the origin, interruptions, damaged input, and searches that give up."""

import warnings

import numpy as np
import pytest
from extent import everything_or
from problems import overlapping, separable
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from maxmargin import (
    AMIRA,
    PUMMA,
    BisectionPerceptron,
    Forgetron,
    PassiveAggressive,
    Perceptron,
    Projectron,
    RandomBudgetPerceptron,
    certify,
)
from maxmargin.models import kernel_model
from maxmargin.training.protocol import state_of

RANDOM = np.random.default_rng(1)
X = RANDOM.normal(size=(60, 4))
y = np.where(X @ [1.0, 2.0, -1.0, 0.5] > 0.0, 1, -1)
CURVED = np.where(X[:, 0] + X[:, 1] ** 2 > 1.0, 1, -1)


# ------------------------------------------------------------------------- far from the origin
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("learner", [PUMMA(delta=0.05), AMIRA(intercept="pair")])
@pytest.mark.parametrize("offset", [1e7, 1e9])
def test_pairs_are_told_apart_wherever_they_are(form, learner, offset):
    near = learner.set_params(random_state=0).fit(form(X), y)
    updates, margin = near.n_updates_, near.certificate_.margin
    far = learner.fit(form(X + offset), y)
    assert far.n_updates_ == updates
    assert far.certificate_.margin == pytest.approx(margin, rel=1e-3)
    best = SVC(kernel="linear", C=1e8).fit(X, y)
    assert far.certificate_.bound >= 0.999 / np.linalg.norm(best.coef_)


def test_a_certificate_for_rows_far_away():
    clf = SVC(kernel="linear", C=1e6).fit(X, y)
    assert certify(clf, X, y).ratio > 0.98
    shifted = SVC(kernel="linear", C=1e6).fit(X + 1e5, y)
    assert certify(shifted, X + 1e5, y).bound >= certify(clf, X, y).margin


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("offset", [100.0, 1e5])
def test_gaussian_kernels_do_not_see_where_the_rows_are(dtype, offset):
    clf = PUMMA(delta=0.05, kernel="rbf", gamma=0.5, kernel_dtype=dtype, random_state=0)
    near = clf.fit(X, CURVED).certificate_
    far = clf.fit(X + offset, CURVED).certificate_
    assert far.margin == pytest.approx(near.margin, rel=1e-4)
    assert far.bound >= near.margin
    assert far.ratio <= 1.0
    assert clf.score(X + offset, CURVED) == 1.0


def test_many_rows_far_away_are_computed_exactly_enough(monkeypatch):
    monkeypatch.setattr(kernel_model, "MANY_ROWS", 100)
    random = np.random.default_rng(0)
    rows = random.normal(size=(200, 2))
    labels = (rows[:, 0] ** 2 + rows[:, 1] > 0.5).astype(int)
    rows *= 50.0  # gamma times the squared norms is too much for float32
    clf = AMIRA(kernel="rbf", gamma=0.5, max_iter=1, random_state=0).fit(rows, labels)
    assert state_of(clf).model.kernel.dtype == np.float64
    nearer = clone(clf).fit(rows / 50.0, labels)
    assert state_of(nearer).model.kernel.dtype == np.float32


def test_matrices_that_are_no_kernels_prove_nothing():
    K = rbf_kernel(X) - 0.5
    np.fill_diagonal(K, 0.6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        clf = AMIRA(kernel="precomputed", fit_intercept=False, max_iter=2, random_state=0)
        clf.fit(K, y)
    assert clf.certificate_.bound > 0.0
    K[0] += 1.0
    with pytest.raises(ValueError, match="symmetric"):
        AMIRA(kernel="precomputed").fit(K, y)


# --------------------------------------------------------------------------------- giving up
def test_bisection_finds_the_margin_or_says_that_it_did_not():
    clf = BisectionPerceptron(precision=0.02, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        clf.fit(X, y)
    assert clf.converged_
    hasty = BisectionPerceptron(precision=0.02, max_checks=2000, random_state=0)
    with pytest.warns(ConvergenceWarning, match="gave up"):
        hasty.fit(X, y)
    assert not hasty.converged_
    assert clf.certificate_.margin >= hasty.certificate_.margin


@pytest.mark.parametrize("p", [2.5, 4.0, 8.0])
@pytest.mark.parametrize("seed", range(3))
def test_pumma_on_rows_that_cannot_be_separated(p, seed):
    rows = [[0, 1], [1, 1], [1, 0], [0, 0], [0, 0], [0, 1], [1, 0]]
    with pytest.warns(ConvergenceWarning):
        clf = PUMMA(p=p, random_state=seed).fit(rows, [0, 0, 1, 0, 1, 1, 0])
    assert np.isfinite(clf.coef_).all()
    assert clf.certificate_.ratio == 0.0


def test_a_negative_margin_never_converges():
    rows, labels = separable(n=40, d=3)
    labels[:10] *= -1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        clf = PUMMA(tol=1.0, max_iter=3, random_state=0).fit(rows, labels)
    assert clf.certificate_.margin < 0.0
    assert not clf.converged_


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_predictions_do_not_follow_columns_that_are_not_there(kernel):
    clf = AMIRA(kernel=kernel, random_state=0).fit(X, y)
    damaged = sparse.csr_matrix(X)
    damaged.indices[3] = 1000
    with pytest.raises(ValueError, match=r"column outside 0\.\.3"):
        clf.decision_function(damaged)


# ------------------------------------------------------------------------------ streams and budgets
ON_STREAMS = [
    Perceptron(kernel="rbf", gamma=0.5),
    Forgetron(budget=30, gamma=0.5),
    RandomBudgetPerceptron(budget=30, gamma=0.5, random_state=0),
    PassiveAggressive(C=1.0, kernel="rbf", gamma=0.5, budget=30),
]
on_streams = pytest.mark.parametrize("learner", ON_STREAMS, ids=str)


# Each is compiled anew for single precision.
@pytest.mark.slow
@pytest.mark.parametrize("learner", everything_or(ON_STREAMS[1:2], ON_STREAMS), ids=str)
def test_single_precision_on_a_stream_that_moves_away(learner):
    X, y = overlapping(n=200, d=4)
    clf = clone(learner).partial_fit(X.astype(np.float32), y, classes=[-1, 1])
    far = (X + 1e4).astype(np.float32)
    for _ in range(2):
        clf.partial_fit(far, y)
    exact = far.astype(np.float64)[:, None] - np.asarray(clf.support_vectors_, dtype=np.float64)
    outputs = np.exp(-0.5 * (exact**2).sum(axis=2)) @ clf.dual_coef_[0] + clf.intercept_[0]
    np.testing.assert_allclose(clf.decision_function(far), outputs, atol=1e-5 * abs(outputs).max())


@pytest.mark.parametrize("learner", [*ON_STREAMS[1:], Projectron()], ids=str)
def test_kernels_of_others_are_never_called_without_rows(learner):
    X, y = overlapping(n=60, d=4)
    settings = {"random_state": 0, "max_iter": 1}
    clf = clone(learner).set_params(kernel=rbf_kernel, **settings).fit(X, y)
    same = clone(learner).set_params(kernel="rbf", gamma=0.25, **settings).fit(X, y)
    np.testing.assert_allclose(clf.decision_function(X), same.decision_function(X), atol=1e-9)
    clf, same = (clone(one).partial_fit(X, y, classes=[-1, 1]) for one in (clf, same))
    np.testing.assert_allclose(clf.decision_function(X), same.decision_function(X), atol=1e-9)


@on_streams
def test_a_kernel_that_fails_at_once_shows_its_own_error(learner):
    def broken(some, others):
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        clone(learner).set_params(kernel=broken).fit(*overlapping(n=20))


@on_streams
def test_a_row_that_overflows_the_kernel_late_in_a_stream(learner):
    X, y = overlapping(n=600, d=4)
    clf = clone(learner).set_params(kernel="poly", degree=30, gamma=1.0)
    clf.partial_fit(X[:50], y[:50], classes=[-1, 1])
    before = clf.dual_coef_.copy(), clf.n_updates_, clf.n_mistakes_
    X[500] = 1e20
    with pytest.raises(ValueError, match="with itself is not finite"):
        clf.partial_fit(X, y)
    np.testing.assert_array_equal(clf.dual_coef_, before[0])
    assert (clf.n_updates_, clf.n_mistakes_) == before[1:]


def test_labels_of_another_kind_do_not_join():
    X, y = overlapping(n=20)
    clf = PassiveAggressive().partial_fit(X, y, grow=True)
    with pytest.raises(ValueError, match="all of one kind"):
        clf.partial_fit(X, np.where(y > 0, "yes", "no"), grow=True)
    for others in (["yes", None], [1, "yes"]):
        with pytest.raises(ValueError, match="y must contain labels of one kind"):
            clf.partial_fit(X[:2], np.array(others, dtype=object), grow=True)
    assert clf.classes_.tolist() == [-1, 1]


def test_tables_after_dicts_must_have_the_same_columns():
    class Table:
        def __init__(self, **columns):
            self.columns, self.values = list(columns), np.column_stack(list(columns.values()))
            self.shape = self.values.shape

        def to_numpy(self):
            return self.values

    clf = PassiveAggressive().learn_one({"a": 2.0, "b": 1.0}, 0, classes=[0, 1])
    a, b = np.array([-2.0, 5.0]), np.array([7.0, 3.0])
    expected = clf.decision_function(np.column_stack([a, b]))
    np.testing.assert_array_equal(clf.decision_function(Table(a=a, b=b)), expected)
    with pytest.raises(ValueError, match=r"must be \['a', 'b'\], in this order"):
        clf.decision_function(Table(b=b, a=a))
