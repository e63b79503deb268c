"""Every public learner of weights, found by itself."""

import numpy as np
import pytest

import maxmargin
from maxmargin.estimator import OnlineClassifier

ALL_ESTIMATORS = [
    public
    for public in (getattr(maxmargin, name) for name in maxmargin.__all__)
    if isinstance(public, type) and issubclass(public, OnlineClassifier)
]
# Those that learn from streams.
ESTIMATORS = [each for each in ALL_ESTIMATORS if hasattr(each(), "partial_fit")]

every_estimator = pytest.mark.parametrize("Estimator", ESTIMATORS, ids=lambda each: each.__name__)
every_linear_estimator = pytest.mark.parametrize(
    "Estimator",
    [each for each in ESTIMATORS if each.kernel == "linear"],
    ids=lambda each: each.__name__,
)
every_settling_estimator = pytest.mark.parametrize(
    "Estimator",
    [each for each in ESTIMATORS if each.settles],
    ids=lambda each: each.__name__,
)


def weights_of(learner) -> np.ndarray:
    """Of the features, or of the rows that are kept."""
    return learner.coef_ if learner.kernel == "linear" else learner.dual_coef_


def memory(learner) -> dict:
    """All that can be seen of what a learner knows."""
    return {
        "weights": weights_of(learner).tolist(),
        "intercept": learner.intercept_.tolist(),
        "classes": learner.classes_.tolist(),
        "features": learner.n_features_in_,
        "passes": learner.n_iter_,
        "converged": learner.converged_,
        "updates": learner.n_updates_,
        "mistakes": learner.n_mistakes_,
        "certificate": str(learner.certificate_),
    }


def assert_same_model(first, second, rtol: float = 0.0) -> None:
    """The same weights, to the bit unless ``rtol`` is given, and the same counts.

    Products of matrices of kernel values may be rounded in another way each time.
    """
    if first.kernel != "linear":
        rtol = max(rtol, 1e-9)
    for mine, other in (
        (weights_of(first), weights_of(second)),
        (first.intercept_, second.intercept_),
    ):
        np.testing.assert_allclose(mine, other, rtol=rtol, atol=rtol * np.abs(other).max())
    assert first.n_updates_ == second.n_updates_
    assert first.n_mistakes_ == second.n_mistakes_
