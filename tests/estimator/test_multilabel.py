"""Rows with several labels: one problem for each, as if it were learned alone."""

import numpy as np
import pytest
from extent import everything_or
from scipy import sparse
from sklearn.base import clone
from sklearn.multiclass import OneVsRestClassifier

import maxmargin
from maxmargin import (
    ALMA,
    AMIRA,
    NOCA,
    NORMA,
    PUMMA,
    BisectionPerceptron,
    FixedShare,
    Forgetron,
    MaxMargin,
    PassiveAggressive,
    Perceptron,
    certify,
)

LEARNERS = [
    Perceptron(shuffle=False, max_iter=5),
    PassiveAggressive(C=0.1, average=True, shuffle=False, max_iter=5),
    AMIRA(multiclass="ovr", shuffle=False, max_iter=5),
    PUMMA(shuffle=False, max_iter=5),
    PUMMA(shuffle=False, max_iter=5, soft_margin=0.5),
    ALMA(p=4.0, shuffle=False, max_iter=5),
    NORMA(shuffle=False, max_iter=5),
]
# One of each way to keep weights; targets are the same for all, with and without weights of rows.
KINDS = everything_or([LEARNERS[k] for k in (0, 1, 3, 4, 5)], LEARNERS)
WEIGHTED = everything_or(LEARNERS[:1], LEARNERS)


def rows(labels=3, seed=0, size=60):
    random = np.random.default_rng(seed)
    X = random.normal(size=(size, 5))
    Y = (X @ random.normal(size=(5, labels)) + 0.3 * random.normal(size=(size, labels)) > 0.2) * 1
    return X, Y


@pytest.mark.parametrize("labels", [2, 3])
@pytest.mark.parametrize("learner", KINDS, ids=repr)
def test_each_label_is_learned_as_if_alone(learner, labels):
    X, Y = rows(labels)
    with_weights = np.random.default_rng(1).integers(1, 4, X.shape[0])
    for weights in (None, with_weights) if learner in WEIGHTED else (None,):
        learner = clone(learner)
        streamed = clone(learner).partial_fit(X, Y, sample_weight=weights)
        alone = [clone(learner).partial_fit(X, y, [0, 1], weights) for y in Y.T]
        wanted = np.column_stack([each.decision_function(X) for each in alone])
        np.testing.assert_allclose(streamed.decision_function(X), wanted, rtol=1e-10, atol=1e-12)
        assert streamed.n_updates_ == sum(each.n_updates_ for each in alone)
        np.testing.assert_array_equal(streamed.predict(X), wanted >= 0.0)
        if getattr(learner, "soft_margin", 0.0) > 0.0:
            return  # pairs of streams mind no weights there
    assert streamed.predict(X).shape == Y.shape
    assert streamed.classes_.tolist() == list(range(labels))


def test_exactly():
    X, Y = rows(4)
    found = MaxMargin(soft_margin=1.0, tol=1e-6).fit(X, Y)
    wanted = OneVsRestClassifier(MaxMargin(soft_margin=1.0, tol=1e-6)).fit(X, Y)
    np.testing.assert_allclose(
        found.decision_function(X), wanted.decision_function(X), rtol=1e-3, atol=1e-3
    )
    assert found.certificate_.ratio >= 1.0 - 1e-6
    assert found.score(X, Y) == pytest.approx(wanted.score(X, Y), abs=0.04)


def test_certify():
    X, Y = rows(2)
    clf = MaxMargin(soft_margin=1.0)
    alone = [certify(clf.fit(X, y), X, y) for y in Y.T]
    found = certify(clf.fit(X, Y), X, Y)
    np.testing.assert_allclose(
        [each.margin for each in found.classes], [each.margin for each in alone], rtol=1e-2
    )


@pytest.mark.parametrize("as_sparse", [False, True])
def test_a_fit(as_sparse):
    X, Y = rows(3, size=300)
    given = sparse.csr_matrix(Y) if as_sparse else Y.astype(bool)
    clf = PassiveAggressive(C=0.1, random_state=0).fit(X, given)
    assert ((clf.predict(X) == Y).mean(axis=0) > 0.8).all()
    wrong = (clf.predict(X) != Y).any(axis=1).sum()
    assert 0 < wrong < 100
    assert clf.n_mistakes_ >= wrong


def test_mistakes_are_rows_with_a_wrong_label():
    X, Y = np.eye(3), np.array([[1, 1], [0, 0], [1, 0]])
    clf = Perceptron(fit_intercept=False, shuffle=False).partial_fit(X, Y)
    assert clf.n_mistakes_ == 3  # all outputs are 0 at first
    clf.partial_fit(X, Y)
    assert clf.n_mistakes_ == 3
    clf.partial_fit(X, 1 - Y)
    assert clf.n_mistakes_ == 6


def test_going_on(tmp_path):
    X, Y = rows(2)
    whole = Perceptron().partial_fit(X, Y)
    parts = Perceptron().partial_fit(X[:20], Y[:20])
    maxmargin.save(parts, tmp_path / "model.mm")
    parts = maxmargin.load(tmp_path / "model.mm").partial_fit(X[20:40], Y[20:40])
    for x, y in zip(X[40:], Y[40:], strict=True):
        parts.learn_one(x, y)
    np.testing.assert_array_equal(parts.coef_, whole.coef_)
    assert parts.predict_one(X[0]) == whole.predict(X[:1])[0].tolist()
    exact = MaxMargin().fit(X, Y)
    maxmargin.save(exact, tmp_path / "exact.mm")
    np.testing.assert_array_equal(
        maxmargin.load(tmp_path / "exact.mm").predict(X), exact.predict(X)
    )


@pytest.mark.parametrize(
    ("learner", "message"),
    [
        (AMIRA(), "multiclass='ovr'"),
        (PUMMA(kernel="rbf"), "kernel='linear'"),
        (Perceptron(budget=10), "budget=None"),
        (Perceptron(class_weight="balanced"), "class_weight=None"),
        (MaxMargin(class_weight="balanced"), "class_weight=None"),
        (Forgetron(), "another learner"),
        (FixedShare(), "another learner"),
        (BisectionPerceptron(), "another learner"),
        (NOCA(), "1d array"),
    ],
    ids=repr,
)
def test_who_cannot(learner, message):
    with pytest.raises(ValueError, match=message):
        learner.fit(*rows())


def test_what_is_refused():
    X, Y = rows(3)
    with pytest.raises(ValueError, match="same value of label 1"):
        Perceptron().fit(X, Y * [1, 0, 1])
    clf = Perceptron().partial_fit(X, Y)
    with pytest.raises(ValueError, match="2 labels a row, but 3 are expected"):
        clf.partial_fit(X, Y[:, :2])
    with pytest.raises(ValueError, match="several labels a row, as before"):
        clf.partial_fit(X, Y[:, 0])
    with pytest.raises(ValueError, match="one label a row, as before"):
        Perceptron().partial_fit(X, Y[:, 0], [0, 1]).partial_fit(X, Y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        clf.partial_fit(X, Y[:5])
    with pytest.raises(ValueError, match="grow=False"):
        Perceptron().partial_fit(X, Y, grow=True)
