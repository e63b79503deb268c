"""What a fitted model is built from cannot change under it."""

import numpy as np
import pytest
from problems import separable
from sklearn.base import clone

from maxmargin import AMIRA, PUMMA, Perceptron

X, y = separable(n=30, d=3)

CHANGES = [
    (PUMMA(), {"p": 4.0}),
    (PUMMA(), {"fit_intercept": False}),
    (AMIRA(), {"soft_margin": 1.0}),
    (AMIRA(), {"intercept": "pair"}),
    (AMIRA(), {"intercept_scaling": 2.0}),
    (Perceptron(), {"average": True}),
]


@pytest.mark.parametrize(("learner", "change"), CHANGES, ids=str)
def test_changes_are_refused_and_the_model_stays(learner, change):
    (name,) = change
    for grow in ("partial_fit", "fit"):
        clf = clone(learner).set_params(warm_start=True).partial_fit(X, y, classes=[-1, 1])
        before = clf.coef_, clf.intercept_
        clf.set_params(**change)
        with pytest.raises(ValueError, match=f"'{name}' parameter of .* cannot change"):
            getattr(clf, grow)(X, y)
        np.testing.assert_array_equal(clf.coef_, before[0])
        np.testing.assert_array_equal(clf.intercept_, before[1])


def test_a_fresh_fit_takes_any_change():
    clf = PUMMA(random_state=0).fit(X, y).set_params(p=3.0).fit(X, y)
    assert clf.certificate_.ratio >= 0.9


def test_one_update_is_enough_for_a_certificate():
    far = X + 20.0 * y[:, None]
    clf = AMIRA(random_state=0).fit(far, y)
    largest = np.linalg.norm(far, axis=1).max()
    assert clf.certificate_.margin <= clf.certificate_.bound <= 1.001 * largest


def test_a_device_for_which_there_is_nothing_to_do():
    clf = Perceptron(random_state=0).fit([[1.0], [-1.0]], [0, 1])
    with pytest.raises(ValueError, match="device='cuda' is for kernels"):
        clf.set_params(device="cuda")
    assert clf.device == "cpu"
    assert clf.set_params(device="cpu").partial_fit([[2.0]], [0]).predict([[3.0]]) == [0]
