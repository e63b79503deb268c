"""Platt's sigmoids against scikit-learn's."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.calibration import CalibratedClassifierCV
from sklearn.dummy import DummyClassifier
from sklearn.frozen import FrozenEstimator

from maxmargin.training.platt import fitted_sigmoids, sigmoid_for


def drawn(seed, n=300):
    random = np.random.default_rng(seed)
    scores = random.normal(size=n) * 10.0 ** random.integers(-3, 4)
    positive = random.random(n) < expit(2.0 * scores / scores.std() - 1.0)
    positive[:2] = False, True
    return scores, positive, random.choice([0.5, 1.0, 3.0], n)


def log_loss(theta, scores, positive, weights):
    """With Platt's targets, as his paper has it."""
    own, rest = weights[positive].sum(), weights[~positive].sum()
    targets = np.where(positive, (own + 1) / (own + 2), 1 / (rest + 2))
    chances = np.clip(expit(theta[0] + theta[1] * scores), 1e-300, 1 - 1e-16)
    return -(weights * (targets * np.log(chances) + (1 - targets) * np.log(1 - chances))).sum()


@pytest.mark.parametrize("seed", range(10))
def test_it_is_the_minimum(seed):
    scores, positive, weights = drawn(seed)
    sizes = scores / np.abs(scores).mean()
    found = sigmoid_for(sizes, positive, weights)
    wanted = minimize(log_loss, [0.0, 0.0], (sizes, positive, weights), tol=1e-12)
    np.testing.assert_allclose(found, wanted.x, rtol=1e-4, atol=1e-4)
    assert log_loss(found, sizes, positive, weights) <= wanted.fun * (1 + 1e-9)


class Scored(FrozenEstimator):
    """Its scores are the first column."""

    def fit(self, X, y, sample_weight=None):
        return self

    def decision_function(self, X):
        return X[:, 0]


@pytest.mark.unseeded
def test_it_is_the_map_of_scikit_learn():
    scores, positive, weights = drawn(3)
    frozen = Scored(DummyClassifier().fit(scores[:, None], positive))
    theirs = CalibratedClassifierCV(frozen).fit(scores[:, None], positive, sample_weight=weights)
    sigmoids = fitted_sigmoids(scores[None], positive[None], weights)
    ours = expit(sigmoids.log_odds(scores[:, None]))[:, 0]
    np.testing.assert_allclose(ours, theirs.predict_proba(scores[:, None])[:, 1], atol=1e-4)


def test_scores_that_are_the_wrong_way_round_say_nothing():
    scores, positive, weights = drawn(4)
    offset, slope = sigmoid_for(-scores, positive, weights)
    assert slope == 0.0
    share = weights[positive].sum() / weights.sum()
    assert expit(offset) == pytest.approx(share, rel=0.02)


@pytest.mark.parametrize("size", [0.0, 1e-200, 1e90])
def test_scores_of_any_size(size):
    scores = size * np.array([-2.0, -1.0, 1.0, 2.0])
    sigmoids = fitted_sigmoids(scores[None], np.array([[False, False, True, True]]), np.ones(4))
    chances = expit(sigmoids.log_odds(scores[:, None]))[:, 0]
    assert np.isfinite(chances).all()
    np.testing.assert_allclose(chances + chances[::-1], 1.0, atol=1e-6)
    if size > 0.0:  # rows that are all right: no further than Platt's targets, 1/4 and 3/4
        assert chances[0] < 0.26 < 0.74 < chances[-1]
