"""Averaged weights are the mean of the weights after each trial."""

import copy
import warnings
from itertools import product

import numpy as np
import pytest
import reference
import reference_kernel
import reference_multiclass
from extent import everything_or
from scipy import sparse
from sklearn.base import clone

from maxmargin import (
    ALMA,
    AMIRA,
    MICRA,
    NORMA,
    ROMMA,
    DirectionalPerceptron,
    PassiveAggressive,
    Pegasos,
    Perceptron,
    Relaxation,
    TrackingALMA,
)
from maxmargin.persistence import model_tree
from maxmargin.spaces.certificate_vectors import LARGEST_AVERAGED_SCALE
from maxmargin.training.protocol import state_of

# Learners whose weights shrink, with their names in the references.
SHRINKING = [
    (NORMA(rate=0.3, decay=0.5, margin=0.5), "norma"),
    (NORMA(rate=0.5, decay=1.99999, margin=1.0), "norma"),  # w shrinks to 5e-6 in each trial
    (Pegasos(lambda_=0.1), "pegasos"),
    (Pegasos(lambda_=0.1, project=True), "pegasos"),
    (ALMA(alpha=0.5), "alma"),
    (MICRA(beta=0.5, eta=0.9, epsilon=0.7, zeta=0.3), "micra"),
    (ROMMA(delta=0.1), "romma"),
    (DirectionalPerceptron(beta=0.1, length="fixed", rate=0.3), "directional_perceptron"),
    (TrackingALMA(rate=0.5, radius=0.7, margin=0.3), "tracking_alma"),
]
every_shrinking = pytest.mark.parametrize(
    ("learner", "name"), SHRINKING, ids=[repr(learner) for learner, _ in SHRINKING]
)
LEARNERS = [
    *(learner for learner, _ in SHRINKING),
    ROMMA(delta=0.1, multiclass="1-best"),
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


def signed(size, noise, seed=0):
    """Rows and their signs, a part of them drawn by lot."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(size, 4))
    X[:: size // 3] = 0.0  # trials without an update
    y = np.where(X @ [1.0, -1.0, 0.5, 0.0] > 0.2, 1.0, -1.0)
    return X, np.where(random.random(size) < noise, random.choice([-1.0, 1.0], size), y)


def parameters_of(learner, function):
    """Those that the reference has, too."""
    given = learner.get_params()
    return {name: given[name] for name in function.__kwdefaults__ or () if name in given} | {
        name: given[name] for name in ("rate", "decay", "margin", "radius", "beta") if name in given
    }


def mean_by_reference(learner, name, X, y):
    function = getattr(reference, name)
    history = function(np.c_[X, np.ones(len(X))], y, **parameters_of(learner, function)).history
    if name == "micra":  # of which only the direction matters
        history = history / np.linalg.norm(history, axis=1)[:, None]
    return history.mean(axis=0)


def streamed(learner, X, y, **settings):
    return clone(learner).set_params(**settings).partial_fit(X, y, classes=np.unique(y))


def assert_same(found, wanted, digits=1e-10):
    np.testing.assert_allclose(found, wanted, rtol=0.0, atol=digits * np.abs(wanted).max())


def scale_of(clf):
    return abs(state_of(clf).model.linear.scalars.table.scale[0])


@pytest.mark.parametrize("noise", [0.0, 0.4])
@every_shrinking
def test_the_mean_of_what_the_reference_does(learner, name, noise):
    X, y = signed(300, noise)
    clf = streamed(learner, X, y, average=True)
    wanted = mean_by_reference(learner, name, X, y)
    assert_same(np.append(clf.coef_, clf.intercept_), wanted)
    assert 1.0 <= LARGEST_AVERAGED_SCALE * scale_of(clf) <= LARGEST_AVERAGED_SCALE**2


@every_shrinking
def test_passes_are_trials_one_after_the_other(learner, name):
    X, y = signed(50, 0.2)
    once = {"shuffle": False, "max_iter": 4, "average": True}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = clone(learner).set_params(**once).fit(X, y)
    wanted = mean_by_reference(learner, name, np.tile(X, (clf.n_iter_, 1)), np.tile(y, clf.n_iter_))
    assert clf.n_iter_ > 1
    assert_same(np.append(clf.coef_, clf.intercept_), wanted)


@pytest.mark.parametrize(
    ("learner", "name"),
    [(Pegasos(lambda_=0.01), "pegasos"), (NORMA(rate=0.1, decay=0.02, margin=1.0), "norma")],
    ids=repr,
)
def test_digits_of_long_streams(learner, name):
    X, y = signed(25_000, 0.1)
    clf = streamed(learner, X, y, average=True)
    assert_same(np.append(clf.coef_, clf.intercept_), mean_by_reference(learner, name, X, y), 1e-9)
    plain = streamed(learner, X, y)
    assert scale_of(plain) < 1.0 / LARGEST_AVERAGED_SCALE < scale_of(clf)


def test_weights_that_are_forgotten_count():
    X, y = np.array([[2.0], [0.5], [0.0], [-0.25]]), np.array([1, 1, 1, -1])
    history = [0.5, 2.0, 2.0, 4.0]  # each row gets what it asks for, and nothing before it is kept
    clf = streamed(ROMMA(delta=0.1, fit_intercept=False), X, y, average=True)
    np.testing.assert_allclose(clf.coef_, [[np.mean(history)]], rtol=1e-15)


# Loops over kernel values are compiled anew for each rule: those that scale w before and after.
IN_KERNELS = [each for each, _ in everything_or([SHRINKING[k] for k in (0, 2, 4, 6)], SHRINKING)]


@pytest.mark.parametrize(
    ("learner", "kernel"),
    [*product([each for each, _ in SHRINKING], ["linear"]), *product(IN_KERNELS, ["rbf"])],
    ids=repr,
)
def test_chunks_of_a_stream(learner, kernel):
    X, y = signed(300, 0.2)
    settings = {"average": True, "kernel": kernel, "gamma": 0.3, "kernel_dtype": "float64"}
    whole = streamed(learner, X, y, **settings)
    parts = clone(learner).set_params(**settings)
    for start, stop in ((0, 1), (1, 2), (2, 60), (60, 300)):
        parts.partial_fit(X[start:stop], y[start:stop], classes=[-1, 1])
    if kernel == "linear":
        np.testing.assert_array_equal(parts.coef_, whole.coef_)
        np.testing.assert_array_equal(parts.intercept_, whole.intercept_)
    else:
        assert_same(parts.decision_function(X), whole.decision_function(X))


# Every rule on dense rows of two classes; on others each way to keep the mean.
WAYS = [
    *product(everything_or([LEARNERS[0]], LEARNERS), [(2, True)]),
    *product(everything_or([LEARNERS[0], *LEARNERS[-2:]], LEARNERS), [(3, False)]),
]


@pytest.mark.parametrize(("learner", "data"), [*product(LEARNERS, [(2, False)]), *WAYS], ids=repr)
def test_the_mean_of_all_hypotheses(learner, data):
    classes, as_sparse = data
    X, y = rows(classes)
    if as_sparse:
        X = sparse.csr_matrix(X)
    plain, seen = clone(learner), []
    for i in range(y.size):
        plain.partial_fit(X[i : i + 1], y[i : i + 1], classes=range(classes))
        seen.append(np.column_stack([plain.coef_, plain.intercept_]))
    mean = clone(learner).set_params(average=True).partial_fit(X, y, classes=range(classes))
    found = np.column_stack([mean.coef_, mean.intercept_])
    np.testing.assert_allclose(found, np.mean(seen, axis=0), rtol=1e-12, atol=1e-12)
    assert mean.n_updates_ == plain.n_updates_
    assert mean.n_mistakes_ == plain.n_mistakes_


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    "learner",
    [PassiveAggressive(C=0.4), AMIRA(), NORMA(rate=0.5, decay=0.5), ROMMA(multiclass="1-best")],
    ids=repr,
)
def test_the_mean_in_the_space_of_a_kernel(learner, classes):
    X, y = rows(classes)
    learner = clone(learner).set_params(kernel="rbf", gamma=0.3)
    plain, seen = clone(learner), []
    for i in range(y.size):
        plain.partial_fit(X[i : i + 1], y[i : i + 1], classes=range(classes))
        seen.append(plain.decision_function(X))
    mean = clone(learner).set_params(average=True).partial_fit(X, y, classes=range(classes))
    np.testing.assert_allclose(mean.decision_function(X), np.mean(seen, axis=0), atol=1e-10)


@pytest.mark.parametrize(
    ("learner", "name"), [each for each in SHRINKING if each[0] in IN_KERNELS], ids=repr
)
def test_kernels_of_rows_outside_the_block(learner, name):
    X, y = signed(600, 0.0 if name == "romma" else 0.3)  # without a margin its w grows for ever
    # The linear kernel, in the space of a kernel.
    settings = {"average": True, "kernel": "poly", "gamma": 1.0, "degree": 1, "coef0": 0.0}
    clf = streamed(learner, X, y, **settings, kernel_dtype="float64")
    mean = mean_by_reference(learner, name, X, y)
    new = np.random.default_rng(1).normal(size=(20, 4))
    assert_same(clf.decision_function(new), new @ mean[:4] + mean[4])
    # Blocks of a fit, in two passes.
    clf.set_params(cache_size=0.1, max_iter=2, shuffle=False).fit(X, y)
    mean = mean_by_reference(learner, name, np.tile(X, (2, 1)), np.tile(y, 2))
    assert_same(clf.decision_function(new), new @ mean[:4] + mean[4], 1e-9)


@every_shrinking
def test_the_mean_of_coefficients(learner, name):
    X, y = signed(60, 0.3)
    function = getattr(reference, name)
    rows = reference_kernel.rows_of(reference_kernel.rbf(X, X, 0.3))
    given = parameters_of(learner, function)
    history = function(np.tile(rows, (3, 1)), np.tile(y, 3), **given).history
    if name == "micra":
        history = history / np.linalg.norm(history, axis=1, keepdims=True)
    settings = {"kernel": "rbf", "gamma": 0.3, "fit_intercept": False, "average": True}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = clone(learner).set_params(shuffle=False, max_iter=3, **settings).fit(X, y)
    assert clf.n_iter_ == 3
    assert_same(clf.decision_function(X), rows @ history.mean(axis=0))


def test_classes_that_shrink_together():
    X = np.random.default_rng(3).normal(size=(200, 4))
    y = X[:, :3].argmax(axis=1)
    learner = ROMMA(delta=0.5, multiclass="1-best", fit_intercept=False, average=True)
    history = reference_multiclass.learned("romma_1best", X, y, 3, delta=0.5).history
    clf = streamed(learner, X, y)
    assert_same(clf.coef_, history.mean(axis=0))
    settings = {"kernel": "poly", "gamma": 1.0, "degree": 1, "kernel_dtype": "float64"}
    clf = streamed(learner, X, y, **settings)
    assert_same(clf.decision_function(X), X @ history.mean(axis=0).T, 1e-9)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_copies_learn_by_themselves(kernel):
    X, y = signed(120, 0.3)
    clf = streamed(NORMA(rate=0.5, decay=0.5, average=True), X, y, kernel=kernel, gamma=0.3)
    before, other = clf.decision_function(X), copy.deepcopy(clf)
    other.partial_fit(X, y)
    np.testing.assert_array_equal(clf.decision_function(X), before)
    np.testing.assert_array_equal(
        clf.partial_fit(X, y).decision_function(X), other.decision_function(X)
    )


def test_grown_columns_and_classes():
    X, y = signed(120, 0.3)
    learner = NORMA(rate=0.5, decay=0.5, average=True)
    grown = clone(learner).partial_fit(np.ascontiguousarray(X[:60, :3]), y[:60], grow=True)
    grown.partial_fit(X[60:], y[60:], grow=True)
    known = streamed(learner, np.c_[X[:60, :3], np.zeros(60)], y[:60])
    known.partial_fit(X[60:], y[60:])
    np.testing.assert_array_equal(grown.coef_, known.coef_)
    three = np.where(X[:, 0] > 1.0, 2.0, y)
    three[:60] = y[:60]
    grown = clone(learner).partial_fit(X[:60], y[:60], grow=True)
    grown.partial_fit(X[60:], three[60:], grow=True)
    known = streamed(learner, X, three)
    np.testing.assert_allclose(grown.coef_, known.coef_, rtol=1e-13)


def test_soft_margins_of_a_fit_go_on_in_a_stream():
    X, y = signed(40, 0.3)
    clf = NORMA(rate=0.5, decay=0.5, average=True, soft_margin=0.5, max_iter=2, shuffle=False)
    clf.fit(X, y)
    z = np.c_[X, np.ones(40), np.sqrt(0.5) * np.eye(40)]
    history = reference.norma(np.tile(z, (2, 1)), np.tile(y, 2), rate=0.5, decay=0.5, margin=1.0)
    assert_same(clf.coef_[0], history.history.mean(axis=0)[:4])
    own = np.zeros((120, 85))
    own[:, :5] = np.tile(z[:, :5], (3, 1))
    own[:40, 5:45] = own[40:80, 5:45] = own[80:, 45:] = z[:, 5:]
    history = reference.norma(own, np.tile(y, 3), rate=0.5, decay=0.5, margin=1.0).history
    clf.partial_fit(X, y)
    assert_same(clf.coef_[0], history.mean(axis=0)[:4])


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_files_of_means_that_never_shrank_are_what_they_were(kernel):
    X, y = signed(40, 0.3)
    for learner, has_past in ((Perceptron(average=True), False), (NORMA(average=True), True)):
        clf = streamed(learner, X, y, kernel=kernel, gamma=0.3)
        names = {path.rpartition(".")[2] for path in model_tree.leaves_of(state_of(clf).model)}
        assert ("past" in names) is has_past


@pytest.mark.parametrize(
    "learner",
    [
        *(AMIRA(intercept="pair"), AMIRA(budget=5), NORMA(budget=5)),
        *(ALMA(p=3.0), TrackingALMA(p=3.0), Perceptron(p=3.0)),
    ],
    ids=repr,
)
def test_what_cannot_be_averaged_says_so(learner):
    X, y = rows(2)
    with pytest.raises(ValueError, match="'average' parameter"):
        clone(learner).set_params(average=True).fit(X, y)
