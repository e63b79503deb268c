"""A sample of random fits: no bound is below a margin that can be attained."""

from dataclasses import replace

import numpy as np
import pytest
from campaigns.random_fits import Case, Step, check_number, learn, question
from sklearn.base import clone

from maxmargin import AMIRA, PUMMA, ROMMA, MaxMargin

# Few loops to compile: names of learners, some of their parameters, and numbers of classes.
LINEAR = {"kernel": "linear", "p": 2.0, "average": False, "budget": None}
FEW = (
    ("PUMMA", {"kernel": "linear", "p": 2.0, "fit_intercept": True}, 2),
    ("PUMMA", {"kernel": "linear", "p": 4.0}, 2),
    ("AMIRA", {**LINEAR, "multiclass": "k-best", "intercept": "coordinate"}, 3),
    ("AMIRA", {"kernel": "rbf", "intercept": "coordinate", "budget": None}, 2),
    ("ROMMA", {"kernel": "linear"}, 2),
    ("Perceptron", {**LINEAR, "multiclass": "ovr"}, 3),
    ("MaxMargin", {"kernel": "linear"}, 2),
    ("MaxMargin", {"kernel": "rbf", "multiclass": "ovr"}, 3),
    ("MaxMargin", {"kernel": "linear", "multiclass": "joint"}, 3),
    ("MaxMargin", {"kernel": "rbf", "multiclass": "joint"}, 4),
)
FITS = 300


def test_no_bound_is_below_a_margin():
    refused = 0
    for number in range(FITS):
        _, findings, refusal = check_number(number, seed=0, few=FEW)
        assert not findings, number
        refused += bool(refusal)
    assert refused < 0.3 * FITS


ROWS = {"line": np.array([[1.0, 0.0], [-1.0, 0.0]]), "corners": np.eye(3)}


@pytest.mark.parametrize(
    ("learner", "rows"),
    [
        (PUMMA(), "line"),
        (PUMMA(p=4.0), "line"),
        (PUMMA(p=4.0, fit_intercept=False), "line"),
        (PUMMA(soft_margin=1.0), "line"),
        (PUMMA(soft_margin=1.0, class_weight={0: 4.0, 1: 0.5}), "line"),
        (ROMMA(fit_intercept=False), "line"),
        (AMIRA(kernel="rbf", gamma=1.0), "line"),
        (AMIRA(epsilon=0.0, fit_intercept=False), "corners"),
        (PUMMA(delta=0.0), "corners"),
        *(
            (MaxMargin(loss=loss, kernel=kernel, fit_intercept=intercept, tol=1e-6), rows)
            for loss in ("hinge", "squared_hinge")
            for kernel, rows in (("linear", "line"), ("rbf", "corners"))
            for intercept in (False, True)
        ),
    ],
    ids=str,
)
def test_a_bound_that_is_too_low_is_found(learner, rows):
    X, y = ROWS[rows], np.arange(len(ROWS[rows]))
    clf = clone(learner)
    if hasattr(clf, "random_state"):
        clf.random_state = 0
    case = Case(clf, [Step("fit", X, y, {})], np.eye(*X.shape))
    certificate = learn(case).certificate_
    assert not list(question(case).findings(certificate))
    classes = [replace(each, bound=0.999 * each.bound) for each in certificate.classes]
    lowered = replace(certificate, bound=0.999 * certificate.bound, classes=tuple(classes))
    found = list(question(case).findings(lowered))
    assert {each.kind for each in found} == {"bound"}
    assert len({each.text.partition(":")[0] for each in found}) == max(1, len(classes))


def test_slacks_are_those_of_the_coefficients():
    """Kernel values of 1e39: steps that lead nowhere once left slacks of 0 behind."""
    X = np.array([[-16, -62, -73], [86, 76, -42], [-23, -9, 8], [20, 14, -74], [-66, 30, -60]])
    X = np.vstack([X, [[24, 53, 38], [12, 9, -63], [15, 35, -3], [-14, 4, -41], [78, 33, -5]]])
    X, y = np.vstack([X, [23, -37, -28]]) * 1e8, np.array([1, 2, 0, 1, 0, 2, 2, 0, 1, 0, 1])
    clf = MaxMargin(kernel="poly", degree=2, gamma="auto", fit_intercept=False)
    clf.set_params(loss="hinge", soft_margin=10.0, tol=0.1, max_iter=300)
    case = Case(clf, [Step("fit", X, y, {})], np.eye(3))
    with pytest.warns(UserWarning, match="scale the columns"), np.errstate(all="ignore"):
        certificate = learn(case).certificate_
    assert not list(question(case).findings(certificate))
