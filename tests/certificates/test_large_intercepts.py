"""Bounds where the intercept's coordinate is so large that the features hardly show in norms."""

import numpy as np
import pytest
from sklearn.base import clone

from maxmargin import AMIRA, ROMMA, PassiveAggressive, Perceptron, Projectron

SCALINGS = [1e4, 1e7, 1e8, 1e9]


def rows(classes):
    random = np.random.default_rng(classes)
    X = random.normal(size=(60, 3))
    centres = 12.0 * random.normal(size=(classes, 3))
    y = np.arange(60) % classes
    return X + centres[y], y


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize(
    "learner",
    [
        AMIRA(max_iter=20, random_state=0),
        AMIRA(max_iter=20, random_state=0, kernel="rbf"),
        Perceptron(max_iter=20, random_state=0, multiclass="1-best"),
        ROMMA(max_iter=20, random_state=0, multiclass="1-best"),
    ],
    ids=["k-best", "k-best with a kernel", "Perceptron", "ROMMA"],
)
def test_several_classes(learner, scaling):
    X, y = rows(3)
    attained = AMIRA(kernel=learner.kernel, random_state=0).fit(X, y).certificate_.margin
    assert attained > 0.0
    assert (
        clone(learner).set_params(intercept_scaling=scaling).fit(X, y).certificate_.bound
        >= attained
    )


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize(
    "learner",
    [
        ROMMA(max_iter=20, random_state=0),
        AMIRA(max_iter=20, random_state=0),
        Projectron(random_state=0, max_iter=20),
        PassiveAggressive(random_state=0, budget=20, on_full="project", max_iter=5),
    ],
    ids=lambda learner: type(learner).__name__,
)
def test_kernels(learner, scaling):
    X, y = rows(2)
    attained = AMIRA(kernel="rbf", random_state=0).fit(X, y).certificate_.margin
    assert attained > 0.0
    clf = clone(learner).set_params(intercept_scaling=scaling, kernel="rbf").fit(X, y)
    assert clf.certificate_.bound >= attained
