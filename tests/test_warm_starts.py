"""The certificate of a warm-started fit speaks of the rows of that fit, and of no others."""

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from maxmargin import ALMA, AMIRA, PUMMA, ROMMA, PassiveAggressive, Perceptron, streams

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
    assert clf.certificate_.bound < 0.5 * clf._state.ceiling


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
    for rows in many:
        X = np.array([row[:2] for row in rows], dtype=float)
        y = np.array([1 if row[2] else -1 for row in rows])
        y[:2] = 1, -1
        if streamed:
            clf.fit_stream(streams.open([(X, y)]), passes=2)
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
