from common.estimators import KINDS_TO_CHECK
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import PUMMA

CHECKED = [Estimator(random_state=0) for Estimator in KINDS_TO_CHECK]


# Without a soft margin PUMMA says by a tag that it may predict badly where classes overlap.
@parametrize_with_checks([*CHECKED, PUMMA(soft_margin=0.1, random_state=0)])
def test_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)
