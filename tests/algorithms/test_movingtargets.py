"""What NORMA and TrackingALMA share: Lemma 2 behind their tuning, and the Perceptron as a limit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from maxmargin import NORMA, Perceptron, TrackingALMA
from maxmargin.algorithms.movingtargets import Comparison, best_gap, error_bound
from maxmargin.datasets import make_drifting

margins = st.floats(1e-3, 1e3)
losses = st.just(0.0) | st.floats(-12.0, 4.0).map(lambda power: 10.0**power)
constants = st.floats(-3.0, 6.0).map(lambda power: 10.0**power)


def errors(gap, margin, losses, constant):
    """What the proofs bound the errors by, for any gap between 0 and the margin."""
    return losses / (margin - gap) + constant / (gap * (margin - gap))


@given(margin=margins, losses=losses, constant=constants)
def test_gap_without_cancellation(margin, losses, constant):
    expected = margin / (1 + np.sqrt(1 + losses * margin / constant))
    assert best_gap(margin, losses, constant) == pytest.approx(expected, rel=1e-9)


@given(margin=margins, losses=losses, constant=constants)
def test_bound_is_the_value_at_the_gap(margin, losses, constant):
    gap = best_gap(margin, losses, constant)
    value = errors(gap, margin, losses, constant)
    assert error_bound(margin, losses, constant) == pytest.approx(value, rel=1e-9)


@given(margin=margins, losses=losses, constant=constants, part=st.floats(0.01, 0.99))
def test_no_other_gap_is_better(margin, losses, constant, part):
    limit = error_bound(margin, losses, constant)
    assert limit <= errors(part * margin, margin, losses, constant) * (1 + 1e-9)


def test_by_hand():
    assert best_gap(2.0, 3.0, 0.7) == pytest.approx(0.488547, abs=1e-6)
    assert error_bound(2.0, 3.0, 0.7) == pytest.approx(2.93282, abs=1e-5)
    assert best_gap(2.0, 0.0, 0.7) == 1.0


@given(margin=margins, losses=losses, length=constants, p=st.floats(2.0, 20.0))
def test_rate_balances_the_step_and_the_length(margin, losses, length, p):
    """The proof of Theorem 1 bounds the errors by ``K/(mu - z) + S/(2 alpha (mu - z))``, where
    ``z = alpha (p - 1) X^2 / 2``. At the rate chosen, z is the gap, and that is the bound."""
    comparison = Comparison(3.0, 1.0, margin, losses, p, length)
    rate, gap = comparison.rate(), comparison.gap()
    assert rate * (p - 1) * 9 / 2 == pytest.approx(gap)
    value = (losses + length / (2 * rate)) / (margin - gap)
    assert comparison.errors_below(0.0) == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("rate", [0.3, 1.0])
@pytest.mark.parametrize("space", [{"p": 4.0}, {"kernel": "rbf", "gamma": 2.0}], ids=str)
@pytest.mark.parametrize(
    "learner", [NORMA(decay=0.0, margin=0.0), TrackingALMA(radius=np.inf, margin=0.0)]
)
def test_perceptron_is_a_limit_in_other_spaces_too(learner, space, rate):
    X, y = make_drifting(400, random_state=0)
    limit = clone(learner).set_params(rate=rate, **space).partial_fit(X, y, classes=[-1, 1])
    perceptron = Perceptron(**space).partial_fit(X, y, classes=[-1, 1])
    assert limit.n_mistakes_ == perceptron.n_mistakes_ > 0
    np.testing.assert_array_equal(limit.predict(X), perceptron.predict(X))
    expected = rate * perceptron.decision_function(X)
    np.testing.assert_allclose(limit.decision_function(X), expected, rtol=1e-9, atol=1e-9)
