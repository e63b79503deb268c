"""The certificate of a warm-started fit speaks of the rows of that fit, and of no others."""

import numpy as np
import pytest
import reference
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone

from maxmargin import (
    ALMA,
    AMIRA,
    PUMMA,
    ROMMA,
    Forgetron,
    PassiveAggressive,
    Perceptron,
    Projectron,
    streams,
)
from maxmargin.training.protocol import state_of

LEARNERS = [
    PUMMA(delta=0.1),
    PUMMA(p=4.0),
    AMIRA(intercept="pair"),
    AMIRA(),
    ROMMA(fit_intercept=False),
    PassiveAggressive(),
    Perceptron(margin=1.0),
    ALMA(fit_intercept=False),
]


def test_partners_from_before_are_no_rows_of_this_fit():
    clf = PUMMA(warm_start=True, random_state=0)
    clf.fit([[0.0], [0.1]], [0, 1]).fit([[0.0], [10.0]], [1, 0])
    assert clf.certificate_.margin == pytest.approx(5.0, rel=0.02)
    assert clf.certificate_.bound >= 5.0


@pytest.mark.parametrize("learner", [PUMMA(delta=0.01), PUMMA(delta=0.05, p=4.0)])
def test_other_rows_are_certified_after_fits_without_updates(learner):
    random = np.random.default_rng(0)
    first, then = random.normal(size=(2, 60, 3))
    sides = [np.where(X[:, k] > 0.0, 1, -1) for k, X in enumerate((first, then))]
    for k, (X, y) in enumerate(zip((first, then), sides, strict=True)):
        X[:, k] += 0.1 * y
    clf = clone(learner).set_params(warm_start=True, random_state=0)
    updates = [clf.fit(first, sides[0]).n_updates_ for _ in range(3)]
    assert updates[0] == updates[2]  # nothing was left to learn
    clf.fit(then, sides[1])
    assert clf.n_updates_ > updates[2]
    # There is evidence of its own, beside what the norms of the rows say.
    assert clf.certificate_.bound < 0.5 * state_of(clf).ceiling


small = st.integers(-4, 4)
sets = st.lists(st.tuples(small, small, st.booleans()), min_size=2, max_size=8)


@settings(max_examples=150)
@given(
    learner=st.sampled_from(LEARNERS),
    many=st.lists(sets, min_size=2, max_size=4),
    max_iter=st.sampled_from([1, 5, 40]),
    streamed=st.booleans(),
)
def test_no_bound_is_below_the_best_margin(learner, many, max_iter, streamed):
    clf = clone(learner).set_params(warm_start=True, random_state=0, max_iter=max_iter)
    seen, labels = np.empty((0, 2)), np.empty(0, int)
    for rows in many:
        X = np.array([row[:2] for row in rows], dtype=float)
        y = np.array([1 if row[2] else -1 for row in rows])
        y[:2] = 1, -1
        if streamed:  # bounds are about the rows of all streams, as those of partial_fit
            clf.fit_stream(streams.open([(X, y)]), passes=2)
            X, y = seen, labels = np.vstack([seen, X]), np.append(labels, y)
        else:
            clf.fit(X, y)
        if getattr(clf, "p", 2.0) == 2.0:
            best = reference.max_margin(X, y, clf.fit_intercept)[0]
            assert not clf.certificate_.bound < best * (1.0 - 1e-9)
        assert not clf.certificate_.margin > clf.certificate_.bound * (1.0 + 1e-9)


def test_a_stream_with_tol_is_about_its_own_rows():
    near, far = np.array([[0.0, 0.0], [0.1, 0.0]]), np.array([[0.0, 0.0], [10.0, 0.0]])
    for learner in LEARNERS:
        clf = clone(learner).set_params(warm_start=True, tol=0.1, random_state=0)
        clf.fit_stream(streams.open([(near, [0, 1])]), passes=50)
        clf.fit_stream(streams.open([(far, [0, 1])]), passes=50)
        assert not clf.certificate_.ratio > 1.0


# ---------------------------------------------------------------- kernels, budgets, streams of rows
def source(X, y):
    return streams.open(np.array(X, dtype=float), np.array(y))


@pytest.mark.parametrize(
    "learner",
    [
        PUMMA(),
        AMIRA(kernel="rbf", gamma=1.0),
        PUMMA(kernel="rbf", gamma=1.0),
        AMIRA(kernel="rbf", gamma=1.0, budget=4),
        Projectron(gamma=1.0),
    ],
    ids=["linear", "kernel", "kernel, pairs", "budget", "projections"],
)
def test_bounds_of_streams_are_about_the_rows_of_all_of_them(learner):
    """As those of `partial_fit`, which learns the same."""
    first, second = [[0.0], [0.1]], [[0.0], [20.0]]
    clf = clone(learner).set_params(random_state=0)
    clf.fit_stream(source(first, [0, 1])).fit_stream(source(second, [0, 1]))
    other = clone(learner).partial_fit(np.array(first), [0, 1], classes=[0, 1])
    other.partial_fit(np.array(second), [0, 1])
    assert clf.certificate_.bound == pytest.approx(other.certificate_.bound, rel=1e-12)


def test_a_stream_goes_on_with_the_norms_of_a_fit_before():
    clf = PUMMA(random_state=0).fit([[1.0], [-1.0]], [1, 0])
    clf.fit_stream(source([[100.0], [-100.0]], [1, 0]))
    assert clf.certificate_.bound >= 1.0


def test_rows_in_slots_may_have_other_labels():
    clf = Forgetron(budget=10, kernel="linear", warm_start=True, max_iter=1, shuffle=False)
    clf.fit([[2.0, 1.0], [0.0, -1.0]], [0, 1]).fit([[2.0, 1.0], [0.0, -1.0]], [1, 0])
    assert clf.certificate_.bound >= 1.0


def test_partners_with_other_labels_are_refused():
    clf = PUMMA(kernel="rbf", gamma=1.0, warm_start=True, random_state=0)
    clf.fit([[0.0], [1.0]], [0, 1])
    before = clf.certificate_
    with pytest.raises(ValueError, match="needs the labels of the last fit"):
        clf.fit([[0.0], [1.0]], [1, 0])
    assert clf.certificate_ == before
    assert clf.fit([[0.0], [1.0]], [0, 1]).certificate_.ratio > 0.99


@pytest.mark.parametrize("offset", [1000.1, 10000.1])
def test_sparse_rows_of_float32_far_from_the_origin(offset):
    X = sparse.csr_matrix(np.array([[offset], [offset + 1.0]], np.float32))
    clf = PUMMA(kernel="rbf", gamma=1.0, kernel_dtype="float64", random_state=0).fit(X, [0, 1])
    distance2 = np.diff(X.toarray().astype(float).ravel())[0] ** 2
    best = np.sqrt(0.5 * (1.0 - np.exp(-distance2)))
    assert clf.certificate_.bound == pytest.approx(best, rel=1e-6)
    assert clf.certificate_.margin == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("labels", [[1, 1, 1], [0, 1, 2]])
def test_small_steps_after_large_ones_with_a_soft_margin(labels):
    clf = Perceptron(margin=10.0, soft_margin=1.0, fit_intercept=False)
    if len(set(labels)) > 1:
        clf.set_params(multiclass="1-best")
    rows, classes = [[1e-3], [1e-3], [1e-3]], [0, 1, 2] if len(set(labels)) > 1 else [0, 1]
    clf.partial_fit(rows[:1], labels[:1], classes=classes)
    clf.set_params(rate=1e-9).partial_fit(rows[1:], labels[1:])
    # Rows with coordinates of their own are at right angles but for 1e-6.
    assert clf.certificate_.bound >= 0.577


three = st.lists(small, min_size=3, max_size=3)


@settings(max_examples=150)
@example(first=[-1, 0, 3], then=[3, -2, 1], later=[-2, 1], sides=[1, 1])
@given(
    first=three, then=three, later=st.lists(small, max_size=6), sides=st.lists(st.integers(0, 1))
)
def test_coordinates_of_rows_with_other_labels_before(first, then, later, sides):
    """In a fit, rows have the coordinates that rows of the other class had in the one before."""
    clf = PUMMA(soft_margin=1.0, warm_start=True, shuffle=False, max_iter=2)
    clf.fit(np.reshape(first, (3, 1)), [0, 1, 0]).fit(np.reshape(then, (3, 1)), [1, 0, 1])
    X, y = then.copy(), [1, 0, 1]
    for x, side in zip(later, sides, strict=False):
        clf.learn_one([x], side)
        X, y = [*X, x], [*y, side]
        rows = np.column_stack([X, np.eye(len(X))])
        best = reference.max_margin(rows, 2 * np.array(y) - 1, intercept=True)[0]
        assert clf.certificate_.bound >= best * (1.0 - 1e-9)


@pytest.mark.parametrize("scale", [1e6, 1e8])
def test_distances_from_a_span_are_as_exact_as_kernel_values(scale):
    X = sparse.csr_matrix([[scale], [scale + 1.0]])
    for dtype in ("float32", "float64"):
        clf = Projectron(gamma=100.0, kernel_dtype=dtype, shuffle=False).fit(X, [0, 1])
        assert clf.certificate_.bound >= 0.7071


def test_a_projectron_keeps_rows():
    with pytest.raises(ValueError, match="tol with a kernel, or on a budget"):
        Projectron(kernel="linear", tol=0.1).fit_stream(source(np.eye(3), [1, 0, 1]), passes=2)
