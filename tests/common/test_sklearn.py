from common.estimators import ALL_ESTIMATORS
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import PUMMA

# The checks want good predictions where classes overlap: PUMMA needs a soft margin for them.
CHECKED = [Estimator() for Estimator in ALL_ESTIMATORS if Estimator is not PUMMA]


@parametrize_with_checks([*CHECKED, PUMMA(soft_margin=0.1)])
def test_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)
