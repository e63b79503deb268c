"""Every public learner of weights, found by itself."""

import numpy as np
import pytest
from common.kinds import KINDS, SAME_KIND
from extent import everything_or

import maxmargin
from maxmargin import (
    ALMA,
    AMIRA,
    NOCA,
    NORMA,
    PUMMA,
    ROMMA,
    BisectionPerceptron,
    FixedShare,
    MaxMargin,
    PassiveAggressive,
    Relaxation,
)
from maxmargin.estimator import OnlineClassifier

ALL_ESTIMATORS = [
    public
    for public in (getattr(maxmargin, name) for name in maxmargin.__all__)
    if isinstance(public, type) and issubclass(public, OnlineClassifier | NOCA)
]
# Those that learn from streams.
ESTIMATORS = [each for each in ALL_ESTIMATORS if hasattr(each(), "partial_fit")]


def of_each_kind(estimators: list[type]) -> list[type]:
    """One learner of each kind of model, and every learner that `SAME_KIND` does not list.

    So a new learner is tested by default. `make test-all` tests all ``estimators``.
    """
    kinds = [each for each in KINDS.values() if any(issubclass(each, one) for one in estimators)]
    new = [each for each in estimators if each not in SAME_KIND]
    return everything_or(
        list(dict.fromkeys([*kinds, *new])), list(dict.fromkeys([*estimators, *kinds]))
    )


def over(estimators: list[type]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("Estimator", estimators, ids=lambda each: each.__name__)


KINDS_TO_CHECK = of_each_kind(ALL_ESTIMATORS)
SHELLS = of_each_kind(ESTIMATORS)

# What the shell does is tried on one learner of each kind; what each says of itself, on all.
every_estimator = over(SHELLS)
# A vote has no weights of features.
HYPERPLANES = [each for each in SHELLS if each.facts.certificate]
every_hyperplane = over(HYPERPLANES)
every_linear_hyperplane = over(
    [each for each in HYPERPLANES if getattr(each, "kernel", "linear") == "linear"]
)
# A set of components is larger than weights, see tests/algorithms/test_noca.py.
every_linear_estimator = over(
    [each for each in SHELLS if getattr(each, "kernel", "linear") == "linear" and each is not NOCA]
)
# Others keep each row that a stream brings, also if it was there before.
KEEPING_ALL = [KINDS[name] for name in ("kernel", "kernel in pairs", "kernel joint")]
BOUNDED = [each for each in SHELLS if each not in KEEPING_ALL]
every_bounded_estimator = over(BOUNDED)
every_warm_estimator = over([each for each in SHELLS if "warm_start" in each().get_params()])
every_bounded_warm_estimator = over(
    [each for each in BOUNDED if "warm_start" in each().get_params()]
)
every_settling_estimator = over([each for each in SHELLS if getattr(each, "settles", False)])
# How rows are stored is not the learner's business, and each way is compiled anew: one learner of
# weights, one of coefficients and one on a budget stand for all.
STORING = [KINDS[name] for name in ("linear", "kernel", "budget, the oldest goes")]
every_storing_estimator = over(everything_or(STORING, SHELLS))
every_public_estimator = over(ESTIMATORS)


def weights_of(learner) -> np.ndarray:
    """Of the features, of the rows that are kept, or of the experts of a vote; or clusters."""
    if isinstance(learner, NOCA):
        return np.append(learner.means_, learner.variances_)
    if not learner.facts.certificate:
        return learner.weights_
    return learner.coef_ if getattr(learner, "kernel", "linear") == "linear" else learner.dual_coef_


def memory(learner) -> dict:
    """All that can be seen of what a learner knows; a vote has no intercept and no certificate."""
    return {
        "weights": weights_of(learner).tolist(),
        "intercept": getattr(learner, "intercept_", np.zeros(0)).tolist(),
        "classes": learner.classes_.tolist(),
        "features": learner.n_features_in_,
        "passes": learner.n_iter_,
        "converged": getattr(learner, "converged_", None),
        "updates": getattr(learner, "n_updates_", None),
        "mistakes": learner.n_mistakes_,
        "certificate": str(getattr(learner, "certificate_", None)),
    }


def assert_same_model(first, second, rtol: float = 0.0) -> None:
    """The same weights, to the bit unless ``rtol`` is given, and the same counts.

    Products of matrices of kernel values may be rounded in another way each time.
    """
    if getattr(first, "kernel", "linear") != "linear":
        rtol = max(rtol, 1e-9)
    pairs = [(weights_of(first), weights_of(second))]
    if first.facts.certificate:
        pairs.append((first.intercept_, second.intercept_))
    for mine, other in pairs:
        np.testing.assert_allclose(mine, other, rtol=rtol, atol=rtol * np.abs(other).max())
    for name in ("n_updates_", "rho_"):
        assert getattr(first, name, None) == getattr(second, name, None)
    assert first.n_mistakes_ == second.n_mistakes_


def is_about_storage(check) -> bool:
    """Does a check of scikit-learn try other ways to store rows, several labels or weights?"""
    name = check.func.__name__
    if name in ("check_f_contiguous_array_estimator", "check_estimators_dtypes"):
        return True
    if name == "check_classifiers_multilabel_representation_invariance":
        return True
    ways = ("check_estimator_sparse_", "check_sample_weights_")
    return name.startswith(ways) or "X_dtype" in check.keywords


def can_hold(estimator, check) -> bool:
    """Can it be true of the learner what a check of scikit-learn says of weights?

    A row that is there twice comes at two times, and a weight of 2 at one. No weight takes a row
    far beyond its margin: where rows are constraints, as in PUMMA without a soft margin, weights
    change nothing, and where w is short or forgets, a class that counts more need not win
    everywhere; see docs/weights.md. A narrow kernel says nothing of rows that were not there. And
    one check sets n_iter_no_change, which is a constant of some learners.
    """
    if isinstance(estimator, MaxMargin):
        fixed = estimator.soft_margin != "auto" and estimator.calibration is None
        return fixed or not by_leaving_one_out(estimator, check)
    if is_about(check, "check_sample_weight_equivalence"):
        return False
    has_no_price = (
        getattr(estimator, "soft_margin", 0.0) == 0.0 and getattr(estimator, "C", None) is None
    )
    met_at_once = AMIRA | ROMMA | PUMMA | PassiveAggressive | BisectionPerceptron | Relaxation
    moderate = has_no_price and isinstance(estimator, met_at_once | ALMA | NORMA | FixedShare)
    narrow = getattr(estimator, "kernel", "linear") == "rbf"
    lacks_what_is_set = (
        isinstance(estimator, OnlineClassifier) and "n_iter_no_change" not in estimator.get_params()
    )
    cannot = moderate or narrow or lacks_what_is_set
    return not is_about(check, "check_class_weight_classifiers") or not cannot


def by_leaving_one_out(estimator, check) -> bool:
    """Is a check of scikit-learn about what leave-one-out changes?

    A row of weight 2 is left out as a whole, and of two rows only one at a time. A sigmoid need not
    be 1/2 where the score is 0, so that the likelier class may be the other one.
    """
    names = ["check_sample_weight_equivalence"]
    names += ["check_classifiers_train"] if estimator.calibration is not None else []
    return any(is_about(check, name) for name in names)


def is_about(check, name: str) -> bool:
    return getattr(check, "func", check).__name__.startswith(name)
