"""What can go wrong in the middle of a stream leaves the learner as it was."""

import copy

import numpy as np
import pytest
from persistence.states import known_to
from sklearn.metrics.pairwise import rbf_kernel

from maxmargin import AMIRA, Forgetron, PassiveAggressive, Perceptron, Projectron, streams

random = np.random.default_rng(0)
X = random.normal(size=(40, 3))
y = (X[:, 0] > 0.0).astype(int)


@pytest.mark.parametrize("learner", [Perceptron(rate=1e120), Perceptron(rate=1e120, average=True)])
def test_weights_that_overflow_are_refused(learner):
    clf = learner.partial_fit(1e-40 * X[:5], y[:5], classes=[0, 1])
    before = known_to(clf.__learned__())
    with pytest.raises(ValueError, match="diverged"):
        clf.partial_fit(1e45 * X, y)
    assert known_to(clf.__learned__()) == before
    assert np.isfinite(clf.decision_function(X)).all()


@pytest.mark.parametrize("name", ["partial_fit", "learn_one", "learn_one with names"])
def test_weights_that_overflow_by_one_row_are_refused(name):
    def learn(row, label):
        if name == "partial_fit":
            clf.partial_fit(row[None, :], [label], classes=[0, 1])
        else:
            clf.learn_one(dict(enumerate(row)) if "names" in name else row, label, classes=[0, 1])

    clf = Perceptron(rate=1e120, fit_intercept=False)
    for row, label in zip(1e-40 * X[:5], y[:5], strict=True):
        learn(row, label)
    before = known_to(clf.__learned__())
    wrong = int(clf.predict(X[:1])[0] == 0)
    with pytest.raises(ValueError, match="diverged"):
        learn(1e45 * X[0], wrong)
    assert known_to(clf.__learned__()) == before
    assert np.isfinite(clf.decision_function(X)).all()


def test_weights_that_overflow_by_another_rate_are_refused():
    clf = Perceptron(fit_intercept=False)
    for row, label in zip(X, y, strict=True):
        clf.learn_one(row, label, classes=[0, 1])
    before = known_to(clf.__learned__())
    wrong = int(clf.predict_one(X[0]) == 0)
    with pytest.raises(ValueError, match="diverged"):
        clf.set_params(rate=1e200).learn_one(1e48 * X[0], wrong)
    assert known_to(clf.__learned__()) == before
    clf.set_params(rate=1.0).learn_one(X[0], wrong)
    assert clf.n_updates_ > 0


class Reusing:
    """A kernel that writes to the same array each time."""

    def __init__(self):
        self.room = np.empty(100_000)

    def __call__(self, some, others):
        values = rbf_kernel(some, others, gamma=0.5)
        mine = self.room[: values.size].reshape(values.shape)
        mine[...] = values
        return mine


@pytest.mark.parametrize(
    "learner",
    [AMIRA(), Perceptron(), Forgetron(budget=6), Projectron(), AMIRA(budget=5, on_full="random")],
    ids=lambda each: type(each).__name__,
)
@pytest.mark.parametrize("fitted", [True, False])
def test_a_kernel_may_use_its_output_again(learner, fitted):
    learner.set_params(random_state=0)
    own, other = copy.deepcopy(learner), copy.deepcopy(learner)
    own.set_params(kernel=Reusing(), max_iter=3)
    other.set_params(kernel="rbf", gamma=0.5, max_iter=3)
    for clf in (own, other):
        if fitted:
            clf.fit(X, y)
        else:
            clf.partial_fit(X[:20], y[:20], classes=[0, 1]).partial_fit(X[20:], y[20:])
    np.testing.assert_allclose(own.decision_function(X), other.decision_function(X), atol=1e-5)


def test_tol_on_a_budget_needs_all_rows():
    clf = PassiveAggressive(budget=5, tol=0.1)
    with pytest.raises(ValueError, match="on a budget, needs all rows at once"):
        clf.fit_stream(streams.open([(X, y)]), passes=3)


def test_a_gamma_that_needs_all_rows_names_a_number():
    X = 2.0 * np.random.default_rng(0).normal(size=(50, 4))
    clf = Perceptron(kernel="rbf")
    wanted = 1.0 / (4 * X.var())
    with pytest.raises(ValueError, match=rf"try gamma={wanted:.2g}, as these rows suggest"):
        clf.partial_fit(X, X[:, 0] > 0, classes=[False, True])
    with pytest.raises(ValueError, match=r"try gamma=1\.0, as these rows suggest"):
        clf.partial_fit(np.ones((2, 4)), [0, 1], classes=[0, 1])
    with pytest.raises(ValueError, match='try gamma="first", which goes by the first row'):
        clf.fit_stream([(X, X[:, 0] > 0)])
