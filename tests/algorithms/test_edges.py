"""Theorems where margins are tiny, rows far away, or nothing can be separated."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import hadamard
from sklearn.exceptions import ConvergenceWarning

from maxmargin import AMIRA, PUMMA, ROMMA, BisectionPerceptron, Perceptron


def close_pairs(margin, count=30, seed=0):
    """Pairs of rows on either side of a plane, at that distance."""
    base = np.random.default_rng(seed).normal(size=(count, 4))
    base[:, 0] = 0.0
    X = np.concatenate([base, base])
    y = np.repeat([1, -1], count)
    X[:, 0] = margin * y
    return X, y


@pytest.mark.parametrize("margin", [8e-6, 1e-6, 1e-8, 1e-10])
@pytest.mark.parametrize("p", [2.0, 3.0])
def test_pumma_reaches_tiny_margins(margin, p):
    X, y = close_pairs(margin)
    clf = PUMMA(p=p, delta=0.1, random_state=0).fit(X, y)
    assert clf.converged_
    assert clf.certificate_.margin >= 0.9 * margin
    assert clf.certificate_.bound >= margin
    assert clf.n_updates_ < 200


@pytest.mark.parametrize("margin", [8e-6, 1e-8, 1e-10])
def test_romma_reaches_tiny_margins(margin):
    X, y = close_pairs(margin)
    clf = ROMMA(delta=0.1, fit_intercept=False, random_state=0).fit(X, y)
    assert clf.converged_
    assert clf.certificate_.margin >= 0.9 * margin
    assert clf.n_updates_ < 1000


def noisy(count=300):
    random = np.random.default_rng(1)
    X = random.normal(size=(count, 4))
    return X, np.sign(X[:, 0] + 0.7 * random.normal(size=count))


@pytest.mark.parametrize(
    "learner", [ROMMA(delta=0.1), PUMMA(), PUMMA(p=3.0)], ids=["ROMMA", "PUMMA", "p = 3"]
)
def test_a_fit_ends_where_nothing_can_be_separated(learner):
    X, y = noisy()
    learner.set_params(random_state=0, max_iter=2000)
    with pytest.warns(ConvergenceWarning, match="not separable"):
        learner.fit(X, y)
    assert learner.n_iter_ < 2000
    assert not learner.converged_
    assert learner.certificate_.bound < 1e-8


@pytest.mark.parametrize("learner", [ROMMA(delta=0.1), PUMMA()], ids=["ROMMA", "PUMMA"])
def test_a_stream_goes_on_where_nothing_can_be_separated(learner):
    X, y = noisy(3000)
    for _ in range(10):
        learner.partial_fit(X, y, classes=[-1, 1])
    assert np.isfinite(learner.coef_).all()
    assert learner.score(X, y) > 0.6


@pytest.mark.parametrize("p", [2.0, 4.0, 11.09])
def test_the_bound_of_the_perceptron_in_p_norms(p):
    """Columns of a Walsh matrix as targets: few of many features matter."""
    X = hadamard(256).astype(float)
    for column in (1, 5, 77):
        y = X[:, column]
        rows = np.delete(np.arange(256), 0)
        clf = Perceptron(p=p, fit_intercept=False, random_state=0).fit(X[rows], y[rows])
        radius, margin = 256.0 ** (1.0 / p), 1.0  # of the target's own weight vector, of norm 1
        assert clf.n_updates_ <= Perceptron.max_updates(radius, margin, p=p)
        threshold = 3.0 * radius**2
        clf.set_params(margin=threshold).fit(X[rows], y[rows])
        fraction = Perceptron.margin_fraction(radius, threshold=threshold, p=p)
        assert clf.n_updates_ <= Perceptron.max_updates(radius, margin, threshold=threshold, p=p)
        assert clf.certificate_.margin >= fraction * margin


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    epsilon=st.sampled_from([0.1, 0.5, 0.9, 1.0]),
    noise=st.sampled_from([0.0, 0.3, 2.0]),
    margin=st.floats(0.05, 5.0),
)
def test_the_bound_of_amira_where_nothing_can_be_separated(seed, epsilon, noise, margin):
    random = np.random.default_rng(seed)
    X = random.normal(size=(60, 3)) * np.exp(random.normal(size=(60, 1)))
    u = random.normal(size=3)
    u /= np.linalg.norm(u)
    y = np.where(X @ u + noise * random.normal(size=60) > 0.0, 1, -1)
    clf = AMIRA(epsilon=epsilon, fit_intercept=False)
    for _ in range(3):
        clf.partial_fit(X, y, classes=[-1, 1])
    losses = np.maximum(0.0, margin - y * (X @ u))
    norms = np.linalg.norm(X, axis=1)
    bound = AMIRA.max_updates_inseparable(
        epsilon,
        norms.max(),
        margin,
        squared_losses=3.0 * (losses**2).sum(),
        smallest=norms.min(),
    )
    assert clf.n_updates_ <= bound


def test_the_printed_theorem_of_amira_fails_where_ours_holds():
    """Rows 1 and 0.01 with different labels, in turns: 100 updates."""
    X, y = np.tile([[1.0], [0.01]], (50, 1)), np.tile([1, -1], 50)
    clf = AMIRA(epsilon=1.0, fit_intercept=False).partial_fit(X, y, classes=[-1, 1])
    assert clf.n_updates_ == 100
    margins = np.geomspace(1e-3, 1e3, 2001)
    losses = np.array([(np.maximum(0.0, g - y * X[:, 0]) ** 2).sum() for g in margins])
    printed = ((1.0 + np.sqrt(losses)) / margins) ** 2
    ours = [
        AMIRA.max_updates_inseparable(1.0, 1.0, g, squared_losses=e, smallest=0.01)
        for g, e in zip(margins, losses, strict=True)
    ]
    assert printed.min() < 100
    assert min(ours) >= 100


@pytest.mark.parametrize("two_stage", [False, True])
@pytest.mark.parametrize("margin", [1e-2, 1e-3, 1e-4])
def test_bisection_separates_what_can_be_separated(margin, two_stage):
    X, y = close_pairs(margin)
    clf = BisectionPerceptron(
        two_stage=two_stage, fit_intercept=False, random_state=0, max_checks=60 * 100
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf.fit(X, y)
    assert clf.certificate_.margin > 0.0
    assert clf.rounds_[0].outcome == "reached"


def exact_margin_squared(clf, X, y):
    """The least ``y (w.x + b)``, and |w|**2, as fractions."""
    w = [Fraction(float(each)) for each in clf.coef_[0]]
    b = Fraction(float(clf.intercept_[0]))
    outputs = [
        (sum(a * Fraction(float(v)) for a, v in zip(w, row, strict=True)) + b) * int(sign)
        for row, sign in zip(X, y, strict=True)
    ]
    return min(outputs), sum(a * a for a in w)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    away=st.sampled_from([0.0, 1.0, 1e4, 1e8]),
    size=st.sampled_from([1e-9, 1.0, 1e9]),
    learner=st.sampled_from(
        [PUMMA(max_iter=3), AMIRA(max_iter=3, intercept_scaling="max"), ROMMA(max_iter=3)]
    ),
)
def test_margins_are_rounded_down(seed, away, size, learner):
    random = np.random.default_rng(seed)
    X, y = random.normal(size=(12, 3)), np.repeat([1, -1], 6)
    X[:, 0] += y
    X = size * (X + away)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = learner.set_params(random_state=0).fit(X, y)
    lowest, square = exact_margin_squared(clf, X, y)
    said = Fraction(clf.certificate_.margin)
    # said <= lowest / |w|, without a root
    if said > 0:
        assert lowest > 0
        assert said * said * square <= lowest * lowest
    elif lowest < 0:
        assert said * said * square >= lowest * lowest
