"""The margin is the distance from the hyperplane: a length of the features' weights alone."""

import numpy as np
import pytest

from maxmargin import Perceptron
from maxmargin.certificates import geometric_margins


@pytest.mark.parametrize(("p", "expected"), [(2.0, 5.0), (3.0, (3.0**1.5 + 4.0**1.5) ** (2 / 3))])
def test_the_intercept_is_no_part_of_the_norm(p, expected):
    weights = np.array([[3.0, -4.0, 12.0], [0.0, 0.0, 7.0]])  # the last one is the intercept's
    margins = geometric_margins(np.array([10.0, 1.0]), weights, 2, p)
    np.testing.assert_allclose(margins, [10.0 / expected, 0.0])


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_near_p_1_the_dual_norm_is_the_largest_weight(size):
    weights = size * np.array([[3.0, -4.0, 12.0], [0.0, 0.0, 7.0]])
    margins = geometric_margins(np.array([10.0, 1.0]), weights, 2, 1.0001)
    np.testing.assert_allclose(margins, [2.5 / size, 0.0])


def test_a_fit_measures_the_distance_of_the_nearest_row():
    X, y = np.array([[5.0, 1.0], [7.0, 1.0], [4.5, 2.0], [8.0, 3.0]]), np.array([0, 1, 0, 1])
    clf = Perceptron(max_iter=1000, random_state=0).fit(X, y)
    outputs = np.where(y == 1, 1.0, -1.0) * clf.decision_function(X)
    assert abs(clf.intercept_[0]) > np.linalg.norm(clf.coef_[0])  # it would be seen in the norm
    nearest = outputs.min() / np.linalg.norm(clf.coef_[0])
    assert clf.certificate_.margin == pytest.approx(nearest, rel=1e-9)
