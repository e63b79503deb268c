"""The expert of `AutoMargin` with a full matrix: when it leaves, and that its matrix stays one."""

import math

import numpy as np
import pytest
from extent import EVERYTHING
from reference_mixture import EXPERTS, mixture
from scipy import sparse
from scipy.special import expit

import maxmargin
from maxmargin import AutoMargin
from maxmargin.core.array_fields import blank
from maxmargin.core.numba_backend import Compiled
from maxmargin.experts.expert_steps import LOGISTIC, expert_step
from maxmargin.experts.full_matrix import FullMatrix
from maxmargin.persistence.model_tree import leaves_of
from maxmargin.training.protocol import state_of

LIMIT = 4


def full_of(clf):
    return state_of(clf).model.experts.full


def together(rows=400, width=3, seed=0):
    """The label is a small difference of two columns that are nearly the same."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(rows, width))
    X[:, 1] = X[:, 0] + 0.1 * X[:, 1]
    return X, (X[:, 1] > X[:, 0]).astype(int)


def assert_same(one, other):
    ours, theirs = (leaves_of(state_of(clf).model) for clf in (one, other))
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        np.testing.assert_array_equal(array, theirs[name], err_msg=name)


def test_columns_that_act_together():
    X, codes = together(2000)
    wrong = {}
    for columns in (64, 0):
        odds = AutoMargin(full_matrix_columns=columns).score_then_learn(
            X, codes, np.arange(2000, dtype=np.int32), classes=[0, 1]
        )[0]
        wrong[columns] = ((odds[:, 0] >= 0.0) != codes).sum()
    assert 2 * wrong[64] < wrong[0]


def test_without_it_the_others_are_the_mixture():
    X, codes = together(120)
    clf = AutoMargin(full_matrix_columns=0)
    odds = clf.score_then_learn(X, codes, np.arange(120, dtype=np.int32), classes=[0, 1])[0]
    wanted, shares, _ = mixture(X, 2 * codes - 1, experts=EXPERTS[1:])
    np.testing.assert_allclose(odds[:, 0], wanted, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(clf.weights_[0], [0.0, *shares], rtol=1e-7, atol=1e-10)


def late(rows=90, seed=0):
    """Names come one after another, and some only when the expert has learned for long."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(rows, 7))
    codes = (X[:, 0] + X[:, 1] > 0.0).astype(int) + (X[:, 2] > 0.5)
    for j in range(7):
        X[: 12 * j, j] = 0.0
    return X, codes


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_it_leaves_with_a_column_too_many_however_rows_come(kernel):
    X, codes = late()
    parameters = {"kernel": kernel, "n_components": 8, "random_state": 0}
    ours = AutoMargin(full_matrix_columns=LIMIT, **parameters)
    for x, code in zip(X, codes.tolist(), strict=True):
        ours.learn_one({j: v for j, v in enumerate(x) if v != 0.0}, code, grow=True)
        has_left = bool(full_of(ours).left[0])
        assert has_left == (x[LIMIT] != 0.0)
        np.testing.assert_allclose(ours.weights_.sum(axis=1), 1.0, rtol=1e-12)
        assert (ours.weights_[:, 0] == 0.0).all() == has_left
    for rows in (X, sparse.csr_matrix(X)):
        theirs = AutoMargin(full_matrix_columns=LIMIT, **parameters)
        for start, stop in ((0, 30), (30, 49), (49, 90)):
            theirs.partial_fit(rows[start:stop], codes[start:stop], grow=True)
        np.testing.assert_array_equal(ours.weights_, theirs.weights_)
        np.testing.assert_array_equal(ours.decision_function(X), theirs.decision_function(X))


def test_its_weight_goes_to_the_others_in_proportion():
    X, codes = late()
    clf = AutoMargin(full_matrix_columns=LIMIT).partial_fit(X[:40], codes[:40], classes=range(3))
    mixture = state_of(clf).model.experts.mixture
    before = mixture.weights.copy()
    mixture.dismiss_first()
    others = before[:, 1:] / before[:, 1:].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(mixture.weights[:, 1:], others, rtol=1e-13)


@pytest.mark.parametrize("stop", [30, 90])
def test_it_is_saved_before_and_after_it_leaves(tmp_path, stop):
    X, codes = late()
    clf = AutoMargin(full_matrix_columns=LIMIT).partial_fit(X[:stop], codes[:stop], grow=True)
    maxmargin.save(clf, tmp_path / "model.mm")
    other = maxmargin.load(tmp_path / "model.mm")
    assert_same(clf, other)
    for each in (clf, other):
        each.partial_fit(X, codes, grow=True)
    assert_same(clf, other)


def test_a_matrix_that_is_none_is_refused():
    X, codes = together(60)
    model = state_of(AutoMargin().partial_fit(X, codes, classes=[0, 1])).model
    assert model.invalid_reason() == ""
    model.experts.full.variances[0, 1, 2] += 0.5
    assert "not symmetric" in model.invalid_reason()


@Compiled
def learn_often(full, entries, labels, rounds):
    """The expert alone, on rows in turn."""
    for n in range(rounds):
        i = n % labels.size
        for s in range(full.values.size):
            full.values[s] = entries[i, s]
        full.predict_full(0)
        score, variance = full.measures[0], full.measures[1]
        step, gain = expert_step(LOGISTIC, 1.0, labels[i] * score, variance, 1.0)
        full.push_full(0, labels[i] * step, gain)


@pytest.mark.compiled
@pytest.mark.parametrize("gap", [0.0, 1e-6, 1.0])
def test_matrices_stay_positive_definite(gap):
    """Of columns that are equal, nearly equal, and independent; with noise, so that all gain."""
    random, slots = np.random.default_rng(0), 6
    entries = random.normal(size=(5003, slots))
    entries[:, 0] = 1.0
    entries[:, 2:] = entries[:, 1:2] + gap * entries[:, 2:]
    labels = np.where(random.uniform(size=5003) < expit(entries[:, 1]), 1.0, -1.0)
    sizes = {"problems": 1, "slots": slots, "coordinates": slots}
    full = blank(FullMatrix, sizes, limit=slots - 1, width=slots - 1)
    rounds = 10**7 if EVERYTHING else 10**6
    learn_often(full, entries, labels, rounds)
    found = full.variances[0]
    np.testing.assert_array_equal(found, found.T)
    np.linalg.cholesky(found)
    least = np.linalg.eigvalsh(found)[0]
    assert 0.0 < least < 10.0 / math.sqrt(rounds)
    # The inverse of the Hessian matrix at the end, nearly that along the way.
    chances = expit(entries @ full.weights[0])
    hessian = (entries.T * (chances * (1.0 - chances))) @ entries / len(entries)
    wanted = np.linalg.inv(np.eye(slots) + rounds * hessian)
    np.testing.assert_allclose(found, wanted, rtol=0.1, atol=0.1 * np.abs(wanted).max())
