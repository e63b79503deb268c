"""Averaged weights are the mean of the weights after each trial."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

import maxmargin
from maxmargin import AMIRA, PassiveAggressive, Perceptron, Relaxation

LEARNERS = [
    Perceptron(margin=0.3),
    PassiveAggressive(C=0.4),
    PassiveAggressive(C=2.0, loss="squared_hinge", multiclass="1-best"),
    Relaxation(rate=1.5),
    AMIRA(epsilon=0.4, multiclass="ovr"),
    AMIRA(multiclass="1-best"),
    AMIRA(),
]


def rows(classes, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(40, 4))
    return X, random.integers(0, classes, 40)


@pytest.mark.parametrize(("classes", "as_sparse"), [(2, False), (2, True), (3, False)])
@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_the_mean_of_all_hypotheses(learner, classes, as_sparse):
    X, y = rows(classes)
    if as_sparse:
        X = sparse.csr_matrix(X)
    plain, seen = clone(learner), []
    for i in range(y.size):
        plain.partial_fit(X[i : i + 1], y[i : i + 1], classes=range(classes))
        seen.append(np.column_stack([plain.coef_, plain.intercept_]))
    mean = clone(learner).set_params(average=True).partial_fit(X, y, classes=range(classes))
    found = np.column_stack([mean.coef_, mean.intercept_])
    np.testing.assert_allclose(found, np.mean(seen, axis=0), rtol=1e-12, atol=1e-13)
    assert mean.n_updates_ == plain.n_updates_
    assert mean.n_mistakes_ == plain.n_mistakes_


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("learner", [PassiveAggressive(C=0.4), AMIRA()], ids=repr)
def test_the_mean_in_the_space_of_a_kernel(learner, classes):
    X, y = rows(classes)
    learner = clone(learner).set_params(kernel="rbf", gamma=0.3)
    plain, seen = clone(learner), []
    for i in range(y.size):
        plain.partial_fit(X[i : i + 1], y[i : i + 1], classes=range(classes))
        seen.append(plain.decision_function(X))
    mean = clone(learner).set_params(average=True).partial_fit(X, y, classes=range(classes))
    np.testing.assert_allclose(mean.decision_function(X), np.mean(seen, axis=0), atol=1e-10)


@pytest.mark.parametrize("learner", LEARNERS[1:], ids=repr)
def test_files_and_fits(tmp_path, learner):
    X, y = rows(3)
    for average in (False, True):
        clf = clone(learner).set_params(average=average, random_state=0, max_iter=3).fit(X, y)
        maxmargin.save(clf, tmp_path / "model.mm")
        found = maxmargin.load(tmp_path / "model.mm")
        assert found.average is average
        clf.partial_fit(X, y)
        np.testing.assert_array_equal(found.partial_fit(X, y).coef_, clf.coef_)


@pytest.mark.parametrize("other", [{"intercept": "pair"}, {"budget": 5}])
def test_what_cannot_be_averaged_says_so(other):
    X, y = rows(2)
    with pytest.raises(ValueError, match="'average' parameter"):
        AMIRA(average=True, **other).fit(X, y)
