import pytest
from common.estimators import KINDS_TO_CHECK, STORING, can_hold, is_about_storage
from extent import EVERYTHING, everything_or
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import (
    AMIRA,
    PUMMA,
    ROMMA,
    ConformalClassifier,
    LabelQueries,
    MaxMargin,
    PassiveAggressive,
    Perceptron,
)


def made(Estimator, **parameters):
    """With few passes: much of the data cannot be separated. ROMMA needs all to predict well."""
    passes = {} if EVERYTHING or Estimator is ROMMA else {"max_iter": 30}
    return Estimator(random_state=0, **passes, **parameters)


EXACT = [
    MaxMargin(soft_margin=1.0),
    *(MaxMargin(soft_margin=1.0, kernel="rbf", loss=loss) for loss in ("squared_hinge", "hinge")),
    *(MaxMargin(calibration="loo", kernel=kernel) for kernel in ("linear", "rbf")),
    *everything_or([], [MaxMargin(), MaxMargin(soft_margin=1.0, class_weight="balanced")]),
]
CHECKED = [
    *map(made, KINDS_TO_CHECK),
    # Without a soft margin PUMMA says by a tag that it may predict badly where classes overlap.
    made(PUMMA, soft_margin=0.1),
    made(AMIRA, multiclass="1-best"),
    *everything_or([], [made(AMIRA, multiclass="ovr"), made(Perceptron, multiclass="1-best")]),
    *EXACT,
    ConformalClassifier(PassiveAggressive(random_state=0)),
    LabelQueries(PassiveAggressive(random_state=0), random_state=0),
]


def is_tried(estimator, check):
    stored = (*STORING, MaxMargin, ConformalClassifier)
    return EVERYTHING or not is_about_storage(check) or isinstance(estimator, stored)


every_check = parametrize_with_checks(CHECKED).mark
CHECKS = [pair for pair in every_check.args[1] if is_tried(*pair) and can_hold(*pair)]


@pytest.mark.unseeded  # some of the checks are
@pytest.mark.parametrize(("estimator", "check"), CHECKS, ids=every_check.kwargs["ids"])
def test_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)
