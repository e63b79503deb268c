"""Margins in a kernel's space, stated by certificates, against sums in extended precision."""

import numpy as np
import pytest
from sklearn.base import clone

from maxmargin import NORMA, PUMMA, Perceptron, RandomBudgetPerceptron

LONG = np.longdouble


def rbf(some, others, gamma):
    gaps = some[:, None].astype(LONG) - others[None].astype(LONG)
    return np.exp(-LONG(gamma) * (gaps**2).sum(axis=2))


def attained(clf, X, y, gamma):
    """The margin of the rows by the supports, with the intercept as a coordinate."""
    weights = clf.dual_coef_.astype(LONG)[0]
    supports = clf.support_vectors_
    offset = LONG(clf.intercept_scaling) ** 2 if clf.fit_intercept else LONG(0.0)
    outputs = weights @ rbf(supports, X, gamma) + offset * weights.sum()
    length = np.sqrt(weights @ rbf(supports, supports, gamma) @ weights)
    return float((np.where(y == 1, outputs, -outputs)).min() / length)


def rows(seed, size=30):
    random = np.random.default_rng(seed)
    X = random.normal(size=(size, 2))
    return X, (X[:, 0] > 0.0).astype(int)


@pytest.mark.parametrize("seed", range(3))
def test_supports_that_are_dropped_do_not_count(seed):
    X, y = rows(seed)
    clf = NORMA(
        kernel="rbf",
        gamma=2.0,
        rate=0.5,
        decay=0.05,
        truncation=0.2,
        fit_intercept=False,
        max_iter=3,
        random_state=0,
    ).fit(X, y)
    everyone = clone(clf).set_params(truncation=0.0).fit(X, y)
    assert 0 < clf.support_.size < everyone.support_.size
    found = clf.certificate_.margin
    assert found == pytest.approx(attained(clf, X, y, 2.0), rel=1e-9)
    assert found != pytest.approx(everyone.certificate_.margin, rel=1e-3)


@pytest.mark.parametrize("scaling", [1e3, 1e5])
@pytest.mark.parametrize(
    "learner",
    [Perceptron(max_iter=50), RandomBudgetPerceptron(budget=6, max_iter=2)],
    ids=repr,
)
def test_large_intercepts_leave_digits_to_margins(learner, scaling):
    X, y = rows(1)
    learner = clone(learner).set_params(
        kernel="rbf", gamma=1e-6, fit_intercept=True, intercept_scaling=scaling, random_state=0
    )
    clf = learner.fit(X, y)
    assert clf.certificate_.margin == pytest.approx(attained(clf, X, y, 1e-6), rel=1e-7)


@pytest.mark.parametrize("size", [1e-11, 1e10])
def test_kernel_values_that_float32_has_not(size):
    X, y = rows(2)
    X = (size * X).astype(np.float32)
    learner = PUMMA(kernel="poly", gamma=1.0, degree=3, delta=0.1, random_state=0)
    exact = clone(learner).fit(X.astype(np.float64), y).certificate_
    auto = clone(learner).fit(X, y).certificate_
    assert auto.margin == pytest.approx(exact.margin, rel=0.2)
    assert auto.bound >= exact.margin
    single = clone(learner).set_params(kernel_dtype="float32")
    if size > 1.0:
        with pytest.raises(ValueError, match="too large for float32"):
            single.fit(X, y)
    else:
        assert single.fit(X, y).certificate_.bound >= exact.margin
